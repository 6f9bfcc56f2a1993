//! Commands of ours that keys start: they ask for nothing, and their last line is shown.

use crate::args::TopArgs;
use crate::state::Command;
use crate::state::table::SocketId;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};

/// What a command printed.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A line.
    Message(String),
    /// A text to read.
    Text(String),
}

/// A capture that runs, and the file that it writes.
#[derive(Debug)]
pub(crate) struct Capture {
    /// `None` once it is waited for.
    child: Option<Child>,
    /// Whether it is to end, or has: a second signal would end it before its file is written, or reach another process.
    is_ending: bool,
    pub(crate) file: String,
}

impl Capture {
    /// Starts to capture what a filter selects.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub(crate) fn begin(
        args: &TopArgs,
        socket: SocketId,
        filter: &str,
        clock: &str,
    ) -> std::io::Result<Self> {
        let file = free_name(clock, is_there);
        let child = plain(&["capture", "-i", "any", "-o", &file, filter])
            .args(netns_words(args.common.netns.as_deref(), socket))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            child: Some(child),
            is_ending: false,
            file,
        })
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        let has_ended = child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
        self.is_ending |= has_ended;
        has_ended
    }

    /// Ends it, waits until its file is written, and returns what it says.
    pub(crate) fn end(mut self) -> String {
        self.interrupt();
        let output = self.child.take().map(Child::wait_with_output);
        let said = match output {
            Some(Ok(output)) => captured(&message(&output.stdout, &output.stderr), &self.file),
            Some(Err(error)) => error.to_string(),
            None => String::new(),
        };
        format!("{}: {said}", self.file)
    }

    /// Makes it end.
    pub(crate) fn interrupt(&mut self) {
        if std::mem::replace(&mut self.is_ending, true) {
            return;
        }
        let pid = self.child.as_ref().map(Child::id);
        let pid = pid.and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().ok()?));
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
}

/// However this program ends, the capture does: it writes what it has, and ends by itself.
impl Drop for Capture {
    fn drop(&mut self) {
        self.interrupt();
    }
}

/// Whether there is a file of this name.
pub(crate) fn is_there(name: &str) -> bool {
    Path::new(name).symlink_metadata().is_ok()
}

/// Returns the name of a file that is not there: no capture overwrites an earlier one.
fn free_name(clock: &str, is_there: impl Fn(&str) -> bool) -> String {
    let clock = clock.replace(':', "");
    let mut name = format!("sockeye-top-{clock}.pcapng");
    let mut number = 2;
    while is_there(&name) {
        name = format!("sockeye-top-{clock}-{number}.pcapng");
        number += 1;
    }
    name
}

/// Returns the option with the namespace of a capture, which has one: that of the socket, where all are listed.
fn netns_words(listed: Option<&str>, socket: SocketId) -> Option<String> {
    match listed {
        Some("all") => socket.netns.map(|netns| format!("-N{}", netns.0)),
        netns => netns.map(|netns| format!("-N{netns}")),
    }
}

/// Runs a command to its end.
pub(crate) fn run(args: &TopArgs, command: &Command, last_capture: Option<&str>) -> Outcome {
    let cookie = |socket: &crate::state::table::SocketId| format!("cookie = {}", socket.cookie.0);
    let words: Vec<String> = match command {
        Command::Kill(socket, _) => ["kill", "--yes", "-ntu", &cookie(socket)]
            .map(str::to_owned)
            .to_vec(),
        Command::Keepalive(socket, _) => ["keepalive", "set", "--yes", "-n", &cookie(socket)]
            .map(str::to_owned)
            .to_vec(),
        Command::Graph => match last_capture {
            Some(file) => ["graph", file, "-o", &format!("{file}.html")]
                .map(str::to_owned)
                .to_vec(),
            None => return Outcome::Message("nothing was captured yet: c captures a connection".to_owned()),
        },
        Command::Explain(words) => vec!["explain".to_owned(), words.clone()],
        Command::Capture(..) => return Outcome::Message(String::new()),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let takes_netns = matches!(command, Command::Kill(..) | Command::Keepalive(..));
    let mut process = if takes_netns {
        process(args, &words)
    } else {
        plain(&words)
    };
    let output = match process.output() {
        Ok(output) => output,
        Err(error) => return Outcome::Message(format!("{}: {error}", words[0])),
    };
    match (command, last_capture) {
        (Command::Explain(_), _) => {
            let said = [output.stdout, output.stderr].concat();
            Outcome::Text(String::from_utf8_lossy(&said).into_owned())
        }
        (Command::Graph, Some(file)) if output.status.success() => {
            Outcome::Message(format!("drawn into {file}.html"))
        }
        _ => Outcome::Message(message(&output.stdout, &output.stderr)),
    }
}

/// Prepares a command for the namespaces of this one.
fn process(args: &TopArgs, words: &[&str]) -> Process {
    let mut process = plain(words);
    if let Some(netns) = &args.common.netns {
        process.args(["-N", netns]);
    }
    process
}

fn plain(words: &[&str]) -> Process {
    let mut process = Process::new("/proc/self/exe");
    process.args(words).stdin(Stdio::null()).env("NO_COLOR", "1");
    process
}

/// Returns the result, which is the last line of the output, and the notes.
fn message(stdout: &[u8], stderr: &[u8]) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
    let result = stdout.lines().rfind(|line| !line.trim().is_empty());
    let notes = stderr
        .lines()
        .map(|line| line.strip_prefix("sockeye: ").unwrap_or(line));
    let all = result.into_iter().chain(notes).map(str::trim);
    let said: Vec<&str> = all.filter(|line| !line.is_empty()).collect();
    sockeye_output::harmless(said.join("; ").as_bytes())
}

