//! Errors at which `ss` stops.

use crate::error::Quoted;
use std::fmt;

/// An error in a filter.
///
/// Its display form is what `ss` writes to standard error, byte for byte except the final newline; the usage text
/// follows if [`shows_usage`](Self::shows_usage).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseError {
    /// Another token was expected.
    Syntax {
        /// The expected token: `an address`, `')'`
        expected: &'static str,
        /// The token before; `None` at the beginning.
        after: Option<String>,
        /// The token found; `None` at the end of the filter.
        found: Option<String>,
    },
    /// Parentheses, negations or changes between `and` and `or` are nested more deeply than the parser of `ss` allows, or
    /// in rare cases than ours allows, where `ss` would continue.
    TooDeep,
    /// After `src`, `dst`, `sport` or `dport`, or where no word is allowed.
    Host {
        /// The whole word
        word: String,
        /// The error in it
        error: HostError,
    },
    /// After `dev`: neither a name nor an index.
    Device(String),
    /// After `fwmark`: not a number.
    Mark(String),
    /// After `cgroup`: no cgroup has this path.
    Cgroup(String),
    /// A line of the file has 1,023 bytes or more, including its newline.
    LongLine {
        /// Line number, from 1
        line: usize,
    },
    /// A line of the file begins with a NUL.
    InvalidLine {
        /// Line number, from 1
        line: usize,
    },
}

/// An error in an address or port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostError {
    /// Neither an address nor a host name of the required family.
    NotAnAddress(String),
    /// Neither a number nor a service of the listed protocols.
    NotAPort(String),
    /// The service has different ports in TCP and UDP.
    AmbiguousPort(String),
    /// `ss` gives no reason; this was expected.
    Unexplained(&'static str),
}

impl ParseError {
    /// Returns the exit code of `ss`.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Syntax { .. } | Self::TooDeep | Self::LongLine { .. } | Self::InvalidLine { .. } => 255,
            Self::Host { .. } | Self::Device(_) | Self::Mark(_) | Self::Cgroup(_) => 1,
        }
    }

    /// Whether `ss` prints its usage to standard error too.
    #[must_use]
    pub const fn shows_usage(&self) -> bool {
        matches!(self, Self::Syntax { .. } | Self::TooDeep)
    }

    /// Returns what was expected and found, in one line of our own words, safe to print.
    #[must_use]
    pub fn explanation(&self) -> String {
        match self {
            Self::Syntax {
                expected,
                after,
                found,
            } => {
                let after = match after {
                    Some(after) => format!(" after '{}'", Quoted(after)),
                    None => String::new(),
                };
                match found {
                    Some(found) => format!("expected {expected}{after}, found '{}'", Quoted(found)),
                    None => format!("expected {expected}{after}, found the end of the filter"),
                }
            }
            Self::TooDeep => "too many conditions within each other".into(),
            Self::Host { word, error } => {
                let (expected, found) = match error {
                    HostError::NotAnAddress(address) => ("an address or the name of a host", address),
                    HostError::NotAPort(port) => ("a port or a service of what is listed", port),
                    HostError::AmbiguousPort(port) => ("a service that is the same in TCP and UDP", port),
                    HostError::Unexplained(expected) => (*expected, word),
                };
                if found == word {
                    format!("expected {expected}, found '{}'", Quoted(found))
                } else {
                    format!(
                        "expected {expected}, found '{}' in '{}'",
                        Quoted(found),
                        Quoted(word)
                    )
                }
            }
            Self::Device(word) => format!(
                "expected the name or index of an interface, found '{}'",
                Quoted(word)
            ),
            Self::Mark(word) => format!(
                "expected a mark (NUMBER or NUMBER/MASK), found '{}'",
                Quoted(word)
            ),
            Self::Cgroup(word) => format!("expected the path of a cgroup v2, found '{}'", Quoted(word)),
            Self::LongLine { line } => {
                format!("line {line} of the filter file is longer than 1,021 bytes")
            }
            Self::InvalidLine { line } => format!("line {line} of the filter file begins with a NUL"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bellow = |f: &mut fmt::Formatter<'_>, what| {
            write!(f, "ss: bison bellows (while parsing filter): \"{what}!\" Sorry.")
        };
        match self {
            Self::Syntax { .. } => bellow(f, "syntax error"),
            Self::TooDeep => bellow(f, "memory exhausted"),
            Self::Host { error, .. } => {
                match error {
                    HostError::NotAnAddress(address) => {
                        writeln!(f, "Error: an inet prefix is expected rather than \"{address}\".")
                    }
                    HostError::NotAPort(port) => {
                        writeln!(f, "Error: \"{port}\" does not look like a port.")
                    }
                    HostError::AmbiguousPort(port) => writeln!(f, "Error: ambiguous port \"{port}\"."),
                    HostError::Unexplained(_) => Ok(()),
                }?;
                f.write_str("Cannot parse dst/src address.")
            }
            Self::Device(_) => f.write_str("Cannot parse device."),
            Self::Mark(word) => write!(f, "Cannot parse mark {word}."),
            Self::Cgroup(path) => {
                // `ss` has several errors here, depending on the cause; this is the usual one.
                f.write_str(if path.trim_start_matches('/').is_empty() {
                    "Invalid cgroup2 path\n"
                } else {
                    "Failed to get cgroup2 ID: No such file or directory\n"
                })?;
                write!(f, "Cannot parse cgroup {path}.")
            }
            Self::LongLine { .. } => f.write_str("Too long line in filter"),
            Self::InvalidLine { .. } => f.write_str("Invalid line"),
        }
    }
}

impl std::error::Error for ParseError {}
