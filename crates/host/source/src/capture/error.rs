//! Errors of reading a capture.

use sockeye_wire::packet::FileError;
use std::{fmt, io};

/// An error, with the name of the file.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be opened.
    Open(String, io::Error),
    /// It cannot be read or decompressed.
    Read(String, io::Error),
    /// It is no capture, or it is damaged.
    Format(String, FileError),
    /// It ends after so many bytes, before its format is known.
    TooShort(String, u64),
    /// A signal arrived before its format was known.
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
                    None => write!(f, ", nor one of them packed with gzip or zstd"),
                }
            }
            Self::Format(name, error @ (FileError::Version { .. } | FileError::SnoopDatalink { .. })) => {
                write!(f, "{name} {error}")
            }
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

/// Returns the program that decompresses files with this magic; `None` if none is known.
fn unpacker(magic: [u8; 4]) -> Option<&'static str> {
    match magic {
        [0xfd, b'7', b'z', b'X'] => Some("xz"),
        [b'B', b'Z', b'h', _] => Some("bzip2"),
        [0x04, 0x22, 0x4d, 0x18] => Some("lz4"),
        _ => None,
    }
}
