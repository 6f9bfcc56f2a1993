//! `sockeye explain`: the dictionary, asked.

pub mod output;
use crate::output::{ExplainLayout, ExplainedLog, push_entries, push_explained, push_explained_log};
use anyhow::Context;
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::Usage;
use sockeye_dictionary::{Dictionary, Found, Kind, Log, Severity};
use sockeye_output::{Format, harmless};
use sockeye_sys::interrupts::Interrupts;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a message, counter, drop reason, setting, state or error of the kernel means, its causes, what to do
///
/// Takes a name in any spelling, or a line as a tool or the log shows it; without a word it reads a log from the standard
/// input, whatever wrote it (dmesg, syslog, the journal), and tells what it knows of it, the worst first. Asks no network.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Read this log; `-` is the standard input
    #[arg(short = 'f', long, value_name = "FILE|-", conflicts_with_all = ["list", "text"])]
    file: Option<PathBuf>,
    /// List all entries of a kind: message, counter, drop-reason, setting, state, timer, column, tcp-info, error or all
    #[arg(long, value_name = "KIND", value_parser = kinds, conflicts_with = "text")]
    list: Option<Kinds>,
    /// Of a log: show nothing that is less bad than this: info, notice, warning or critical
    #[arg(long, value_name = "SEVERITY", default_value = "info")]
    severity: Severity,
    /// Of a log: all that is known also of what is harmless, and where messages come from
    #[arg(short = 'v', long)]
    verbose: bool,
    /// In which form
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    format: FormatArg,
    /// Leave out the header line of CSV
    #[arg(short = 'H', long)]
    no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    color: ColorArg,
    /// A name, or a line of a log or of a tool
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
}

/// Of which entries there is to be a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    One(Kind),
}

/// Explains names, or the lines of a log.
///
/// # Errors
/// If an option is wrong, a file cannot be read, or output failed.
pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let layout = ExplainLayout {
        format: Format::from(args.format),
        style: stdout::style(args.color),
        width: stdout::width(),
        no_header: args.no_header,
        is_detailed: args.verbose,
    };
    let dictionary = Dictionary::new();
    if let Some(kinds) = args.list {
        list(&dictionary, kinds, &layout)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = args.text.join(" ");
    let file = match &args.file {
        Some(file) => Some(file.as_path()),
        None if args.text.is_empty() => Some(Path::new("-")),
        None => None,
    };
    let Some(file) = file else {
        let found = dictionary.find(&text);
        // A log, whose name was typed without its flag.
        if found.entries.is_empty()
            && let [path] = &args.text[..]
            && Path::new(path).is_file()
        {
            explain_log(&dictionary, Path::new(path), args, &layout)?;
            return Ok(ExitCode::SUCCESS);
        }
        return tell(&text, &found, &layout);
    };
    if file == Path::new("-") && args.file.is_none() && io::stdin().is_terminal() {
        let text = "sockeye: explain: what? A name or a line of a log (sockeye explain CLOSE_WAIT), or a log: dmesg | sockeye explain\n";
        return Err(Usage(text.to_owned()).into());
    }
    explain_log(&dictionary, file, args, &layout)?;
    Ok(ExitCode::SUCCESS)
}

fn list(dictionary: &Dictionary, kinds: Kinds, layout: &ExplainLayout) -> anyhow::Result<()> {
    let wanted: Vec<_> = dictionary
        .entries()
        .iter()
        .filter(|entry| kinds == Kinds::All || kinds == Kinds::One(entry.kind))
        .collect();
    let mut out = Vec::new();
    push_entries(&mut out, &wanted, layout);
    stdout::write(&out)
}