/// Returns what a capture has said, without what is known, or not so here: its file, its beginning, ^C, and counts that are 0.
fn captured(said: &str, file: &str) -> String {
    let is_known = |part: &str| {
        part.starts_with("capturing on ")
            || part == "^C ends it"
            || part == "0 dropped by kernel"
            || part.ends_with(" received by filter")
    };
    let in_file = format!(" in \"{file}\"");
    let parts = said.split("; ").filter(|part| !is_known(part));
    let failed = format!("capture: cannot write \"{file}\": ");
    let parts = parts.map(|part| match part.strip_prefix(&failed) {
        Some(reason) => format!("cannot be written: {reason}"),
        None => part.strip_suffix(&in_file).unwrap_or(part).to_owned(),
    });
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_do_not_overwrite_each_other() {
        assert_eq!(free_name("12:00:02", |_| false), "sockeye-top-120002.pcapng");
        let there = ["sockeye-top-120002.pcapng", "sockeye-top-120002-2.pcapng"];
        assert_eq!(
            free_name("12:00:02", |name| there.contains(&name)),
            "sockeye-top-120002-3.pcapng"
        );
    }

    #[test]
    fn capture_is_in_one_namespace() {
        let socket = |netns| SocketId {
            netns,
            cookie: sockeye_model::Cookie(1),
        };
        let seven = socket(Some(sockeye_model::NetnsInode(7)));
        assert_eq!(netns_words(Some("all"), seven).as_deref(), Some("-N7"));
        assert_eq!(netns_words(Some("all"), socket(None)), None);
        assert_eq!(netns_words(Some("web"), seven).as_deref(), Some("-Nweb"));
        assert_eq!(netns_words(None, seven), None);
    }

    #[test]
    fn capture_that_ended_by_itself_is_noticed_and_one_that_runs_is_ended() {
        let capture = |script: &str| Capture {
            child: Process::new("sh")
                .args(["-c", script])
                .stderr(Stdio::piped())
                .spawn()
                .ok(),
            is_ending: false,
            file: "x.pcapng".to_owned(),
        };
        let mut failed = capture("echo sockeye: no right >&2; exit 1");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !failed.has_ended() {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
        assert_eq!(failed.end(), "x.pcapng: no right");
        let begun = std::time::Instant::now();
        let mut running = capture("exec sleep 600");
        assert!(!running.has_ended());
        let child = running.child.as_mut().unwrap();
        let mut output = child.stderr.take().unwrap();
        drop(running);
        // Its end closes the pipe.
        std::io::Read::read_to_end(&mut output, &mut Vec::new()).unwrap();
        assert!(begun.elapsed() < std::time::Duration::from_secs(600));
    }

    #[test]
    fn end_of_a_capture_is_short() {
        let begun = "capturing on any (Linux cooked v2) into \"x.pcapng\"; ^C ends it";
        let check =
            |end: &str, expected| assert_eq!(captured(&format!("{begun}; {end}"), "x.pcapng"), expected);
        check(
            "732 packets captured; 1464 received by filter; 0 dropped by kernel; 94KB in \"x.pcapng\"",
            "732 packets captured; 94KB",
        );
        check(
            "1 packet captured; 9 received by filter; 8 dropped by kernel; 1KB in \"x.pcapng\"",
            "1 packet captured; 8 dropped by kernel; 1KB",
        );
        check(
            "capture: cannot write \"x.pcapng\": No space left on device (os error 28); 9 of 12 captured packets were written",
            "cannot be written: No space left on device (os error 28); 9 of 12 captured packets were written",
        );
    }

    #[test]
    fn message_is_the_result_and_the_notes() {
        let stdout = b"Netid  Local\ntcp    10.0.0.1:80\n1 connection closed\n\n";
        assert_eq!(message(stdout, b""), "1 connection closed");
        let stderr = b"sockeye: kill: 1 connection left out\n  this session needs it\n";
        assert_eq!(
            message(b"", stderr),
            "kill: 1 connection left out; this session needs it"
        );
        assert!(!message(b"", b"\x1b[2Jx").contains('\x1b'));
    }
}
