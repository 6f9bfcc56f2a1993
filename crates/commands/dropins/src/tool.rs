//! Other tools' names, under which we answer as they do: `sockeye ss -tan`, or a link called `ss`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// A tool that we stand in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Of iproute2
    Ss,
    /// Of net-tools
    Netstat,
    /// `github.com/yuuki/lstf`
    Lstf,
}

impl Tool {
    /// Which tool is meant, and the words for it: the name that we were called by counts, then the first word.
    pub fn called(words: &[OsString]) -> Option<(Self, &[OsString])> {
        let (program, rest) = words.split_first()?;
        if let Some(tool) = Path::new(program).file_name().and_then(Self::named) {
            return Some((tool, rest));
        }
        let (command, rest) = rest.split_first()?;
        Some((Self::named(command)?, rest))
    }

    /// Runs the tool with its arguments.
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
    fn the_name_counts_then_the_first_word() {
        let check = |line: &str, expected: Option<(Tool, usize)>| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let found = Tool::called(&words).map(|(tool, rest)| (tool, rest.len()));
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
