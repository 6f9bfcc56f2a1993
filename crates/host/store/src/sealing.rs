//! A group of samples as one compressed block, and back.

use crate::error::StoreError;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use sockeye_history::{seal, unseal};

/// Kinds of data of a sample.
pub(crate) mod kind {
    /// Sockets: `sockeye_history::GroupWriter`.
    pub(crate) const SOCKETS: i64 = 1;
}

/// Replaces the rows of a group by a block.
pub(crate) fn seal_group(store: &Transaction<'_>, group: i64) -> Result<(), StoreError> {
    let chunks = recent_chunks(store, group, i64::MAX)?;
    if chunks.is_empty() {
        return Ok(());
    }
    let raw = seal(&chunks)?;
    let data = zstd::bulk::compress(&raw, LEVEL).map_err(StoreError::Compression)?;
    let write = || {
        store.execute(
            "INSERT OR REPLACE INTO block (group_id, kind, raw_bytes, data) VALUES (?1, ?2, ?3, ?4)",
            params![group, kind::SOCKETS, raw.len() as i64, data],
        )?;
        store.execute(
            "DELETE FROM recent WHERE sample_id IN (SELECT id FROM sample WHERE group_id = ?1)",
            params![group],
        )
    };
    write()
        .map_err(StoreError::during("seal a group of samples"))
        .map(|_| ())
}

/// Returns the groups that have rows of samples.
pub(crate) fn unsealed_groups(store: &Connection) -> Result<Vec<i64>, StoreError> {
    let read = || {
        let sql = "SELECT DISTINCT sample.group_id FROM recent JOIN sample ON sample.id = recent.sample_id ORDER BY 1";
        let mut rows = store.prepare(sql)?;
        rows.query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(StoreError::during("look for groups of samples"))
}

/// Returns the chunks of the samples of a group up to a sample.
pub(crate) fn chunks_until(store: &Connection, group: i64, sample: i64) -> Result<Vec<Vec<u8>>, StoreError> {
    let read = || {
        let sql = "SELECT raw_bytes, data FROM block WHERE group_id = ?1 AND kind = ?2";
        let block: Option<(i64, Vec<u8>)> = store
            .query_row(sql, params![group, kind::SOCKETS], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let sql = "SELECT count(*) FROM sample WHERE group_id = ?1 AND id <= ?2";
        let count: i64 = store.query_row(sql, params![group, sample], |row| row.get(0))?;
        Ok((block, count))
    };
    let (block, count) = read().map_err(StoreError::during("read a group of samples"))?;
    let Some((raw_bytes, data)) = block else {
        return recent_chunks(store, group, sample);
    };
    let capacity = usize::try_from(raw_bytes).unwrap_or(0).min(RAW_BYTES_MAX);
    let raw = zstd::bulk::decompress(&data, capacity).map_err(StoreError::Compression)?;
    Ok(unseal(&raw, usize::try_from(count).unwrap_or(0))?)
}

/// Returns the chunk of a sample; `None`: it is in a block.
pub(crate) fn chunk_of(store: &Connection, sample: i64) -> Result<Option<Vec<u8>>, StoreError> {
    let read = || {
        let mut statement =
            store.prepare_cached("SELECT data FROM recent WHERE sample_id = ?1 AND kind = ?2")?;
        let row = statement.query_row(params![sample, kind::SOCKETS], |row| row.get(0));
        row.optional()
    };
    read().map_err(StoreError::during("read a sample"))
}

fn recent_chunks(store: &Connection, group: i64, until: i64) -> Result<Vec<Vec<u8>>, StoreError> {
    let read = || {
        let sql = "SELECT data FROM recent JOIN sample ON sample.id = recent.sample_id
                   WHERE group_id = ?1 AND sample.id <= ?2 AND kind = ?3 ORDER BY sample.id";
        let mut rows = store.prepare(sql)?;
        rows.query_map(params![group, until, kind::SOCKETS], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(StoreError::during("read a group of samples"))
}

/// Level of compression: level 9 makes blocks no smaller.
const LEVEL: i32 = 3;

/// The largest block that is decompressed: a damaged store must not take all memory.
const RAW_BYTES_MAX: usize = 1 << 30;
