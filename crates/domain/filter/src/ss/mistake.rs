//! What stops `ss`.

use crate::error::Quoted;
use std::fmt;

/// What is wrong with a filter.
///
/// Displayed, it is what `ss` writes on its standard error, to the byte but for the newline at the end; after
/// which its usage follows if [`shows_usage`](Self::shows_usage).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mistake {
    /// Something else should stand here.
    Syntax {
        /// `an address`, `')'`
        expected: &'static str,
        /// What stands before it; `None`: nothing.
        after: Option<String>,
        /// What stands here; `None`: the filter ends.
        found: Option<String>,
    },
    /// Parentheses, negations or changes between `and` and `or` within each other: more than `ss` has room
    /// for, or in a few cases than we do, where `ss` had gone on.
    TooDeep,
    /// After `src`, `dst`, `sport` or `dport`, or where no word was due.
    Host {
        /// All of it
        word: String,
        /// What is wrong with it
        fault: HostFault,
    },
    /// After `dev`: neither name nor index.
    Device(String),
    /// After `fwmark`: no number.
    Mark(String),
    /// After `cgroup`: there is none at this path.
    Cgroup(String),
    /// A line of the file has 1,023 bytes or more, its newline counted.
    LongLine {
        /// Which one, from 1
        line: usize,
    },
    /// A line of the file begins with a NUL.
    InvalidLine {
        /// Which one, from 1
        line: usize,
    },
}

/// What is wrong with an address or port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostFault {
    /// Neither an address nor the name of a host, of the family that is due.
    NotAnAddress(String),
    /// Neither a number nor a service of the protocols that are listed.
    NotAPort(String),
    /// One port in TCP, another in UDP.
    AmbiguousPort(String),
    /// `ss` does not say; this was expected.
    Unexplained(&'static str),
}

impl Mistake {
    /// What `ss` exits with.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Syntax { .. } | Self::TooDeep | Self::LongLine { .. } | Self::InvalidLine { .. } => 255,
            Self::Host { .. } | Self::Device(_) | Self::Mark(_) | Self::Cgroup(_) => 1,
        }
    }

    /// Whether `ss` goes on with its usage, on standard error.
    #[must_use]
    pub const fn shows_usage(&self) -> bool {
        matches!(self, Self::Syntax { .. } | Self::TooDeep)
    }

    /// What is wrong and where, in a line of ours, which is safe to print.
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
            Self::Host { word, fault } => {
                let (expected, found) = match fault {
                    HostFault::NotAnAddress(address) => ("an address or the name of a host", address),
                    HostFault::NotAPort(port) => ("a port or a service of what is listed", port),
                    HostFault::AmbiguousPort(port) => ("a service that is the same in TCP and UDP", port),
                    HostFault::Unexplained(expected) => (*expected, word),
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

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bellow = |f: &mut fmt::Formatter<'_>, what| {
            write!(f, "ss: bison bellows (while parsing filter): \"{what}!\" Sorry.")
        };
        match self {
            Self::Syntax { .. } => bellow(f, "syntax error"),
            Self::TooDeep => bellow(f, "memory exhausted"),
            Self::Host { fault, .. } => {
                match fault {
                    HostFault::NotAnAddress(address) => {
                        writeln!(f, "Error: an inet prefix is expected rather than \"{address}\".")
                    }
                    HostFault::NotAPort(port) => {
                        writeln!(f, "Error: \"{port}\" does not look like a port.")
                    }
                    HostFault::AmbiguousPort(port) => writeln!(f, "Error: ambiguous port \"{port}\"."),
                    HostFault::Unexplained(_) => Ok(()),
                }?;
                f.write_str("Cannot parse dst/src address.")
            }
            Self::Device(_) => f.write_str("Cannot parse device."),
            Self::Mark(word) => write!(f, "Cannot parse mark {word}."),
            Self::Cgroup(path) => {
                // Which of the errors it is only the one who looked knows; this is the one people see.
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

impl std::error::Error for Mistake {}
