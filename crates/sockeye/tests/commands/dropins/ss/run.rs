//! One program on one combination: what it is given, and all it says.

use super::socket_set::SocketSet;
use crate::fixtures::terminal::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockeye_lab::Skip;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The two programs, each under the name `ss`, which error messages and process names repeat.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// The one under test.
    pub(crate) ours: Program,
    pub(crate) real: Program,
}

/// A program, with the words that precede those of every case.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) words: Vec<String>,
}

impl Program {
    fn plain(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            words: Vec::new(),
        }
    }

    /// The program as a command, with its words.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.words);
        command
    }
}

impl Programs {
    /// Sockeye and the real ss.
    pub(crate) fn new(socket_set: &SocketSet) -> Self {
        Self::in_directory(&socket_set.directory)
    }

    /// The same, ours installed in this directory.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        let real = sockeye_lab::program("ss").unwrap();
        let ours = directory.join("ss");
        // Where everybody may execute it. Not by ourselves: see `Lab::copy_for_all_users`.
        let mut install = Command::new("install");
        install.args(["-m", "755", SOCKEYE]).arg(&ours);
        sockeye_lab::output_of(install);
        Self {
            ours: Program::plain(ours),
            real: Program::plain(real),
        }
    }

    /// Sockeye as ss of this release, and that ss: the installed one, or the one that `scripts/peers` unpacks.
    pub(crate) fn of_release(socket_set: &SocketSet, release: &str) -> Result<Self, Skip> {
        let aside = PathBuf::from(format!("/usr/local/lib/sockeye-peers/ss-{release}/ss"));
        let installed = sockeye_lab::program("ss").ok();
        let is_of_release = |path: &PathBuf| {
            let output = Command::new(path).arg("-V").output();
            let wanted = format!("ss utility, iproute2-{release}.");
            output.is_ok_and(|output| output.stdout.starts_with(wanted.as_bytes()))
        };
        let real = installed.into_iter().chain([aside]).find(is_of_release);
        let real = real.ok_or_else(|| {
            Skip::new(format!(
                "no ss of iproute2 {release}; scripts/peers unpacks it where it can"
            ))
        })?;
        let mut programs = Self::in_directory(&socket_set.directory);
        programs.ours.words.push(format!("--compat={release}"));
        programs.real = Program::plain(real);
        Ok(programs)
    }

    /// Ours called by a word, `sockeye ss`.
    pub(crate) fn by_word() -> Self {
        Self {
            ours: Program::plain(SOCKEYE),
            real: Program::plain(sockeye_lab::program("ss").unwrap()),
        }
    }

    /// The real ss against itself.
    pub(crate) fn real_twice() -> Self {
        let real = Program::plain(sockeye_lab::program("ss").unwrap());
        Self {
            ours: real.clone(),
            real,
        }
    }
}

/// One combination: what both programs are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// The second namespace instead of the first.
    pub(crate) there: bool,
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<(&'static str, OsString)>,
    pub(crate) stdin: Vec<u8>,
    pub(crate) stdout: Stdout,
    pub(crate) user: u32,
}

/// Where stdout leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdout {
    Pipe,
    File,
    /// `/dev/full`, where every write fails
    Full,
    /// A terminal of so many columns
    Terminal(u16),
}

impl Case {
    /// Words as one would type them; only single quotes quote.
    pub(crate) fn of(line: &str) -> Self {
        Self {
            there: false,
            words: split(line),
            environment: Vec::new(),
            stdin: Vec::new(),
            stdout: Stdout::Pipe,
            user: 0,
        }
    }

