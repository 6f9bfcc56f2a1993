//! The real `netstat` and ours, one after the other on the same sockets.

use sockeye_lab::{Namespace, Skip, program};
use std::fmt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

pub(crate) const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");

/// Skips unless the peer is the one that we stand in for.
pub(crate) fn netstat() -> Result<(), Skip> {
    program("netstat")?;
    let version = Command::new("netstat").arg("-V").output().unwrap();
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    if text.starts_with("net-tools 2.10\n") {
        Ok(())
    } else {
        Err(Skip::new("the netstat here is not that of net-tools 2.10"))
    }
}

/// What one of them wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stdout = String::from_utf8_lossy(&self.stdout);
        write!(f, "exit {:?}\n{stdout}--- stderr\n{}", self.code, self.stderr)
    }
}

impl Outcome {
    /// Its lines sorted, with the times of running timers masked, and the order of its tables. What else may move
    /// between two runs is not masked: then the two runs of the original differ too, and both are tried again.
    pub(crate) fn comparable(&self) -> (Option<i32>, Vec<String>, Vec<String>, String) {
        let text: String = self
            .stdout
            .utf8_chunks()
            .map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii()))
            .collect();
        let mut lines: Vec<String> = text.split('\n').map(mask_timer).collect();
        let mut order: Vec<String> = lines
            .iter()
            .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        order.dedup();
        lines.sort_unstable();
        (self.code, lines, order, self.stderr.clone())
    }
}

/// `keepalive (1767.52/0/0)` -> `keepalive (TIME/0/0)`: `off` runs nowhere and stays.
fn mask_timer(line: &str) -> String {
    for kind in ["on (", "keepalive (", "timewait (", "probe ("] {
        if let Some((before, after)) = line.split_once(kind)
            && let Some((time, counts)) = after.split_once('/')
            && time
                .split_once('.')
                .is_some_and(|(_, hundredths)| hundredths.len() == 2)
        {
            return format!("{before}{kind}TIME/{counts}");
        }
    }
    line.to_owned()
}

/// A command for the original, and one for ours.
pub(crate) fn both(words: &[&str], source: Option<&str>) -> (Command, Command) {
    let mut real = Command::new("netstat");
    real.args(words);
    let mut ours = Command::new(SOCKEYE);
    ours.arg("netstat");
    if let Some(source) = source {
        ours.args(["--source", source]);
    }
    ours.args(words);
    for command in [&mut real, &mut ours] {
        command.env("LC_ALL", "C").stdin(Stdio::null());
    }
    (real, ours)
}

/// Compares all they say in a namespace. What the original says must be the same before and after.
#[track_caller]
pub(crate) fn compare(namespace: &Namespace, line: &str, source: Option<&str>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    compare_with(&words, source, &|command| {
        namespace.run(|| command.output()).unwrap().into()
    });
}

/// The same, run in another way.
#[track_caller]
pub(crate) fn compare_with(words: &[&str], source: Option<&str>, run: &dyn Fn(&mut Command) -> Outcome) {
    let (mut real, mut ours) = both(words, source);
    for try_number in 1.. {
        let before = run(&mut real);
        let found = run(&mut ours);
        let after = run(&mut real);
        if found.comparable() == before.comparable() || found.comparable() == after.comparable() {
            return;
        }
        if before.comparable() != after.comparable() && try_number < TRIES {
            // The host changed meanwhile, and nothing shows when it will be at rest.
            std::thread::sleep(Duration::from_millis(50 * try_number));
            continue;
        }
        let (_, expected, ..) = before.comparable();
        let (_, lines, ..) = found.comparable();
        let missing: Vec<_> = expected.iter().filter(|line| !lines.contains(line)).collect();
        let extra: Vec<_> = lines.iter().filter(|line| !expected.contains(line)).collect();
        panic!(
            "netstat {words:?}, source {source:?}\nmissing {missing:#?}\nextra {extra:#?}\n\
             --- the original\n{before}--- ours\n{found}"
        );
    }
}

/// Prints how much was compared, past the test runner's capture.
pub(crate) fn report(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs it where the files of `folder` are all there is of `/proc/net`.
pub(crate) fn with_files(folder: &Path, command: &Command) -> Outcome {
    let mut inside = Command::new("unshare");
    inside
        .args(["--mount", "sh", "-c"])
        .arg(
            "mount -t tmpfs sockeye-test /proc && mkdir /proc/net && cp -r \"$0\"/. /proc/net && exec \"$@\"",
        )
        .arg(folder)
        .arg(command.get_program())
        .args(command.get_args())
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    inside.output().unwrap().into()
}

/// Runs it in a namespace where `folder/hosts` and `folder/networks` are all that names addresses: the name server is
/// one that refuses at once.
pub(crate) fn with_names(namespace: &Namespace, folder: &Path, command: &Command) -> Outcome {
    let mut inside = Command::new("unshare");
    inside
        .args(["--mount", "sh", "-c"])
        .arg(
            "cd \"$0\" && for file in hosts networks resolv.conf; do mount --bind $file /etc/$file || exit 9; done && exec \"$@\"",
        )
        .arg(folder)
        .arg(command.get_program())
        .args(command.get_args())
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    std::fs::write(folder.join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
    let outcome: Outcome = namespace.run(|| inside.output()).unwrap().into();
    assert_ne!(outcome.code, Some(9), "{outcome}");
    outcome
}

const TRIES: u64 = 20;
