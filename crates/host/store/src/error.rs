//! Why a store could not be read or written.

use rusqlite::ErrorCode;
use sockeye_history::DecodeError;
use std::fmt;
use std::path::{Path, PathBuf};

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
    /// SQLite cannot open the file.
    Open(PathBuf, rusqlite::Error),
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
    /// The error of a path that leads to a folder.
    #[must_use]
    pub fn a_folder(path: &Path) -> Self {
        let what = "this is a folder: --store names the file of a store".to_owned();
        Self::Foreign(path.to_owned(), what)
    }

    /// Whether the text has the path of the file.
    #[must_use]
    pub const fn names_file(&self) -> bool {
        matches!(
            self,
            Self::Missing(_) | Self::File(..) | Self::Foreign(..) | Self::InUse(_) | Self::Open(..)
        )
    }

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
            Self::File(path, error) => {
                write!(f, "{}: {error}", path.display())?;
                match error.kind() {
                    std::io::ErrorKind::PermissionDenied => {
                        f.write_str(": root or its owner may, --store names another file")
                    }
                    _ => Ok(()),
                }
            }
            Self::Open(path, error) => {
                let path = path.display();
                match error.sqlite_error_code() {
                    Some(ErrorCode::DatabaseCorrupt) => write!(f, "{path}: {DAMAGED}"),
                    // A reader takes part in SQLite's log, whose files it may lack or not be permitted to write.
                    Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => write!(
                        f,
                        "{path}: open the store: also to read it, {path}-wal and {path}-shm have to be there or their folder be writable, \
                         and {path}-shm be writable: try as root or as its owner"
                    ),
                    _ => write!(f, "{path}: open the store: {error}"),
                }
            }
            Self::Foreign(path, what) => write!(f, "{}: {what}", path.display()),
            Self::InUse(path) => write!(f, "{}: another `sockeye record` writes it", path.display()),
            Self::Full => f.write_str("the disk is full"),
            Self::TooLarge { needed } => write!(
                f,
                "a sample of {needed} bytes does not fit into the size limit: --max-size allows more"
            ),
            Self::Busy => f.write_str("a reader keeps the store from being written within its size limit"),
            Self::Damaged(error) => write!(f, "{DAMAGED} ({error})"),
            Self::Compression(error) => write!(f, "{DAMAGED} ({error})"),
            Self::Sqlite(act, error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt) => write!(f, "{act}: {DAMAGED}"),
                _ => write!(f, "{act}: {error}"),
            },
        }
    }
}

// The text has the cause.
impl std::error::Error for StoreError {}

impl From<DecodeError> for StoreError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// What is wrong with a file that cannot be understood, and what to do.
const DAMAGED: &str = "the file is damaged: what is in other parts of it can be read, and another one can be recorded with --store";

/// `SQLITE_IOERR_SHMSIZE`: there is no space for the index of the log.
const IOERR_SHMSIZE: std::ffi::c_int = 4874;