fn tell(text: &str, found: &Found<'_>, layout: &ExplainLayout) -> anyhow::Result<ExitCode> {
    let mut out = Vec::new();
    push_explained(&mut out, text, found, layout);
    stdout::write(&out)?;
    if !found.entries.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut said = format!(
        "sockeye: explain: \"{}\" is not in the dictionary",
        harmless(shortened(text).as_bytes())
    );
    if found.near.is_empty() {
        said.push_str("; `sockeye explain --list all` shows what is\n");
    } else {
        said.push_str("; near it is\n");
        for entry in &found.near {
            said.push_str(&format!(
                "  {}  {}: {}\n",
                entry.name,
                entry.kind,
                entry.first_sentence()
            ));
        }
    }
    notes::say(&said);
    Ok(ExitCode::FAILURE)
}

/// The beginning of a text that is too long to be said back.
fn shortened(text: &str) -> String {
    if text.chars().count() <= SAID_BACK_MAX {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(SAID_BACK_MAX).collect();
    short.push_str("...");
    short
}

fn explain_log(
    dictionary: &Dictionary,
    path: &Path,
    args: &ExplainArgs,
    layout: &ExplainLayout,
) -> anyhow::Result<()> {
    let mut log = dictionary.log();
    let catch = || Interrupts::catch().context("wait for signals");
    let is_whole = if path == Path::new("-") {
        read(io::stdin(), &mut log, &catch()?).context("read the standard input")?
    } else {
        // A FIFO may wait here, and is to be left by ^C.
        let file = File::open(path).with_context(|| format!("open {path:?}"))?;
        read(file, &mut log, &catch()?).with_context(|| format!("read {path:?}"))?
    };
    let mut met = log.met();
    let all = met.len();
    met.retain(|met| met.entry.severity.unwrap_or(Severity::Info) >= args.severity);
    let explained = ExplainedLog {
        count: log.count(),
        hidden: all - met.len(),
        met,
        interrupted: !is_whole,
    };
    let mut out = Vec::new();
    push_explained_log(&mut out, &explained, layout);
    stdout::write(&out)
}

/// Tells a log line by line; true if it came to its end, false if somebody ended it before.
fn read(mut input: impl Read + AsFd, log: &mut Log<'_>, interrupts: &Interrupts) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK_LEN];
    // The beginning of a line whose end is in the next chunk.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let mut polled = [
            PollFd::new(&input, PollFlags::IN),
            PollFd::new(interrupts, PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_interrupted = interrupts.caught().is_some();
        // A read could wait for ever.
        let outcome = if is_interrupted {
            Ok(0)
        } else {
            input.read(&mut chunk)
        };
        let length = match outcome {
            Ok(length) => length,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        if length == 0 {
            if !begun.is_empty() {
                log.line(&begun);
            }
            return Ok(!is_interrupted);
        }
        for piece in chunk[..length].split_inclusive(|&byte| byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if begun.is_empty() && is_whole {
                log.line(piece);
                continue;
            }
            // What no log writes is not kept either.
            let room = LINE_LEN_MAX.saturating_sub(begun.len());
            begun.extend_from_slice(&piece[..piece.len().min(room)]);
            if is_whole {
                log.line(&begun);
                begun.clear();
            }
        }
    }
}

fn kinds(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds::All);
    }
    Kind::from_name(text).map(Kinds::One).ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        format!("expected {names} or all")
    })
}

const CHUNK_LEN: usize = 256 * 1024;
const LINE_LEN_MAX: usize = 16 * 1024;
const SAID_BACK_MAX: usize = 80;

const EXAMPLES: &str = "\
Examples:
  sockeye explain TcpExtListenOverflows           a counter, as nstat or /proc/net/netstat names it
  sockeye explain net.ipv4.tcp_tw_reuse           a setting
  sockeye explain SKB_DROP_REASON_TCP_OFOMERGE    why a packet was dropped
  sockeye explain CLOSE_WAIT                      a state; ENOBUFS: an error; Recv-Q: a column; tcpi_rto: a field
  sockeye explain 'TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.'
  dmesg | sockeye explain                         what the log says, the worst first
  journalctl -k | sockeye explain --severity warning
  sockeye explain -f /var/log/kern.log
  sockeye explain --list drop-reason

Exit status: 0 fine, 1 not in the dictionary or something failed, 2 a mistake on the command line.";
