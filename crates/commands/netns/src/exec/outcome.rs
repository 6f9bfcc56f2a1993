use super::{NOT_ENTERED, NOT_STARTED};
use sockeye_model::NetnsName;
use sockeye_output::JsonObject;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// What became of the command in one namespace.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) name: &'a NetnsName,
    pub(super) ending: Ending,
    pub(super) warnings: Vec<String>,
    /// From its entry to its end.
    pub(super) duration: Duration,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited(u8),
    Killed(i32),
    /// With the reason.
    NotEntered(String),
    NotStarted(String),
}

/// The beginning of what a program wrote, up to [`KEPT_MAX`] bytes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Outcome<'_> {
    /// As a shell counts.
    pub(super) fn code(&self) -> u8 {
        match self.ending {
            Ending::Exited(code) => code,
            Ending::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            Ending::NotEntered(_) => NOT_ENTERED,
            Ending::NotStarted(_) => NOT_STARTED,
        }
    }

    /// What has to be said beside its output, if anything.
    pub(super) fn complaint(&self) -> Option<String> {
        match &self.ending {
            Ending::Exited(0) => None,
            Ending::Exited(code) => Some(format!("exit status {code}")),
            Ending::Killed(signal) => Some(format!("killed by signal {signal}")),
            Ending::NotEntered(reason) | Ending::NotStarted(reason) => Some(reason.clone()),
        }
    }

    /// Appends it as a JSON object.
    pub(super) fn push_json(&self, out: &mut Vec<u8>) {
        let mut object = JsonObject::begin(out);
        object.bytes("netns", Some(self.name.as_os_str().as_bytes()));
        match &self.ending {
            Ending::Exited(code) => object.number("exit_code", Some(*code)),
            Ending::Killed(signal) => object.number("signal", u32::try_from(*signal).ok()),
            Ending::NotEntered(reason) | Ending::NotStarted(reason) => object.text("error", Some(reason)),
        }
        let was_started = matches!(self.ending, Ending::Exited(_) | Ending::Killed(_));
        for (name, is_cut, kept) in [
            ("stdout", "stdout_truncated", &self.stdout),
            ("stderr", "stderr_truncated", &self.stderr),
        ] {
            object.bytes(name, was_started.then(|| kept.text()));
            object.boolean(is_cut, kept.is_cut.then_some(true));
        }
        let micros = u64::try_from(self.duration.as_micros()).ok();
        object.number("duration_us", micros);
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
        object.end();
    }
}

impl From<ExitStatus> for Ending {
    fn from(status: ExitStatus) -> Self {
        match status.code() {
            // The kernel hands on eight bits of it.
            Some(code) => Self::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            None => Self::Killed(status.signal().unwrap_or_default()),
        }
    }
}

impl Kept {
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT_MAX - self.bytes.len();
        self.is_cut |= bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Without the half of a character at the cut.
    fn text(&self) -> &[u8] {
        match std::str::from_utf8(&self.bytes) {
            Err(error) if self.is_cut && error.error_len().is_none() => &self.bytes[..error.valid_up_to()],
            _ => &self.bytes,
        }
    }
}

/// So many bytes of a program's stdout, and as many of its stderr, are kept for JSON.
const KEPT_MAX: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(outcome: &Outcome<'_>) -> String {
        let mut out = Vec::new();
        outcome.push_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn outcome(name: &NetnsName, ending: Ending) -> Outcome<'_> {
        Outcome {
            name,
            ending,
            warnings: Vec::new(),
            duration: Duration::from_micros(7),
            stdout: Kept::default(),
            stderr: Kept::default(),
        }
    }

    #[test]
    fn endings() {
        let name = NetnsName::of_file("a\n").unwrap();
        let mut found = outcome(&name, Ending::Exited(3));
        found.stdout.keep(b"x\xff");
        found.warnings = vec!["one".to_owned(), "\"two\"".to_owned()];
        assert_eq!(
            json(&found),
            "{\"netns\":\"a\\n\",\"exit_code\":3,\"stdout\":\"x\u{fffd}\",\"stdout_hex\":\"78ff\",\"stderr\":\"\",\
             \"duration_us\":7,\"warnings\":[\"one\",\"\\\"two\\\"\"]}"
        );
        assert_eq!(found.code(), 3);
        let found = outcome(&name, Ending::Killed(9));
        assert_eq!(found.code(), 137);
        assert!(json(&found).contains("\"signal\":9,"));
        let found = outcome(&name, Ending::NotEntered("gone".to_owned()));
        assert_eq!(
            (found.code(), &*json(&found)),
            (255, "{\"netns\":\"a\\n\",\"error\":\"gone\",\"duration_us\":7}")
        );
    }

    #[test]
    fn much_output_is_cut_between_characters() {
        let mut kept = Kept::default();
        kept.keep(&vec![b'x'; KEPT_MAX - 1]);
        assert!(!kept.is_cut);
        kept.keep("\u{e9}".as_bytes());
        assert!(kept.is_cut);
        assert_eq!((kept.bytes.len(), kept.text().len()), (KEPT_MAX, KEPT_MAX - 1));
        kept.keep(b"more");
        assert_eq!(kept.bytes.len(), KEPT_MAX);
    }
}
