//! The binary under test: how it is run, and what it said.
#![allow(dead_code)] // Each test file uses a part of this.

pub(crate) mod asked;
pub(crate) mod serving;

use serde_json::Value;
use sockeye_lab::Namespace;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

pub(crate) const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");

/// How it ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Runs it with these arguments, here.
#[track_caller]
pub(crate) fn sockeye<S: AsRef<OsStr>>(arguments: &[S]) -> Said {
    run(command().args(arguments))
}

/// Runs it with these words, here.
#[track_caller]
pub(crate) fn words(line: &str) -> Said {
    run(command().args(line.split_whitespace()))
}

/// Runs it with these words in a namespace.
#[track_caller]
pub(crate) fn words_in(namespace: &Namespace, line: &str) -> Said {
    let mut command = command();
    command.args(line.split_whitespace());
    namespace.run(|| run(&mut command))
}

/// The binary, with an environment that does not depend on who tests.
pub(crate) fn command() -> Command {
    let mut command = Command::new(SOCKEYE);
    clean(&mut command);
    command
}

pub(crate) fn clean(command: &mut Command) {
    command.env_remove("NO_COLOR").env("TERM", "xterm");
}

#[track_caller]
pub(crate) fn run(command: &mut Command) -> Said {
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    Said {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: output.stderr,
    }
}

impl Said {
    /// Its stdout; it must have ended well.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self}");
        self.no_panic();
        std::str::from_utf8(&self.stdout).expect("stdout is UTF-8")
    }

    /// Its stdout; it must have ended well and in silence.
    #[track_caller]
    pub(crate) fn quiet(&self) -> &str {
        assert_eq!(self.error(), "", "{self}");
        self.ok()
    }

    /// Its stderr.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        std::str::from_utf8(&self.stderr).expect("stderr is UTF-8")
    }

    /// Its stderr; it must have failed with this exit status and without a listing.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self}");
        assert!(self.stdout.is_empty(), "{self}");
        self.no_panic();
        self.error()
    }

    /// Its stdout as a JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    #[track_caller]
    pub(crate) fn no_panic(&self) {
        assert!(!self.error().contains("panicked"), "{self}");
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .chars()
                .take(3000)
                .collect::<String>()
        };
        write!(
            f,
            "exit status {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.code,
            text(&self.stdout),
            text(&self.stderr)
        )
    }
}

/// Panics if `text` holds anything that steers a terminal; lines are allowed.
#[track_caller]
pub(crate) fn assert_harmless(text: &[u8]) {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let steering = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(steering, None, "{text:?}");
}

/// The sockets of a JSON listing.
#[track_caller]
pub(crate) fn sockets(document: &Value) -> &Vec<Value> {
    document["sockets"].as_array().expect("a list of sockets")
}
