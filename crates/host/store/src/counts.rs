//! Counters that moved and drops by reason, summed up by the minute.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use sockeye_history::{CountKey, CountKind};
use sockeye_model::NetnsInode;
use std::collections::HashMap;

/// The ids of keys that were written before.
#[derive(Debug, Default)]
pub(crate) struct CountIds(HashMap<CountKey, i64>);

impl CountIds {
    /// Adds counts to those of their minute.
    pub(crate) fn add(
        &mut self,
        store: &Transaction<'_>,
        at_s: u64,
        counts: &[(CountKey, u64)],
    ) -> rusqlite::Result<()> {
        let start_s = at_s / 60 * 60;
        let mut upsert = store.prepare(
            "INSERT INTO count_1m (start_s, counted_id, count) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        for (key, count) in counts {
            let id = self.id(store, key)?;
            upsert.execute(params![start_s, id, count.cast_signed()])?;
        }
        Ok(())
    }

    fn id(&mut self, store: &Transaction<'_>, key: &CountKey) -> rusqlite::Result<i64> {
        if let Some(id) = self.0.get(key) {
            return Ok(*id);
        }
        let CountKey {
            kind,
            name,
            netns,
            function,
            device,
            owner,
        } = key;
        let values = params![
            kind.name(),
            name,
            netns.map(|netns| netns.0),
            function,
            device,
            owner
        ];
        let sql = "SELECT id FROM counted WHERE kind = ?1 AND name = ?2 AND netns IS ?3 AND function IS ?4
                   AND device IS ?5 AND owner IS ?6";
        let id = match store.query_row(sql, values, |row| row.get(0)).optional()? {
            Some(id) => id,
            None => {
                let sql = "INSERT INTO counted (kind, name, netns, function, device, owner)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                store.execute(sql, values)?;
                store.last_insert_rowid()
            }
        };
        if self.0.len() >= IDS_MAX {
            self.0.clear();
        }
        self.0.insert(key.clone(), id);
        Ok(id)
    }
}

/// What was counted of a key over a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// What was counted.
    pub key: CountKey,
    /// How much.
    pub count: u64,
    /// Begin of the first minute that has some of it, in seconds since 1970.
    pub first_s: u64,
    /// Begin of the last minute that has some of it.
    pub last_s: u64,
}

/// Returns what was counted between two times, in seconds since 1970, what has most first.
pub(crate) fn between(store: &Connection, (from_s, to_s): (u64, u64)) -> rusqlite::Result<Vec<Counted>> {
    let mut rows = store.prepare(
        "SELECT kind, name, netns, function, device, owner, sum(count), min(start_s), max(start_s)
         FROM count_1m JOIN counted ON counted.id = counted_id
         WHERE start_s >= ?1 AND start_s < ?2 GROUP BY counted_id ORDER BY sum(count) DESC, name",
    )?;
    let all = rows.query_map(params![from_s / 60 * 60, to_s], |row| {
        // A later version may count what is not known here.
        let Some(kind) = CountKind::from_name(&row.get::<_, String>(0)?) else {
            return Ok(None);
        };
        Ok(Some(Counted {
            key: CountKey {
                kind,
                name: row.get(1)?,
                netns: row.get::<_, Option<u32>>(2)?.map(NetnsInode),
                function: row.get(3)?,
                device: row.get(4)?,
                owner: row.get(5)?,
            },
            count: row.get(6)?,
            first_s: row.get(7)?,
            last_s: row.get(8)?,
        }))
    })?;
    all.filter_map(Result::transpose).collect()
}

/// What was counted of a key in a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedMinute {
    /// Begin of the minute, in seconds since 1970.
    pub start_s: u64,
    /// What was counted.
    pub key: CountKey,
    /// How much.
    pub count: u64,
}

/// Returns what was counted in the minutes that begin between two times, in seconds since 1970.
pub(crate) fn minutes(
    store: &Connection,
    (from_s, to_s): (u64, u64),
) -> rusqlite::Result<Vec<CountedMinute>> {
    let mut rows = store.prepare_cached(
        "SELECT start_s, kind, name, netns, function, device, owner, count
         FROM count_1m JOIN counted ON counted.id = counted_id
         WHERE start_s >= ?1 AND start_s < ?2 ORDER BY start_s, counted_id",
    )?;
    let all = rows.query_map(params![from_s, to_s], |row| {
        let Some(kind) = CountKind::from_name(&row.get::<_, String>(1)?) else {
            return Ok(None);
        };
        Ok(Some(CountedMinute {
            start_s: row.get(0)?,
            key: CountKey {
                kind,
                name: row.get(2)?,
                netns: row.get::<_, Option<u32>>(3)?.map(NetnsInode),
                function: row.get(4)?,
                device: row.get(5)?,
                owner: row.get(6)?,
            },
            count: row.get(7)?,
        }))
    })?;
    all.filter_map(Result::transpose).collect()
}

/// Keys whose ids are remembered.
const IDS_MAX: usize = 16_384;
