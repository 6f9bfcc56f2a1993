//! Options as GNU's `getopt_long` reads them.
//!
//! clap reads Sockeye's own options. A drop-in has to accept what its original accepts: bundles (`-tanp`), values attached
//! to their option (`-Atcp`), unambiguous prefixes of long names (`--num`), operands between options; and it has to
//! report errors in the original's words, as in glibc's `posix/getopt.c`.
//!
//! Written here although `getopts` (two packages more) and `lexopt` (one) exist. Neither takes unambiguous prefixes of long names,
//! and neither reports errors in glibc's words, which scripts compare.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Whether an option has an argument (`no_argument` and `required_argument` of `getopt.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    /// None.
    No,
    /// The rest of the word, or the next word.
    Required,
}

/// The options of a tool.
#[derive(Debug)]
pub(crate) struct OptionTable<'a, K> {
    /// Options of one character: `-t`.
    pub(crate) short: &'a [(u8, Argument, K)],
    /// Options with a name: `--tcp`.
    pub(crate) long: &'a [(&'static str, Argument, K)],
}

/// Reads the words of a command line: options one by one, then the operands.
#[derive(Debug)]
pub(crate) struct OptionReader<'a, K> {
    known: &'a OptionTable<'a, K>,
    /// Words not read yet.
    words: VecDeque<OsString>,
    /// Letters of the current bundle that are not read yet.
    bundle: VecDeque<u8>,
    operands: Vec<OsString>,
    /// Whether the first operand ends the options (`POSIXLY_CORRECT`).
    posix: bool,
}

impl<'a, K: Copy + PartialEq> OptionReader<'a, K> {
    pub(crate) fn new(known: &'a OptionTable<'a, K>, words: &[OsString]) -> Self {
        Self {
            known,
            words: words.iter().cloned().collect(),
            bundle: VecDeque::new(),
            operands: Vec::new(),
            posix: std::env::var_os("POSIXLY_CORRECT").is_some(),
        }
    }

    /// Returns the operands in their order. To be called after [`Self::next`] has returned `None`.
    pub(crate) fn operands(self) -> Vec<OsString> {
        self.operands
    }

    /// Returns the next option, with its argument if it has one.
    pub(crate) fn next(&mut self) -> Option<Result<(K, Option<OsString>), OptionError>> {
        if let Some(letter) = self.bundle.pop_front() {
            return Some(self.short(letter));
        }
        while let Some(word) = self.words.pop_front() {
            match word.as_bytes() {
                b"--" => {
                    self.operands.extend(self.words.drain(..));
                    return None;
                }
                [b'-', b'-', name @ ..] => return Some(self.long(name)),
                [b'-', letter, rest @ ..] => {
                    self.bundle = rest.iter().copied().collect();
                    return Some(self.short(*letter));
                }
                _ => {
                    self.operands.push(word);
                    if self.posix {
                        self.operands.extend(self.words.drain(..));
                    }
                }
            }
        }
        None
    }

    fn short(&mut self, letter: u8) -> Result<(K, Option<OsString>), OptionError> {
        let found = self.known.short.iter().find(|(known, ..)| *known == letter);
        let Some(&(_, argument, option)) = found else {
            return Err(OptionError::InvalidLetter(letter));
        };
        let value = match argument {
            Argument::No => None,
            Argument::Required if !self.bundle.is_empty() => {
                Some(OsString::from_vec(self.bundle.drain(..).collect()))
            }
            Argument::Required => Some(
                self.words
                    .pop_front()
                    .ok_or(OptionError::ShortNeedsValue(letter))?,
            ),
        };
        Ok((option, value))
    }

    fn long(&mut self, word: &[u8]) -> Result<(K, Option<OsString>), OptionError> {
        let mut parts = word.splitn(2, |byte| *byte == b'=');
        let name = parts.next().unwrap_or_default();
        let attached = parts.next();
        let (name, argument, option) = self.find(name, word)?;
        let value = match (argument, attached) {
            (Argument::No, None) => None,
            (Argument::No, Some(_)) => return Err(OptionError::NoValueAllowed(name)),
            (Argument::Required, Some(value)) => Some(OsStr::from_bytes(value).to_owned()),
            (Argument::Required, None) => {
                Some(self.words.pop_front().ok_or(OptionError::LongNeedsValue(name))?)
            }
        };
        Ok((option, value))
    }

