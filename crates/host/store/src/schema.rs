//! The tables of a store. `user_version` has the version of the schema; each step of [`MIGRATIONS`] leads to the next.

use crate::error::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::fs::OpenOptions;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// `Skye`: marks the file as ours.
const APPLICATION_ID: i64 = 0x536b_7965;

/// SQL that leads from each version to the next. Steps are added, and never changed: files of their version exist.
const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

/// Opens a store for writing, whose file exists and is locked; an empty one becomes a store.
pub(crate) fn open_to_write(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(path, flags).map_err(opening(path))?;
    let is_new = is_empty(&store).map_err(|error| not_a_store(path, error))?;
    if is_new {
        // Both have to be set before the first table.
        let pragmas = format!("PRAGMA page_size = {PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL;");
        store
            .execute_batch(&pragmas)
            .map_err(StoreError::during("create the store"))?;
    } else {
        check_version(&store, path)?;
    }
    store
        .busy_timeout(BUSY)
        .and_then(|()| {
            // Full: also after a loss of power only the sample in hand is missing.
            store.execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_spill = OFF;",
            )
        })
        .map_err(StoreError::during("open the store"))?;
    migrate(&store)?;
    Ok(store)
}

/// Opens a store for reading.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    match std::fs::metadata(path) {
        Ok(file) => check_kind(path, &file)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::Missing(path.to_owned()));
        }
        Err(error) => return Err(StoreError::File(path.to_owned(), error)),
    }
    // SQLite does not say why. Opening the file here and closing it would drop the locks that SQLite has in this process.
    if let Err(errno) = rustix::fs::access(path, rustix::fs::Access::READ_OK) {
        return Err(StoreError::File(path.to_owned(), errno.into()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let store = Connection::open_with_flags(path, flags).map_err(opening(path))?;
    store.busy_timeout(BUSY).map_err(opening(path))?;
    check_version(&store, path)?;
    Ok(store)
}

/// Creates the file of a store if there is none. It has names of processes: only its owner may read it.
pub(crate) fn create_file(path: &Path) -> Result<(), StoreError> {
    // A device could be opened, and a folder would be refused without a remedy.
    if let Ok(file) = std::fs::metadata(path) {
        check_kind(path, &file)?;
    }
    create(path).map_err(|error| StoreError::File(path.to_owned(), error))
}

fn check_kind(path: &Path, file: &std::fs::Metadata) -> Result<(), StoreError> {
    if file.is_file() {
        return Ok(());
    }
    if file.is_dir() {
        return Err(StoreError::a_folder(path));
    }
    let what = "this is no regular file: --store names the file of a store".to_owned();
    Err(StoreError::Foreign(path.to_owned(), what))
}

fn create(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    options.open(path).map(|_| ())
}

/// Reads tables that a file has since version 2. An older one has no rows of them: what only reads does not upgrade it.
pub(crate) fn with_checks<T>(
    store: &Connection,
    read: impl FnOnce() -> rusqlite::Result<Vec<T>>,
) -> rusqlite::Result<Vec<T>> {
    if version(store)? >= 2 {
        read()
    } else {
        Ok(Vec::new())
    }
}

/// Returns the version of the schema of a file.
pub(crate) fn version(store: &Connection) -> rusqlite::Result<i64> {
    store.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Returns what turns an error of SQLite into one that names the file.
fn opening(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
    let during = StoreError::during("open the store");
    move |error| match during(error) {
        StoreError::Sqlite(_, error) => StoreError::Open(path.to_owned(), error),
        other => other,
    }
}

fn is_empty(store: &Connection) -> rusqlite::Result<bool> {
    store.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
}

fn not_a_store(path: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Foreign(
            path.to_owned(),
            "this is no store: --store names the file of one".to_owned(),
        ),
        _ => opening(path)(error),
    }
}

fn check_version(store: &Connection, path: &Path) -> Result<(), StoreError> {
    let pragma = |name| store.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (id, version) = pragma("application_id")
        .and_then(|id| Ok((id, pragma("user_version")?)))
        .map_err(|error| not_a_store(path, error))?;
    if id != APPLICATION_ID {
        return Err(StoreError::Foreign(
            path.to_owned(),
            "this is no store of sockeye: --store names the file of one".to_owned(),
        ));
    }
    if version > MIGRATIONS.len() as i64 {
        let what = format!(
            "its schema has version {version}, and this sockeye knows {}",
            MIGRATIONS.len()
        );
        return Err(StoreError::Foreign(path.to_owned(), what));
    }
    Ok(())
}

/// Takes the file from its version to ours, all steps in one transaction.
fn migrate(store: &Connection) -> Result<(), StoreError> {
    let upgrade = || {
        let version: i64 = store.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let steps = MIGRATIONS
            .get(usize::try_from(version).unwrap_or(0)..)
            .unwrap_or_default();
        if steps.is_empty() {
            return Ok(());
        }
        let pragmas = format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {};",
            MIGRATIONS.len()
        );
        store.execute_batch(&format!("BEGIN IMMEDIATE; {} {pragmas} COMMIT;", steps.concat()))
    };
    upgrade().map_err(StoreError::during("upgrade the store"))
}

/// Bytes of a page of the file.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// How long to wait for another process.
const BUSY: Duration = Duration::from_secs(2);
