//! The options of lstf, read as its parser `github.com/spf13/pflag` 1.0.5 does.
//!
//! pflag differs from `getopt_long`: no prefixes of long names; `-f=public` as well as `-fpublic`; switches that take a
//! value (`-n=false`); an option whose value must be attached (`-w=3`; `-w 3` is `-w` and an operand); words that begin
//! with `-test.` are skipped.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The options of a command line. Of repeated options the last counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) numeric: bool,
    pub(super) processes: bool,
    /// Seconds between listings; 0: one listing.
    pub(super) watch: i64,
    pub(super) json: bool,
    pub(super) filter: Option<OsString>,
    pub(super) version: bool,
    pub(super) credits: bool,
    pub(super) debug: bool,
    /// Words that are not flags. They have no effect.
    pub(super) operands: Vec<OsString>,
}

/// Why reading stopped before the end of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FlagError {
    /// Help was requested.
    Help,
    /// pflag's error message, which lstf itself does not print.
    Invalid(String),
}

/// A flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flag {
    Numeric,
    Processes,
    Watch,
    Json,
    Filter,
    Version,
    Credits,
    Debug,
}

const FLAGS: &[(&str, Option<u8>, Flag)] = &[
    ("numeric", Some(b'n'), Flag::Numeric),
    ("processes", Some(b'p'), Flag::Processes),
    ("watch", Some(b'w'), Flag::Watch),
    ("json", None, Flag::Json),
    ("filter", Some(b'f'), Flag::Filter),
    ("version", None, Flag::Version),
    ("credits", None, Flag::Credits),
    ("debug", None, Flag::Debug),
];

impl Flag {
    /// The value of a flag without one; `None` if it requires one.
    const fn bare(self) -> Option<&'static [u8]> {
        match self {
            Self::Filter => None,
            Self::Watch => Some(b"3"),
            _ => Some(b"true"),
        }
    }

    /// `-w, --watch`
    fn spelled(self) -> String {
        FLAGS
            .iter()
            .find(|(.., flag)| *flag == self)
            .map(|(name, letter, _)| match letter {
                Some(letter) => format!("-{}, --{name}", char::from(*letter)),
                None => format!("--{name}"),
            })
            .unwrap_or_default()
    }
}

impl Flags {
    /// Reads the words up to the first error.
    pub(super) fn read(words: &[OsString]) -> Result<Self, FlagError> {
        let mut flags = Self::default();
        let mut words: VecDeque<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        while let Some(word) = words.pop_front() {
            match word {
                b"--" => {
                    let rest = words.drain(..).map(|word| OsString::from_vec(word.to_vec()));
                    flags.operands.extend(rest);
                }
                [b'-', b'-', body @ ..] => flags.long(word, body, &mut words)?,
                [b'-', letters @ ..] if !letters.is_empty() => flags.short(letters, &mut words)?,
                operand => flags.operands.push(OsString::from_vec(operand.to_vec())),
            }
        }
        Ok(flags)
    }

    fn long(&mut self, word: &[u8], body: &[u8], words: &mut VecDeque<&[u8]>) -> Result<(), FlagError> {
        if body.starts_with(b"-") || body.starts_with(b"=") {
            return Err(FlagError::Invalid(format!("bad flag syntax: {}", lossy(word))));
        }
        let mut parts = body.splitn(2, |byte| *byte == b'=');
        let name = parts.next().unwrap_or_default();
        let known = FLAGS.iter().find(|(known, ..)| known.as_bytes() == name);
        let Some(&(.., flag)) = known else {
            return Err(match name {
                b"help" => FlagError::Help,
                _ => FlagError::Invalid(format!("unknown flag: --{}", lossy(name))),
            });
        };
        let value = parts.next().or(flag.bare()).or_else(|| words.pop_front());
        let missing = || FlagError::Invalid(format!("flag needs an argument: {}", lossy(word)));
        self.set(flag, value.ok_or_else(missing)?)
    }

    fn short(&mut self, mut letters: &[u8], words: &mut VecDeque<&[u8]>) -> Result<(), FlagError> {
        while let [letter, rest @ ..] = letters {
            if letters.starts_with(b"test.") {
                return Ok(());
            }
            let known = FLAGS.iter().find(|(_, known, _)| *known == Some(*letter));
            let Some(&(.., flag)) = known else {
                return Err(match letter {
                    b'h' => FlagError::Help,
                    _ => FlagError::Invalid(format!(
                        "unknown shorthand flag: {:?} in -{}",
                        char::from(*letter),
                        lossy(letters)
                    )),
                });
            };
            let missing = || {
                let letter = char::from(*letter);
                FlagError::Invalid(format!(
                    "flag needs an argument: {letter:?} in -{}",
                    lossy(letters)
                ))
            };
            let value;
            (value, letters) = match (rest, flag.bare()) {
                // `-f=` gives the value "=".
                ([b'=', value @ ..], _) if !value.is_empty() => (value, &[][..]),
                (_, Some(bare)) => (bare, rest),
                ([], None) => (words.pop_front().ok_or_else(missing)?, rest),
                (_, None) => (rest, &[][..]),
            };
            self.set(flag, value)?;
        }
        Ok(())
    }

