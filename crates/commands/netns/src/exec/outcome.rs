//! The outcome of a program in one namespace.

use sockeye_model::NetnsName;
use sockeye_output::JsonObject;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// The outcome of the program in one namespace.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) name: &'a NetnsName,
    pub(super) ending: Ending,
    pub(super) warnings: Vec<String>,
    /// Time from entering the namespace to the end of the program.
    pub(super) duration: Duration,
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited(u8),
    Killed(i32),
    /// With the reason.
    NotEntered(String),
    NotStarted(String),
}

/// The first [`CAPTURED_MAX`] bytes that a program wrote to stdout or stderr.
#[derive(Debug, Default)]
pub(super) struct Captured {
    bytes: Vec<u8>,
    is_truncated: bool,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(name: &'a NetnsName, ending: Ending) -> Self {
        Self {
            name,
            ending,
            warnings: Vec::new(),
            duration: Duration::ZERO,
            stdout: Captured::default(),
            stderr: Captured::default(),
        }
    }

    /// Returns the exit status, as a shell computes it.
    pub(super) fn code(&self) -> u8 {
        match self.ending {
            Ending::Exited(code) => code,
            Ending::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Ending::NotEntered(_) => NOT_ENTERED,
            Ending::NotStarted(_) => NOT_STARTED,
        }
    }

    /// Returns the description of a failure; `None` for exit status 0.
    pub(super) fn failure(&self) -> Option<String> {
        match &self.ending {
            Ending::Exited(0) => None,
            Ending::Exited(code) => Some(format!("exit status {code}")),
            Ending::Killed(signal) => Some(format!("killed by signal {signal}")),
            Ending::NotEntered(reason) | Ending::NotStarted(reason) => Some(reason.clone()),
        }
    }

    /// Writes it as JSON fields.
    pub(super) fn push_fields(&self, object: &mut JsonObject<'_>) {
        object.bytes("netns", Some(self.name.as_os_str().as_bytes()));
        match &self.ending {
            Ending::Exited(code) => object.number("exit_code", Some(*code)),
            Ending::Killed(signal) => object.number("signal", u32::try_from(*signal).ok()),
            Ending::NotEntered(reason) | Ending::NotStarted(reason) => object.text("error", Some(reason)),
        }
        let was_started = matches!(self.ending, Ending::Exited(_) | Ending::Killed(_));
        for (name, truncated, captured) in [
            ("stdout", "stdout_truncated", &self.stdout),
            ("stderr", "stderr_truncated", &self.stderr),
        ] {
            object.bytes(name, was_started.then(|| captured.text()));
            object.boolean(truncated, captured.is_truncated.then_some(true));
        }
        let nanoseconds = u64::try_from(self.duration.as_nanos()).ok();
        object.number("duration_ns", nanoseconds);
        if !self.warnings.is_empty() {
            let warnings: Vec<_> = self
                .warnings
                .iter()
                .map(|warning| sockeye_output::json_string(warning))
                .collect();
            let list = object.key("warnings");
            list.push(b'[');
            list.extend_from_slice(warnings.join(",").as_bytes());
            list.push(b']');
        }
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            // The kernel reports eight bits of it.
            Some(code) => Self::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            None => Self::Killed(status.signal().unwrap_or_default()),
        }
    }
}

impl Captured {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let free = CAPTURED_MAX - self.bytes.len();
        self.is_truncated |= bytes.len() > free;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(free)]);
    }

    /// Returns the bytes, without an incomplete character at the end of truncated text.
    fn text(&self) -> &[u8] {
        match std::str::from_utf8(&self.bytes) {
            Err(error) if self.is_truncated && error.error_len().is_none() => {
                &self.bytes[..error.valid_up_to()]
            }
            _ => &self.bytes,
        }
    }
}

/// Most bytes of stdout, and of stderr, that JSON has.
const CAPTURED_MAX: usize = 1024 * 1024;
/// Exit status if the program cannot be started, like that of `ip netns exec`.
pub(super) const NOT_STARTED: u8 = 1;
/// Exit status if the namespace cannot be entered, like that of `ip netns exec`.
pub(super) const NOT_ENTERED: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(outcome: &Outcome<'_>) -> String {
        let mut out = Vec::new();
        let mut object = JsonObject::begin(&mut out);
        outcome.push_fields(&mut object);
        object.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn endings_have_their_exit_status_and_json() {
        let name = NetnsName::of_file("a\n").unwrap();
        let mut found = Outcome::new(&name, Ending::Exited(3));
        found.duration = Duration::from_micros(7);
        found.stdout.push(b"x\xff");
        found.warnings = vec!["one".to_owned(), "\"two\"".to_owned()];
        assert_eq!(
            json(&found),
            "{\"netns\":\"a\\n\",\"exit_code\":3,\"stdout\":\"x\u{fffd}\",\"stdout_hex\":\"78ff\",\"stderr\":\"\",\
             \"duration_ns\":7000,\"warnings\":[\"one\",\"\\\"two\\\"\"]}"
        );
        assert_eq!(found.code(), 3);
        let found = Outcome::new(&name, Ending::Killed(9));
        assert_eq!(found.code(), 137);
        assert!(json(&found).contains("\"signal\":9,"));
        let found = Outcome::new(&name, Ending::NotEntered("gone".to_owned()));
        assert_eq!(
            (found.code(), &*json(&found)),
            (255, "{\"netns\":\"a\\n\",\"error\":\"gone\",\"duration_ns\":0}")
        );
    }

    #[test]
    fn long_output_is_truncated_between_characters() {
        let mut captured = Captured::default();
        captured.push(&vec![b'x'; CAPTURED_MAX - 1]);
        assert!(!captured.is_truncated);
        captured.push("\u{e9}".as_bytes());
        assert!(captured.is_truncated);
        assert_eq!(
            (captured.bytes.len(), captured.text().len()),
            (CAPTURED_MAX, CAPTURED_MAX - 1)
        );
        captured.push(b"more");
        assert_eq!(captured.bytes.len(), CAPTURED_MAX);
    }
}
