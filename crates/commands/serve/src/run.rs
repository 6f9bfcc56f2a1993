//! Starts the threads: one takes samples, one looks for findings, one answers requests.

use crate::access::{Gate, Origin, Secret, certificate};
use crate::announce;
use crate::args::ServeArgs;
use crate::fleet::Fleet;
use crate::history::History;
use crate::moments::Moments;
use crate::recorded::Recorded;
use crate::routes::{self, Page};
use crate::sampler;
use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sockeye_console::exit::InUse;
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_http::{TlsIdentity, TlsListener};
use sockeye_query::context::QueryContext;
use sockeye_query::past;
use sockeye_store::StoreReader;
use sockeye_sys::interrupts::Interrupts;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;

/// Serves the page until ^C.
///
/// # Errors
/// If an option is wrong, the address cannot be listened on, nothing can be sampled, or output failed.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let secret = secret(&args)?;
    let identity = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(certificate::read(certificate, key)?),
        _ => None,
    };
    let fleet = Fleet::of(&args.fleet)?;
    let interrupts = Interrupts::catch().context("handle SIGINT")?;
    let context = Arc::new(QueryContext::new(&args.listing(), false, true)?);
    let listener = TcpListener::bind(args.listen)
        .map_err(InUse::of_address)
        .with_context(|| format!("--listen {}", args.listen))?;
    let address = listener
        .local_addr()
        .context("read the address of the listener")?;
    let origin = args
        .public_url
        .clone()
        .unwrap_or_else(|| Origin::of_address(address, identity.is_some()));
    let bytes = usize::try_from(args.max_memory << 20).unwrap_or(usize::MAX);
    let moments = Arc::new(Moments::new(args.sample_interval, bytes));
    let gate = Gate::new(origin, secret);
    let recorded = recorded(&args)?;
    // Nothing that was typed can be wrong any more: who sees the URL can open it.
    announce::print_url(&gate)?;
    let page = Page::new(
        gate,
        History::new(Arc::clone(&moments), recorded),
        Arc::clone(&context),
        fleet,
        args.listing_words(),
    );
    let args = Arc::new(args);
    let (ends, end) = mpsc::channel();
    let sampler = (Arc::clone(&args), Arc::clone(&moments));
    start("sampler", &ends, move || {
        sampler::sample(&sampler.0, &context, &sampler.1).map_err(End::Failed)
    })?;
    if !args.check_interval.is_zero() {
        start("checker", &ends, move || {
            sampler::check(&args, &moments);
            Ok(())
        })?;
    }
    start("server", &ends, move || {
        serve(listener, identity, Arc::new(page)).map_err(End::Failed)
    })?;
    start("interrupts", &ends, move || Err(caught(interrupts)))?;
    // The other threads end with the process.
    match end.recv() {
        Ok(End::Failed(error)) => Err(error),
        Ok(End::Interrupted) | Err(_) => Ok(()),
    }
}

/// Finds the store of `record`. Only one that is named has to exist.
fn recorded(args: &ServeArgs) -> anyhow::Result<Option<Recorded>> {
    let path = match &args.store {
        Some(named) => named.clone(),
        None => match past::readable_store(None) {
            Ok(found) if found.exists() => found,
            _ => return Ok(None),
        },
    };
    match StoreReader::open(&path) {
        Ok(_) => Recorded::new(path, args.listing()).map(Some),
        Err(error) if args.store.is_some() => Err(error.into()),
        Err(error) => {
            say(&format!(
                "sockeye: what was recorded cannot be read now: {error}\n"
            ));
            // It is opened for each question: later it may be possible.
            Recorded::new(path, args.listing()).map(Some)
        }
    }
}

/// Why the server ends.
enum End {
    Interrupted,
    Failed(anyhow::Error),
}