    fn set(&mut self, flag: Flag, value: &[u8]) -> Result<(), FlagError> {
        let refused = |function: &str, reason: &str| {
            let (value, flag) = (lossy(value), flag.spelled());
            FlagError::Invalid(format!(
                "invalid argument {value:?} for {flag:?} flag: strconv.{function}: parsing {value:?}: {reason}"
            ))
        };
        let switch = match flag {
            Flag::Watch => {
                self.watch = parse_int(value).map_err(|reason| refused("ParseInt", reason))?;
                return Ok(());
            }
            Flag::Filter => {
                self.filter = Some(OsString::from_vec(value.to_vec()));
                return Ok(());
            }
            Flag::Numeric => &mut self.numeric,
            Flag::Processes => &mut self.processes,
            Flag::Json => &mut self.json,
            Flag::Version => &mut self.version,
            Flag::Credits => &mut self.credits,
            Flag::Debug => &mut self.debug,
        };
        *switch = parse_bool(value).ok_or_else(|| refused("ParseBool", SYNTAX))?;
        Ok(())
    }
}

/// Go's `strconv.ParseBool`.
pub(super) fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Some(false),
        _ => None,
    }
}

/// Go's `strconv.ParseInt` with the base in the number: `0x1f`, `0b11`, `0o17`, `017`; `1_000`.
fn parse_int(text: &[u8]) -> Result<i64, &'static str> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (base, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', b'b' | b'B', rest @ ..] => (2, rest),
        [b'0', b'o' | b'O', rest @ ..] => (8, rest),
        // The 0 is the base prefix, so that an underscore may follow it.
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        digits => (10, digits),
    };
    let mut value: i128 = 0;
    let mut after_digit = base != 10;
    let mut has_digits = false;
    for byte in digits {
        if *byte == b'_' {
            if !after_digit {
                return Err(SYNTAX);
            }
            after_digit = false;
            continue;
        }
        let digit = char::from(*byte).to_digit(base).ok_or(SYNTAX)?;
        value = value.saturating_mul(base.into()).saturating_add(digit.into());
        (after_digit, has_digits) = (true, true);
    }
    if !has_digits || !after_digit {
        return Err(SYNTAX);
    }
    i64::try_from(if negative { -value } else { value }).map_err(|_| "value out of range")
}

const SYNTAX: &str = "invalid syntax";

fn lossy(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags, FlagError> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Flags::read(&words)
    }

    #[track_caller]
    fn check(line: &str, expected: Flags) {
        assert_eq!(read(line), Ok(expected), "{line}");
    }

    #[track_caller]
    fn check_error(line: &str, expected: &str) {
        assert_eq!(read(line), Err(FlagError::Invalid(expected.to_owned())), "{line}");
    }

    #[test]
    fn values_are_attached_or_follow() {
        let filter = |text: &str| Flags {
            filter: Some(text.into()),
            ..Flags::default()
        };
        for line in [
            "-f public",
            "-fpublic",
            "-f=public",
            "--filter public",
            "--filter=public",
        ] {
            check(line, filter("public"));
        }
        check("-f=", filter("="));
        check("--filter=", filter(""));
        check("-f all -f private", filter("private"));
        let watch = |seconds| Flags {
            watch: seconds,
            ..Flags::default()
        };
        check("-w", watch(3));
        check("--watch", watch(3));
        check("-w=7", watch(7));
        check("--watch=-7", watch(-7));
        let with_operand = Flags {
            operands: vec!["7".into()],
            ..watch(3)
        };
        check("-w 7", with_operand);
        check_error("-w7", "unknown shorthand flag: '7' in -7");
    }

    #[test]
    fn bundles_switches_and_operands_are_separated() {
        let both = || Flags {
            numeric: true,
            processes: true,
            ..Flags::default()
        };
        check("-np", both());
        check("-n -p=T", both());
        check("-n -test.v --processes", both());
        check("-np --json --json=false", both());
        let with_operands = Flags {
            operands: vec!["-".into(), "x".into(), "-y".into()],
            ..both()
        };
        check("- -np x -- -y", with_operands);
        check_error("-n=", "unknown shorthand flag: '=' in -=");
        check_error(
            "-n=maybe",
            r#"invalid argument "maybe" for "-n, --numeric" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        );
    }

    #[test]
    fn first_error_is_reported() {
        assert_eq!(read("-n --help --bad"), Err(FlagError::Help));
        assert_eq!(read("-ph"), Err(FlagError::Help));
        check_error("--bad --help", "unknown flag: --bad");
        check_error("--num", "unknown flag: --num");
        check_error("---n", "bad flag syntax: ---n");
        check_error("--=n", "bad flag syntax: --=n");
        check_error("-v", "unknown shorthand flag: 'v' in -v");
        check_error("-nf", "flag needs an argument: 'f' in -f");
        check_error("--filter", "flag needs an argument: --filter");
        check_error(
            "-w=3s",
            r#"invalid argument "3s" for "-w, --watch" flag: strconv.ParseInt: parsing "3s": invalid syntax"#,
        );
    }

    #[test]
    fn integers_are_parsed_as_in_go() {
        for (text, value) in [
            ("0", 0),
            ("+5", 5),
            ("-5", -5),
            ("0x1F", 31),
            ("0b11", 3),
            ("0o17", 15),
            ("017", 15),
            ("0_7", 7),
            ("0x_1", 1),
            ("1_000", 1000),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_int(text.as_bytes()), Ok(value), "{text}");
        }
        for text in [
            "", "-", "+-1", "3s", "1__0", "1_", "_1", "08", "0x", "0b2", "1.5", " 1",
        ] {
            assert_eq!(parse_int(text.as_bytes()), Err(SYNTAX), "{text}");
        }
        assert!(parse_int(b"9223372036854775808").is_err_and(|reason| reason != SYNTAX));
    }
}
