//! Why a capture cannot be read.

use sockeye_wire::packet::FileError;
use std::{fmt, io};

/// What failed, and with which file.
#[derive(Debug)]
pub enum Error {
    /// It cannot be opened.
    Open(String, io::Error),
    /// It cannot be read, or not be unpacked.
    Read(String, io::Error),
    /// It is no capture, or a damaged one.
    Format(String, FileError),
    /// It ends before it says what it is, after so many bytes.
    TooShort(String, u64),
    /// A signal came before it said what it is.
    Interrupted(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(name, error) => write!(f, "cannot open {name}: {error}"),
            Self::Read(name, error) => write!(f, "cannot read {name}: {error}"),
            Self::TooShort(name, 0) => write!(f, "{name} is empty: no capture"),
            Self::TooShort(name, len) => write!(f, "{name} has only {len} bytes: no capture"),
            Self::Interrupted(name) => write!(f, "interrupted before anything came from {name}"),
            Self::Format(name, error @ FileError::Unknown { magic }) => {
                write!(f, "{name} is no capture: it {error}")?;
                match unpacker(*magic) {
                    Some(program) => write!(f, "; unpack it first: {program} -dc FILE | sockeye analyze -"),
                    None => write!(f, ", nor either of them packed with gzip or zstd"),
                }
            }
            Self::Format(name, error @ FileError::Version { .. }) => write!(f, "{name} {error}"),
            Self::Format(name, error @ FileError::Broken(_)) => {
                write!(f, "{name} is damaged, what follows cannot be found: {error}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(_, error) | Self::Read(_, error) => Some(error),
            Self::Format(_, error) => Some(error),
            Self::TooShort(..) | Self::Interrupted(_) => None,
        }
    }
}

/// What unpacks files that begin so, which we do not.
fn unpacker(magic: [u8; 4]) -> Option<&'static str> {
    match magic {
        [0xfd, b'7', b'z', b'X'] => Some("xz"),
        [b'B', b'Z', b'h', _] => Some("bzip2"),
        [0x04, 0x22, 0x4d, 0x18] => Some("lz4"),
        _ => None,
    }
}