    pub(crate) fn there(mut self) -> Self {
        self.there = true;
        self
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    pub(crate) fn given(mut self, stdin: &str) -> Self {
        self.stdin = stdin.as_bytes().to_vec();
        self
    }

    pub(crate) fn to(mut self, stdout: Stdout) -> Self {
        self.stdout = stdout;
        self
    }

    pub(crate) fn by(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    /// Whether another run at the same time would show: its netlink sockets, or its resolver's.
    pub(crate) fn is_alone(&self) -> bool {
        let mut limited = false;
        for word in self.words.iter().map(|word| word.to_string_lossy()) {
            let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            if let Some(letters) = short {
                if letters.contains(['s', 'r', 'A', 'f', 'F', 'N', 'E', 'K', 'D']) {
                    return true;
                }
                limited |= letters.contains(['t', 'u', 'w', 'x', '0', 'd', 'S', 'M', '4', '6']);
            }
            if word.contains("netlink") || word.starts_with("--re") || word.starts_with("--su") {
                return true;
            }
        }
        !limited
    }

    /// With `-r` the C library asks a name service by a UNIX socket, which the program then finds in its own listing.
    fn resolves(&self) -> bool {
        self.has_letter('r')
            || self
                .words
                .iter()
                .any(|word| word.to_string_lossy().starts_with("--re"))
    }

    /// Whether the counts of `-s` are asked for.
    fn sums_up(&self) -> bool {
        self.has_letter('s')
            || self
                .words
                .iter()
                .any(|word| word.to_string_lossy().starts_with("--su"))
    }

    /// Whether it prints counts of the running kernel that cover the whole host.
    pub(crate) fn counts_the_host(&self) -> bool {
        let from_files = |name: &str| name.starts_with("PROC_");
        self.sums_up()
            && !self
                .environment
                .iter()
                .any(|(name, value)| from_files(name) && value != "/proc")
    }

    fn has_letter(&self, letter: char) -> bool {
        let mut words = self.words.iter().map(|word| word.to_string_lossy());
        words.any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    }

    /// Runs a program on it; the calling thread is in the namespace already.
    pub(crate) fn run(&self, program: &Program, directory: &Path) -> Outcome {
        let mut command = match self.user {
            0 => Command::new(&program.path),
            // Not by `uid`: the standard library then forks with a UNIX socket pair of its own, which shows.
            user => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={user}")]);
                command.args(["--clear-groups", "--"]).arg(&program.path);
                command
            }
        };
        if program.path == Path::new(SOCKEYE) {
            command.arg("ss");
        } else if self.user == 0 {
            command.arg0("ss");
        }
        command.args(&program.words).args(&self.words).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if self.sums_up() {
            settle();
        }
        let known_unix = self.resolves().then(unix_inodes);
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        if self.stdin.is_empty() {
            command.stdin(Stdio::null());
        } else {
            let path = directory.join(format!("stdin-{serial}"));
            fs::write(&path, &self.stdin).unwrap();
            command.stdin(File::open(&path).unwrap());
            fs::remove_file(path).unwrap();
        }
        command.stderr(Stdio::piped());
        let mut file = None;
        let mut terminal = None;
        match self.stdout {
            Stdout::Pipe => {
                command.stdout(Stdio::piped());
            }
            Stdout::Full => {
                command.stdout(File::options().write(true).open("/dev/full").unwrap());
            }
            Stdout::File => {
                let path = directory.join(format!("stdout-{serial}"));
                command.stdout(File::create(&path).unwrap());
                file = Some(path);
            }
            Stdout::Terminal(columns) => {
                let opened = Terminal::new(columns);
                command.stdout(opened.stdio());
                terminal = Some(opened.into_main());
            }
        }
        let mut child = command.spawn().unwrap();
        // No one else may hold the terminal open, or its end is not seen.
        drop(command);
        let stdout = terminal.or_else(|| child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe))));
        let stderr = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let ended = Box::new([stdout, stderr].map(|file| file.map(|file| (file, Vec::new()))));
        let Some([stdout, stderr]) = read_to_end(*ended) else {
            let _ = child.kill();
            let _ = child.wait();
            return Outcome {
                stdout: Vec::new(),
                stderr: HANGS.to_vec(),
                status: ExitStatus::from_raw(9),
                pid: child.id(),
                known_unix,
            };
        };
        let status = child.wait().unwrap();
        let stdout = match file {
            None => stdout,
            Some(path) => {
                let bytes = fs::read(&path).unwrap();
                fs::remove_file(path).unwrap();
                bytes
            }
        };
        // `setpriv` cannot choose the name by which a program is called, and messages begin with it.
        let called = format!("{}: ", program.path.display());
        let stderr = match stderr.strip_prefix(called.as_bytes()) {
            Some(rest) if self.user != 0 => [b"ss: ", rest].concat(),
            _ => stderr,
        };
        Outcome {
            stdout,
            stderr,
            status,
            pid: child.id(),
            known_unix,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.there {
            f.write_str("[there] ")?;
        }
        if self.user != 0 {
            write!(f, "[user {}] ", self.user)?;
        }
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", value.to_string_lossy())?;
        }
        f.write_str("ss")?;
        for word in &self.words {
            let word = word.to_string_lossy();
            if word.is_empty()
                || word.contains([' ', '\n', '(', ')', '!', '&', '|', '<', '>', '*', '\'', '\\', '$'])
            {
                write!(f, " '{word}'")?;
            } else {
                write!(f, " {word}")?;
            }
        }
        if !self.stdin.is_empty() {
            write!(f, " <<< {:?}", String::from_utf8_lossy(&self.stdin))?;
        }
        match self.stdout {
            Stdout::Pipe => Ok(()),
            Stdout::File => f.write_str(" > FILE"),
            Stdout::Full => f.write_str(" > /dev/full"),
            Stdout::Terminal(columns) => write!(f, " (terminal, {columns} columns)"),
        }
    }
}