/// Starts a thread that reports why it ends.
fn start(
    name: &str,
    ends: &mpsc::Sender<End>,
    work: impl FnOnce() -> Result<(), End> + Send + 'static,
) -> anyhow::Result<()> {
    let ends = ends.clone();
    let report = move || {
        if let Err(end) = work() {
            // Another one was first.
            drop(ends.send(end));
        }
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(report);
    started
        .map(|_| ())
        .with_context(|| format!("start the thread {name}"))
}

/// Waits for ^C or another signal that ends the program.
fn caught(interrupts: Interrupts) -> End {
    loop {
        match poll(&mut [PollFd::new(&interrupts, PollFlags::IN)], None) {
            Err(Errno::INTR) => {}
            Ok(_) => return End::Interrupted,
            Err(errno) => return End::Failed(std::io::Error::from(errno).into()),
        }
    }
}

/// Answers requests until the process ends.
fn serve(listener: TcpListener, identity: Option<TlsIdentity>, page: Arc<Page>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("start the server")?;
    runtime.block_on(async {
        listener.set_nonblocking(true).context("start the server")?;
        let listener = tokio::net::TcpListener::from_std(listener).context("start the server")?;
        let answer = move |request| routes::answer(Arc::clone(&page), request);
        match identity {
            Some(identity) => sockeye_http::serve(TlsListener::new(listener, identity), answer).await,
            None => sockeye_http::serve(listener, answer).await,
        }
        Ok(())
    })
}

/// Reads the secret, and checks that others than this host reach the page only with it and through TLS.
fn secret(args: &ServeArgs) -> anyhow::Result<Option<Secret>> {
    if !args.listen.ip().is_loopback() && !is_guarded(args) {
        let text = format!(
            "sockeye: --listen {}: others can reach this address, and read along what is sent to it: it needs a certificate \
             (--tls-cert FILE --tls-key FILE) or a proxy that has one (--behind-proxy --public-url https://NAME), and a secret \
             (--secret-file FILE). For yourself: ssh -L\n",
            args.listen
        );
        return Err(UsageError(text).into());
    }
    if args.tls_cert.is_some() {
        check_public_url(args)?;
    }
    args.secret_file.as_deref().map(Secret::read).transpose()
}

/// Whether TLS and a secret are between others and the page.
fn is_guarded(args: &ServeArgs) -> bool {
    let is_by_tls = args.public_url.as_ref().is_some_and(|origin| origin.is_https);
    (args.tls_cert.is_some() || args.behind_proxy && is_by_tls) && args.secret_file.is_some()
}

/// Checks that the page has a URL that browsers can open with TLS.
fn check_public_url(args: &ServeArgs) -> Result<(), UsageError> {
    let problem = match &args.public_url {
        Some(origin) if !origin.is_https => "--public-url: with --tls-cert it begins with https://",
        None if args.listen.ip().is_unspecified() => {
            "--listen: of all addresses --public-url has to name the one that browsers open"
        }
        _ => return Ok(()),
    };
    Err(UsageError(format!("sockeye: {problem}\n")))
}

/// Threads for answers that are computed and names that are looked up.
const BLOCKING_THREADS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches as _};

    #[test]
    fn public_url_without_tls_is_no_guard() {
        for (url, expected) in [("https://a.example", true), ("http://a.example", false)] {
            let words = [
                "serve",
                "--behind-proxy",
                "--secret-file",
                "FILE",
                "--public-url",
                url,
            ];
            let matches = ServeArgs::augment_args(Command::new("serve")).get_matches_from(words);
            let args = ServeArgs::from_arg_matches(&matches).unwrap();
            assert_eq!(is_guarded(&args), expected, "{url}");
        }
    }

    fn args(words: &[&str]) -> ServeArgs {
        let command = ServeArgs::augment_args(Command::new("serve"));
        let matches = command.get_matches_from(["serve"].iter().chain(words));
        ServeArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn certificate_guards_only_with_a_secret_and_a_url_that_browsers_open() {
        let tls = ["--tls-cert", "CERT", "--tls-key", "KEY"];
        let with = |more: &[&str]| args(&[&tls[..], more].concat());
        assert!(!is_guarded(&with(&[])));
        assert!(is_guarded(&with(&["--secret-file", "FILE"])));
        assert!(check_public_url(&with(&["--listen", "10.0.0.5:7117"])).is_ok());
        let all = ["--listen", "0.0.0.0:7117"];
        assert!(check_public_url(&with(&all)).is_err());
        let named = |url| check_public_url(&with(&[&all[..], &["--public-url", url]].concat()));
        assert!(named("https://a.example:7117").is_ok());
        assert!(named("http://a.example:7117").is_err());
    }
}
