//! Serves or writes each sample.

use super::answer::answer;
use super::args::PrometheusArgs;
use super::endpoint::{Endpoint, Listening};
use super::hosts::Hosts;
use super::published::Published;
use super::textfile;
use crate::output::Exposition;
use crate::sampling::{EventSelection, repeat};
use anyhow::Context;
use hyper::Request;
use hyper::body::Incoming;
use sockeye_console::addresses::PROMETHEUS;
use sockeye_console::notes::say;
use sockeye_console::output_file::OutputFile;
use std::sync::Arc;
use std::thread;

/// Exports until it is ended.
pub(crate) fn run(args: &PrometheusArgs) -> anyhow::Result<()> {
    let mut endpoint = endpoint(args);
    if let Some(endpoint) = &endpoint {
        endpoint.check(args.allow_remote)?;
    }
    if let Some(path) = &args.textfile {
        OutputFile::delete_left_over(path);
    }
    let published = Arc::new(Published::default());
    let hosts = Hosts {
        are_all_permitted: args.allow_remote || matches!(endpoint, Some(Endpoint::Unix(_))),
        names: args.allow_host.clone(),
    };
    let mut socket_name = None;
    let outcome = repeat(
        &args.samples,
        args.once,
        EventSelection::default(),
        &mut |metrics, _| {
            let exposition = Exposition::of(metrics).context("write the metrics")?;
            if let Some(path) = &args.textfile {
                textfile::write(path, &exposition.text)?;
            }
            published.set(exposition);
            // A client that connects finds a sample.
            if let Some(endpoint) = endpoint.take() {
                let (listening, name) = endpoint.listen()?;
                let url = listening.url().context("read the address of the listener")?;
                start(listening, Arc::clone(&published), hosts.clone())?;
                say(&format!("sockeye: metrics are at {url}\n"));
                socket_name = name;
            }
            Ok(())
        },
    );
    drop(socket_name);
    outcome
}

/// Returns where to listen; `None`: nowhere.
fn endpoint(args: &PrometheusArgs) -> Option<Endpoint> {
    let default = Endpoint::Tcp(PROMETHEUS);
    args.listen.clone().or(args.textfile.is_none().then_some(default))
}

/// Starts the thread that answers requests until the process ends.
fn start(listening: Listening, published: Arc<Published>, hosts: Hosts) -> anyhow::Result<()> {
    let work = move || {
        if let Err(error) = serve(listening, published, hosts) {
            say(&format!("sockeye: {error:#}\n"));
        }
    };
    let started = thread::Builder::new().name("server".to_owned()).spawn(work);
    started.map(drop).context("start the thread of the server")
}

fn serve(listening: Listening, published: Arc<Published>, hosts: Hosts) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("start the server")?;
    let answer = move |request: Request<Incoming>| {
        let answer = answer(
            &published,
            &hosts,
            request.method(),
            request.uri().path(),
            request.headers(),
        );
        async { answer }
    };
    runtime.block_on(async {
        match listening {
            Listening::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                sockeye_http::serve(tokio::net::TcpListener::from_std(listener)?, answer).await;
            }
            Listening::Unix(listener) => {
                listener.set_nonblocking(true)?;
                sockeye_http::serve(tokio::net::UnixListener::from_std(listener)?, answer).await;
            }
        }
        Ok(())
    })
}