/// All that a program wrote.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) status: ExitStatus,
    pub(crate) pid: u32,
    /// With `-r` the inodes of the UNIX sockets that were there before.
    pub(crate) known_unix: Option<BTreeSet<String>>,
}

impl Outcome {
    /// Whether it had to be killed.
    pub(crate) fn hangs(&self) -> bool {
        self.stderr == HANGS
    }
}

/// Waits until the kernel has counted off what was closed a moment ago: a netlink socket counts as used until
/// RCU's grace period is over. The calling thread is in the namespace.
fn settle() {
    let used = || fs::read_to_string("/proc/thread-self/net/sockstat").unwrap_or_default();
    let mut last = used();
    let mut steady = 0;
    // Where it does not come to rest, the comparison says so.
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(4));
        let now = used();
        steady = if now == last { steady + 1 } else { 0 };
        if steady == 5 {
            return;
        }
        last = now;
    }
}

/// `Num RefCount Protocol Flags Type St Inode Path`
fn unix_inodes() -> BTreeSet<String> {
    let text = fs::read("/proc/thread-self/net/unix").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let inodes = text.lines().filter_map(|line| line.split_whitespace().nth(6));
    inodes.map(str::to_owned).collect()
}

/// Reads both to their ends; `None` when that takes too long.
fn read_to_end(mut files: [Option<(File, Vec<u8>)>; 2]) -> Option<[Vec<u8>; 2]> {
    let started = Instant::now();
    let mut texts = [Vec::new(), Vec::new()];
    while files.iter().any(Option::is_some) {
        if started.elapsed() > PATIENCE {
            return None;
        }
        let mut fds: Vec<PollFd<'_>> = files
            .iter()
            .flatten()
            .map(|(file, _)| PollFd::new(file, PollFlags::IN))
            .collect();
        let pause = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&pause)).unwrap();
        let mut ready = fds
            .iter()
            .map(|fd| !fd.revents().is_empty())
            .collect::<Vec<_>>()
            .into_iter();
        for (slot, text) in files.iter_mut().zip(&mut texts) {
            let Some((file, bytes)) = slot else { continue };
            if !ready.next().unwrap_or(false) {
                continue;
            }
            let mut buffer = [0; 65536];
            match file.read(&mut buffer) {
                Ok(len) if len > 0 => bytes.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Of a terminal the end is EIO: everyone has closed it.
                _ => {
                    *text = std::mem::take(bytes);
                    *slot = None;
                }
            }
        }
    }
    Some(texts)
}

fn split(line: &str) -> Vec<OsString> {
    let mut words: Vec<String> = Vec::new();
    let mut quoted = false;
    let mut inside = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                if !inside {
                    words.push(String::new());
                    inside = true;
                }
            }
            ' ' if !quoted => inside = false,
            c => {
                if !inside {
                    words.push(String::new());
                    inside = true;
                }
                words.last_mut().unwrap().push(c);
            }
        }
    }
    words.into_iter().map(OsString::from).collect()
}

pub(crate) const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");
const PATIENCE: Duration = Duration::from_secs(30);
const HANGS: &[u8] = b"(hangs, and was killed)\n";
