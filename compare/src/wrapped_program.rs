//! Runs a program in a network namespace: its output, and its processor time measured from outside.
//!
//! Each program is started by a wrapper process, this program once more: [`run_wrapper`]. The wrapper has no
//! other child in its processor time. It ends the program on request, after a timeout, and when the
//! requesting process is gone.

use crate::measure::block_signals;
use crate::netns::enter_private;
use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that makes `bench-compare` the wrapper of one program: [`run_wrapper`].
pub const WRAPPER: &str = "--attend";
/// The argument that makes `bench-compare` hold a namespace: [`hold_namespace`].
pub const HOLD_NETNS: &str = "--hold-netns";

/// A network namespace with loopback up; removed when dropped.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Creates one. `bench_compare` is the program that holds it.
    pub fn new(bench_compare: &Path) -> Result<Self> {
        let mut holder = Command::new(bench_compare)
            .arg(HOLD_NETNS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", bench_compare.display()))?;
        let stdout = holder.stdout.take();
        let namespace = Self { holder };
        let mut line = String::new();
        BufReader::new(stdout.context("no stdout")?)
            .read_line(&mut line)
            .context("reading from the holder of a network namespace")?;
        ensure!(
            line == READY,
            "no network namespace could be made: that takes root (CAP_SYS_ADMIN)"
        );
        Ok(namespace)
    }

    /// The process that holds it.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Bytes that this device has sent.
    pub fn sent_bytes(&self, device: &str) -> Result<u64> {
        let path = format!("/proc/{}/net/dev", self.pid());
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        sent_bytes(&text, device).with_context(|| format!("no device {device} in {path}"))
    }

    fn is_listening(&self, port: u16) -> bool {
        ["tcp", "tcp6"].iter().any(|table| {
            let text = fs::read_to_string(format!("/proc/{}/net/{table}", self.pid()));
            text.is_ok_and(|text| is_listening(&text, port))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Holds a new network namespace until stdin ends, for [`Namespace`].
pub fn hold_namespace() -> Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("prctl(PR_SET_PDEATHSIG)")?;
    if !enter_private()? {
        return Ok(());
    }
    let mut stdout = std::io::stdout();
    stdout
        .write_all(READY.as_bytes())
        .and_then(|()| stdout.flush())
        .context("stdout")?;
    std::io::stdin().read_to_end(&mut Vec::new()).context("stdin")?;
    Ok(())
}

/// A running program; ended when dropped.
#[derive(Debug)]
pub struct WrappedProgram {
    wrapper: Child,
    name: String,
}

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// User and system time of all its threads
    pub cpu_ns: u64,
    /// Stdout and stderr
    pub text: String,
}

impl WrappedProgram {
    /// Starts a program in this namespace; it is killed after `timeout`.
    pub fn start(
        bench_compare: &Path,
        namespace: &Namespace,
        timeout: Duration,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Self> {
        let wrapper = Command::new(bench_compare)
            .arg(WRAPPER)
            .arg(namespace.pid().to_string())
            .arg(timeout.as_millis().to_string())
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("starting the process around {}", program.display()))?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            wrapper,
            name: name.into_owned(),
        })
    }

    /// Waits until it listens on this TCP port; an error if it ends before.
    pub fn listens(mut self, namespace: &Namespace, port: u16) -> Result<Self> {
        let start = Instant::now();
        while !namespace.is_listening(port) {
            let ended = self.wrapper.try_wait().context("looking after a server")?;
            if ended.is_some() || start.elapsed() > LISTENS_WITHIN {
                let (_, output) = self.take()?;
                bail!("it serves nothing: {}", error_line(&output.text));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(self)
    }

    /// Waits for its end; an error unless it exits with 0.
    pub fn wait(mut self) -> Result<ProgramOutput> {
        let (status, output) = self.read()?;
        ensure!(
            status == GOOD,
            "{}: {status}: {}",
            self.name,
            error_line(&output.text)
        );
        Ok(output)
    }

    /// Ends it, whatever its exit status.
    pub fn end(self) -> Result<ProgramOutput> {
        self.take().map(|(_, output)| output)
    }

    fn take(mut self) -> Result<(String, ProgramOutput)> {
        self.terminate();
        self.read()
    }

    fn read(&mut self) -> Result<(String, ProgramOutput)> {
        let mut reply = String::new();
        let mut stdout = self.wrapper.stdout.take().context("no stdout")?;
        stdout
            .read_to_string(&mut reply)
            .context("reading what came of a program")?;
        self.wrapper
            .wait()
            .context("waiting for the process around a program")?;
        parse_reply(&reply).with_context(|| format!("no figures of {} came back", self.name))
    }

    fn terminate(&mut self) {
        // After wait, the pid may belong to another process.
        if let (Ok(None), Ok(pid)) = (self.wrapper.try_wait(), i32::try_from(self.wrapper.id())) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }
}

impl Drop for WrappedProgram {
    fn drop(&mut self) {
        self.terminate();
        drop(self.wrapper.stdout.take());
        let _ = self.wrapper.wait();
    }
}

/// The wrapper of one program: `PID MILLISECONDS PROGRAM ARGUMENTS...`, in the network namespace of that pid;
/// prints the result for [`WrappedProgram`].
pub fn run_wrapper(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut word = || arguments.next().and_then(|word| word.into_string().ok());
    let pid: u32 = word().and_then(|word| word.parse().ok()).context("no pid")?;
    let timeout = word().and_then(|word| word.parse().ok()).context("no patience")?;
    let program = PathBuf::from(word().context("no program")?);
    let signals = block_signals()?;
    let path = format!("/proc/{pid}/ns/net");
    let namespace = fs::File::open(&path).with_context(|| format!("opening {path}"))?;
    setns(namespace, CloneFlags::CLONE_NEWNET).context("setns(CLONE_NEWNET)")?;

    let (mut reader, writer) = std::io::pipe().context("pipe")?;
    let mut child = Command::new(&program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("dup")?)
        .stderr(writer)
        // A new process group, so that ^C reaches only the wrapper.
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let group = Pid::from_raw(i32::try_from(child.id()).context("the program's pid")?);
    let mut deadline = Instant::now() + Duration::from_millis(timeout);
    let (mut text, mut is_late, mut is_requested) = (Vec::new(), false, false);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            is_late = !is_requested;
            // The group id is valid until the child is waited for.
            let _ = killpg(group, Signal::SIGKILL);
            break;
        }
        let timeout = PollTimeout::try_from(left.as_millis().max(1)).unwrap_or(PollTimeout::MAX);
        let mut awaited = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(reader.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut awaited, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("poll"),
        }
        let [asked, readable] = awaited.map(|awaited| awaited.any().unwrap_or(false));
        if asked {
            let _ = signals.read_signal();
            is_requested = true;
            deadline = deadline.min(Instant::now() + ENDS_WITHIN);
            let _ = killpg(group, Signal::SIGTERM);
        }
        if readable {
            let mut buffer = [0; 64 * 1024];
            let len = reader.read(&mut buffer).context("reading the program's output")?;
            if len == 0 {
                break;
            }
            let room = TEXT_BYTES_MAX.saturating_sub(text.len());
            text.extend_from_slice(&buffer[..len.min(room)]);
        }
    }
    let status = child.wait().context("waiting for the program")?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage(RUSAGE_CHILDREN)")?;
    let cpu_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let status = match is_late {
        true => format!("killed after {} s", timeout / 1000),
        false if status.success() => GOOD.to_owned(),
        false => status.to_string(),
    };
    let mut reply = format!("{} {status}\n", cpu_us.unsigned_abs() * 1000).into_bytes();
    reply.extend(text);
    std::io::stdout().write_all(&reply).context("stdout")
}