    /// Finds the option with this name, or the only one whose name begins with it. Several that mean the same are one.
    fn find(&self, name: &[u8], word: &[u8]) -> Result<(&'static str, Argument, K), OptionError> {
        let all = self.known.long;
        if let Some(exact) = all.iter().find(|(known, ..)| known.as_bytes() == name) {
            return Ok(*exact);
        }
        let mut begin = all
            .iter()
            .filter(|(known, ..)| known.as_bytes().starts_with(name));
        let first = begin.next();
        match first {
            None => Err(OptionError::Unrecognized(lossy(word))),
            Some(first) if begin.all(|(_, argument, option)| (*argument, *option) == (first.1, first.2)) => {
                Ok(*first)
            }
            Some(first) => {
                // glibc leaves out other names of the first candidate.
                let names = all
                    .iter()
                    .filter(|(known, argument, option)| {
                        let differs = (*argument, *option) != (first.1, first.2);
                        known.as_bytes().starts_with(name) && (*known == first.0 || differs)
                    })
                    .map(|(known, ..)| *known)
                    .collect();
                Err(OptionError::Ambiguous(lossy(word), names))
            }
        }
    }
}

fn lossy(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// An invalid option, with `getopt_long`'s message; the caller puts the tool's name and a colon before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OptionError {
    InvalidLetter(u8),
    ShortNeedsValue(u8),
    LongNeedsValue(&'static str),
    NoValueAllowed(&'static str),
    Unrecognized(String),
    Ambiguous(String, Vec<&'static str>),
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidLetter(letter) => write!(f, "invalid option -- '{}'", char::from(*letter)),
            Self::ShortNeedsValue(letter) => {
                write!(f, "option requires an argument -- '{}'", char::from(*letter))
            }
            Self::LongNeedsValue(name) => write!(f, "option '--{name}' requires an argument"),
            Self::NoValueAllowed(name) => write!(f, "option '--{name}' doesn't allow an argument"),
            Self::Unrecognized(word) => write!(f, "unrecognized option '--{word}'"),
            Self::Ambiguous(word, names) => {
                write!(f, "option '--{word}' is ambiguous; possibilities:")?;
                names.iter().try_for_each(|name| write!(f, " '--{name}'"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: OptionTable<'_, char> = OptionTable {
        short: &[
            (b't', Argument::No, 't'),
            (b'n', Argument::No, 'n'),
            (b'A', Argument::Required, 'A'),
        ],
        long: &[
            ("numeric", Argument::No, 'n'),
            ("numerical", Argument::No, 'n'),
            ("nope", Argument::No, 'N'),
            ("socket", Argument::Required, 'A'),
            ("query", Argument::Required, 'A'),
            ("summary", Argument::No, 's'),
            ("context", Argument::No, 'Z'),
            ("contexts", Argument::No, 'z'),
        ],
    };

    /// Checks options with their arguments, operands, and the first error.
    fn check(line: &str, options: &str, operands: &str, error: Option<&str>) {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut words = OptionReader::new(&KNOWN, &words);
        let (mut found, mut wrong) = (Vec::new(), None);
        while let Some(option) = words.next() {
            match option {
                Ok((key, None)) => found.push(key.to_string()),
                Ok((key, Some(value))) => found.push(format!("{key}={}", value.display())),
                Err(error) => {
                    wrong.get_or_insert(error.to_string());
                }
            }
        }
        let rest: Vec<_> = words
            .operands()
            .iter()
            .map(|word| word.display().to_string())
            .collect();
        assert_eq!(
            (
                found.join(" ").as_str(),
                rest.join(" ").as_str(),
                wrong.as_deref()
            ),
            (options, operands, error),
            "{line}"
        );
    }

    #[test]
    fn bundles_arguments_and_operands_are_separated() {
        check("-tn state", "t n", "state", None);
        check("sport = :22 -tAudp -n", "t A=udp n", "sport = :22", None);
        check("-A tcp -- -t", "A=tcp", "-t", None);
        check("-A -t - -n", "A=-t n", "-", None);
        check("-A=tcp", "A==tcp", "", None);
    }

    #[test]
    fn unambiguous_prefixes_of_long_names_are_accepted() {
        check("--num --socket=tcp --query udp", "n A=tcp A=udp", "", None);
        check("--socket= x", "A=", "x", None);
        check("--context", "Z", "", None);
    }

    #[test]
    fn errors_have_the_words_of_glibc() {
        check("-ty", "t", "", Some("invalid option -- 'y'"));
        check("-tA", "t", "", Some("option requires an argument -- 'A'"));
        check("--socket", "", "", Some("option '--socket' requires an argument"));
        check(
            "--numeric=3",
            "",
            "",
            Some("option '--numeric' doesn't allow an argument"),
        );
        check("--zzz=3", "", "", Some("unrecognized option '--zzz=3'"));
        check(
            "--s",
            "",
            "",
            Some("option '--s' is ambiguous; possibilities: '--socket' '--summary'"),
        );
        check(
            "--con",
            "",
            "",
            Some("option '--con' is ambiguous; possibilities: '--context' '--contexts'"),
        );
        check(
            "--n",
            "",
            "",
            Some("option '--n' is ambiguous; possibilities: '--numeric' '--nope'"),
        );
    }
}
