//! Which tool a command line asks for: `sockeye ss -tan`, or a link called `ss`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// A tool that this crate replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `ss` of iproute2.
    Ss,
    /// `netstat` of net-tools.
    Netstat,
    /// `lstf` of `github.com/yuuki/lstf`.
    Lstf,
}

impl Tool {
    /// Returns the tool and its arguments; `None` for a command of Sockeye itself. The file name of `words[0]` decides, then
    /// the first argument.
    pub fn from_command_line(words: &[OsString]) -> Option<(Self, &[OsString])> {
        let (program, rest) = words.split_first()?;
        if let Some(tool) = Path::new(program).file_name().and_then(Self::named) {
            return Some((tool, rest));
        }
        let (command, rest) = rest.split_first()?;
        Some((Self::named(command)?, rest))
    }

    /// Runs the tool with its arguments and returns its exit status.
    pub fn run(self, words: &[OsString]) -> ExitCode {
        match self {
            Self::Ss => crate::ss::run(words),
            Self::Netstat => crate::netstat::run(words),
            Self::Lstf => crate::lstf::run(words),
        }
    }

    fn named(name: &OsStr) -> Option<Self> {
        match name.to_str()? {
            "ss" => Some(Self::Ss),
            "netstat" => Some(Self::Netstat),
            "lstf" => Some(Self::Lstf),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_decides_before_first_argument() {
        let check = |line: &str, expected: Option<(Tool, usize)>| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let found = Tool::from_command_line(&words).map(|(tool, rest)| (tool, rest.len()));
            assert_eq!(found, expected, "{line}");
        };
        check("/usr/local/bin/ss -t state", Some((Tool::Ss, 2)));
        check("sockeye netstat -s", Some((Tool::Netstat, 1)));
        check("./lstf", Some((Tool::Lstf, 0)));
        check("sockeye s -t", None);
        check("sockeye", None);
        check("sockeye -t ss", None);
    }
}