fn parse_reply(reply: &str) -> Option<(String, ProgramOutput)> {
    let (head, text) = reply.split_once('\n')?;
    let (cpu_ns, status) = head.split_once(' ')?;
    let output = ProgramOutput {
        cpu_ns: cpu_ns.parse().ok()?,
        text: text.to_owned(),
    };
    Some((status.to_owned(), output))
}

/// The line that contains the error, or the first one, with printable characters only.
fn error_line(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.clone().next();
    let line = lines.find(|line| line.to_ascii_lowercase().contains("error"));
    let shown = line
        .or(first)
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control());
    shown.take(120).collect()
}

/// `  lo: RECEIVED 7 more SENT ...` (net/core/net-procfs.c, dev_seq_printf_stats).
fn sent_bytes(net_dev: &str, device: &str) -> Option<u64> {
    let mut lines = net_dev.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.find(|(name, _)| name.trim() == device)?;
    numbers.split_whitespace().nth(8)?.parse().ok()
}

/// `0: ADDRESS:PORT REMOTE STATE ...`, in hexadecimal; 0A is TCP_LISTEN.
fn is_listening(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(words[..], [_, local, _, "0A"] if local.ends_with(&suffix))
    })
}

const READY: &str = "ready\n";
const GOOD: &str = "good";
/// A server that takes longer has failed.
const LISTENS_WITHIN: Duration = Duration::from_secs(5);
/// A program that takes longer to end is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const TEXT_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_tables_are_parsed() {
        let tcp = "  sl  local_address rem_address   st\n   0: 0100007F:145A 00000000:0000 0A 0\n   1: 0100007F:145B 0100007F:145A 01 0\n";
        assert!(is_listening(tcp, 5210));
        assert!(!is_listening(tcp, 5211));
        let dev = "Inter-| Receive\n face |bytes\n    lo: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n  veth:30 3 0 0 0 0 0 0 40 4 0 0 0 0 0 0\n";
        assert_eq!(sent_bytes(dev, "lo"), Some(20));
        assert_eq!(sent_bytes(dev, "veth"), Some(40));
        assert_eq!(sent_bytes(dev, "eth0"), None);
    }

    #[test]
    fn replies_round_trip() {
        let output = ProgramOutput {
            cpu_ns: 12,
            text: "a\nb\n".to_owned(),
        };
        assert_eq!(parse_reply("12 good\na\nb\n"), Some(("good".to_owned(), output)));
        assert_eq!(parse_reply(""), None);
        assert_eq!(error_line("\n\u{1b}[31mred\nmore"), "[31mred");
        assert_eq!(error_line("first\nERROR: in use\n"), "ERROR: in use");
    }
}
