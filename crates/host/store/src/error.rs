//! Why a store could not be read or written.

use rusqlite::ErrorCode;
use sockeye_history::DecodeError;
use std::fmt;
use std::path::PathBuf;

/// A failed operation on a store.
#[derive(Debug)]
pub enum StoreError {
    /// There is no store at this path.
    Missing(PathBuf),
    /// The file cannot be created or opened.
    File(PathBuf, std::io::Error),
    /// The file is another program's, or from a later version of ours: what it says.
    Foreign(PathBuf, String),
    /// Another recorder writes this store.
    InUse(PathBuf),
    /// The disk is full.
    Full,
    /// A sample does not fit into the size limit.
    TooLarge {
        /// Bytes that it needs.
        needed: u64,
    },
    /// Readers keep the log of changes from being emptied, and the size limit does not allow more.
    Busy,
    /// What is stored cannot be decoded.
    Damaged(DecodeError),
    /// A block cannot be decompressed.
    Compression(std::io::Error),
    /// Any other error of SQLite.
    Sqlite(&'static str, rusqlite::Error),
}

impl StoreError {
    /// Returns what turns an error of SQLite during `act` into one of the store.
    pub(crate) fn during(act: &'static str) -> impl Fn(rusqlite::Error) -> Self {
        move |error| match error.sqlite_error() {
            Some(code) if code.code == ErrorCode::DiskFull || code.extended_code == IOERR_SHMSIZE => {
                Self::Full
            }
            _ => Self::Sqlite(act, error),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(
                f,
                "nothing is recorded at {}: `sockeye record` records, --store names another file",
                path.display()
            ),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Foreign(path, what) => write!(f, "{}: {what}", path.display()),
            Self::InUse(path) => write!(f, "{}: another `sockeye record` writes it", path.display()),
            Self::Full => f.write_str("the disk is full"),
            Self::TooLarge { needed } => write!(
                f,
                "a sample of {needed} bytes does not fit into the size limit: --max-size allows more"
            ),
            Self::Busy => f.write_str("a reader keeps the store from being written within its size limit"),
            Self::Damaged(error) => error.fmt(f),
            Self::Compression(error) => write!(f, "the store is damaged: {error}"),
            Self::Sqlite(act, error) => write!(f, "{act}: {error}"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(_, error) | Self::Compression(error) => Some(error),
            Self::Damaged(error) => Some(error),
            Self::Sqlite(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<DecodeError> for StoreError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// `SQLITE_IOERR_SHMSIZE`: there is no space for the index of the log.
const IOERR_SHMSIZE: std::ffi::c_int = 4874;
