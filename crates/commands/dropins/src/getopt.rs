//! Options as GNU's `getopt_long` reads them, for those who come with fingers and scripts that know it.
//!
//! clap reads what is ours. A drop-in has to accept what its original accepts: bundles (`-tanp`), values that stick
//! to their option (`-Atcp`), unambiguous beginnings of long names (`--num`), operands in between; and has to
//! refuse in the original's words, as in glibc's `posix/getopt.c`.
//!
//! Written here although `getopts` (two packages more) and `lexopt` (one) exist. Neither takes unambiguous beginnings of long names,
//! and neither refuses in glibc's words, by which scripts know what was wrong.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Whether a value follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// No
    Nothing,
    /// In the same word or the next
    Value,
}

/// What a tool knows: its options of one character, and those with a name.
#[derive(Debug)]
pub(crate) struct Options<K: 'static> {
    /// `-t`
    pub(crate) short: &'static [(u8, Takes, K)],
    /// `--tcp`
    pub(crate) long: &'static [(&'static str, Takes, K)],
}

/// Words of a command line that are being read: options come out one by one, what is left are the operands.
#[derive(Debug)]
pub(crate) struct Words<'a, K: 'static> {
    known: &'a Options<K>,
    left: VecDeque<OsString>,
    /// What is left of a bundle.
    bundle: VecDeque<u8>,
    operands: Vec<OsString>,
    /// The first operand ends the options (`POSIXLY_CORRECT`).
    posix: bool,
}

impl<'a, K: Copy + PartialEq> Words<'a, K> {
    pub(crate) fn new(known: &'a Options<K>, words: &[OsString]) -> Self {
        Self {
            known,
            left: words.iter().cloned().collect(),
            bundle: VecDeque::new(),
            operands: Vec::new(),
            posix: std::env::var_os("POSIXLY_CORRECT").is_some(),
        }
    }

    /// What is no option, in its order. To be asked when no option is left.
    pub(crate) fn operands(self) -> Vec<OsString> {
        self.operands
    }

    /// The next option, with its value if it takes one.
    pub(crate) fn next(&mut self) -> Option<Result<(K, Option<OsString>), Mistake>> {
        if let Some(letter) = self.bundle.pop_front() {
            return Some(self.short(letter));
        }
        while let Some(word) = self.left.pop_front() {
            match word.as_bytes() {
                b"--" => {
                    self.operands.extend(self.left.drain(..));
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
                        self.operands.extend(self.left.drain(..));
                    }
                }
            }
        }
        None
    }

    fn short(&mut self, letter: u8) -> Result<(K, Option<OsString>), Mistake> {
        let found = self.known.short.iter().find(|(known, ..)| *known == letter);
        let Some(&(_, takes, option)) = found else {
            return Err(Mistake::Invalid(letter));
        };
        let value = match takes {
            Takes::Nothing => None,
            Takes::Value if !self.bundle.is_empty() => {
                Some(OsString::from_vec(self.bundle.drain(..).collect()))
            }
            Takes::Value => Some(self.left.pop_front().ok_or(Mistake::ShortWantsValue(letter))?),
        };
        Ok((option, value))
    }

    fn long(&mut self, word: &[u8]) -> Result<(K, Option<OsString>), Mistake> {
        let mut parts = word.splitn(2, |byte| *byte == b'=');
        let name = parts.next().unwrap_or_default();
        let stuck = parts.next();
        let (name, takes, option) = self.named(name, word)?;
        let value = match (takes, stuck) {
            (Takes::Nothing, None) => None,
            (Takes::Nothing, Some(_)) => return Err(Mistake::NoValueAllowed(name)),
            (Takes::Value, Some(value)) => Some(OsStr::from_bytes(value).to_owned()),
            (Takes::Value, None) => Some(self.left.pop_front().ok_or(Mistake::LongWantsValue(name))?),
        };
        Ok((option, value))
    }

    /// The option with this name, or the only one whose name begins so. Several that mean the same are one.
    fn named(&self, name: &[u8], word: &[u8]) -> Result<(&'static str, Takes, K), Mistake> {
        let all = self.known.long;
        if let Some(exact) = all.iter().find(|(known, ..)| known.as_bytes() == name) {
            return Ok(*exact);
        }
        let mut begin = all
            .iter()
            .filter(|(known, ..)| known.as_bytes().starts_with(name));
        let first = begin.next();
        match first {
            None => Err(Mistake::Unrecognized(lossy(word))),
            Some(first) if begin.all(|(_, takes, option)| (*takes, *option) == (first.1, first.2)) => {
                Ok(*first)
            }
            Some(first) => {
                // Whatever means the same as the first is not worth its words.
                let names = all
                    .iter()
                    .filter(|(known, takes, option)| {
                        let differs = (*takes, *option) != (first.1, first.2);
                        known.as_bytes().starts_with(name) && (*known == first.0 || differs)
                    })
                    .map(|(known, ..)| *known)
                    .collect();
                Err(Mistake::Ambiguous(lossy(word), names))
            }
        }
    }
}

fn lossy(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// What `getopt_long` says of a wrong option; the tool's name and a colon go before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    Invalid(u8),
    ShortWantsValue(u8),
    LongWantsValue(&'static str),
    NoValueAllowed(&'static str),
    Unrecognized(String),
    Ambiguous(String, Vec<&'static str>),
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(letter) => write!(f, "invalid option -- '{}'", char::from(*letter)),
            Self::ShortWantsValue(letter) => {
                write!(f, "option requires an argument -- '{}'", char::from(*letter))
            }
            Self::LongWantsValue(name) => write!(f, "option '--{name}' requires an argument"),
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

    const KNOWN: Options<char> = Options {
        short: &[
            (b't', Takes::Nothing, 't'),
            (b'n', Takes::Nothing, 'n'),
            (b'A', Takes::Value, 'A'),
        ],
        long: &[
            ("numeric", Takes::Nothing, 'n'),
            ("numerical", Takes::Nothing, 'n'),
            ("nope", Takes::Nothing, 'N'),
            ("socket", Takes::Value, 'A'),
            ("query", Takes::Value, 'A'),
            ("summary", Takes::Nothing, 's'),
            ("context", Takes::Nothing, 'Z'),
            ("contexts", Takes::Nothing, 'z'),
        ],
    };

    /// Options with their values, operands, and the first mistake.
    fn check(line: &str, options: &str, operands: &str, mistake: Option<&str>) {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut words = Words::new(&KNOWN, &words);
        let (mut found, mut wrong) = (Vec::new(), None);
        while let Some(option) = words.next() {
            match option {
                Ok((key, None)) => found.push(key.to_string()),
                Ok((key, Some(value))) => found.push(format!("{key}={}", value.display())),
                Err(mistake) => {
                    wrong.get_or_insert(mistake.to_string());
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
            (options, operands, mistake),
            "{line}"
        );
    }

    #[test]
    fn bundles_values_and_operands_in_between() {
        check("-tn state", "t n", "state", None);
        check("sport = :22 -tAudp -n", "t A=udp n", "sport = :22", None);
        check("-A tcp -- -t", "A=tcp", "-t", None);
        check("-A -t - -n", "A=-t n", "-", None);
        check("-A=tcp", "A==tcp", "", None);
    }

    #[test]
    fn long_names_may_be_cut_where_they_are_still_clear() {
        check("--num --socket=tcp --query udp", "n A=tcp A=udp", "", None);
        check("--socket= x", "A=", "x", None);
        check("--context", "Z", "", None);
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_glibc() {
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
