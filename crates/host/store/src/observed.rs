//! What some samples have in addition to their sockets: what NAT translates, when connections last sent and received, and names of network
//! namespaces.

use crate::error::StoreError;
use crate::schema;
use crate::sealing::{compressed, decompressed};
use rusqlite::{Connection, OptionalExtension as _, params};
use sockeye_history::{DecodeError, Exchange, NetnsName, SeenTranslation};
use sockeye_model::NetnsInode;
use std::collections::HashMap;

/// What a sample observed of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// Connections that NAT translates.
    Translations(Vec<SeenTranslation>),
    /// When connections last sent and received.
    Exchanges(Vec<Exchange>),
    /// The names of all network namespaces of the sample that have one.
    NetnsNames(Vec<NetnsName>),
}

impl Observed {
    /// Returns it as a row: its kind, and its data as a frame of zstd.
    pub(crate) fn row(&self) -> Result<ObservedRow, StoreError> {
        let (kind, data) = match self {
            Self::Translations(all) => (TRANSLATIONS, SeenTranslation::encode(all)),
            Self::Exchanges(all) => (EXCHANGES, Exchange::encode(all)),
            Self::NetnsNames(all) => (NETNS_NAMES, NetnsName::encode(all)),
        };
        let data = compressed(&data)?;
        Ok(ObservedRow { kind, data })
    }
}

/// A row.
#[derive(Debug)]
pub(crate) struct ObservedRow {
    kind: &'static str,
    data: Vec<u8>,
}

impl ObservedRow {
    /// Returns about how many bytes it takes in the log of changes.
    pub(crate) const fn bytes(&self) -> u64 {
        (self.data.len() + ROW_BYTES) as u64
    }

    pub(crate) fn write(&self, store: &Connection, at_ms: u64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO observed (at_ms, kind, data) VALUES (?1, ?2, ?3)";
        store
            .execute(sql, params![at_ms, self.kind, self.data])
            .map(|_| ())
    }
}

/// Returns the translations that samples after a time and until another one saw, in milliseconds since 1970, each with the time of its
/// sample.
pub(crate) fn translations(
    store: &Connection,
    times_ms: (u64, u64),
) -> Result<Vec<(u64, SeenTranslation)>, StoreError> {
    read(store, TRANSLATIONS, times_ms, SeenTranslation::decode)
}

/// As [`translations`], the last data of connections.
pub(crate) fn exchanges(
    store: &Connection,
    times_ms: (u64, u64),
) -> Result<Vec<(u64, Exchange)>, StoreError> {
    read(store, EXCHANGES, times_ms, Exchange::decode)
}

/// Returns the names that network namespaces had at a time, in milliseconds since 1970; `None` if the recorder did not note them.
pub(crate) fn netns_names(
    store: &Connection,
    at_ms: u64,
) -> Result<Option<HashMap<NetnsInode, String>>, StoreError> {
    let row = || {
        if schema::version(store)? < 4 {
            return Ok(None);
        }
        let sql = "SELECT data FROM observed WHERE at_ms > ?1 AND at_ms <= ?2 AND kind = ?3 ORDER BY at_ms DESC LIMIT 1";
        let after_ms = at_ms.saturating_sub(NETNS_NAMES_MS);
        store
            .prepare_cached(sql)?
            .query_row(params![after_ms, at_ms, NETNS_NAMES], |row| {
                row.get::<_, Vec<u8>>(0)
            })
            .optional()
    };
    let row = row().map_err(StoreError::during("read the names of network namespaces"))?;
    row.map(|data| {
        let names = NetnsName::decode(&decompressed(data)?)?;
        Ok(names.into_iter().map(|one| (one.netns, one.name)).collect())
    })
    .transpose()
}

/// Returns the names that each network namespace had in a time, in milliseconds since 1970, in the order in which they came.
pub(crate) fn netns_names_within(
    store: &Connection,
    (from_ms, to_ms): (u64, u64),
) -> Result<HashMap<NetnsInode, Vec<String>>, StoreError> {
    let mut names: HashMap<NetnsInode, Vec<String>> = HashMap::new();
    // Those of the begin were noted before it.
    let after_ms = from_ms.saturating_sub(NETNS_NAMES_MS);
    for (_, NetnsName { netns, name }) in read(store, NETNS_NAMES, (after_ms, to_ms), NetnsName::decode)? {
        let of_netns = names.entry(netns).or_default();
        if !of_netns.contains(&name) {
            of_netns.push(name);
        }
    }
    Ok(names)
}

fn read<T>(
    store: &Connection,
    kind: &str,
    (after_ms, until_ms): (u64, u64),
    decode: fn(&[u8]) -> Result<Vec<T>, DecodeError>,
) -> Result<Vec<(u64, T)>, StoreError> {
    let rows = || {
        // An older file has no such rows.
        if schema::version(store)? < 4 {
            return Ok(Vec::new());
        }
        let sql =
            "SELECT at_ms, data FROM observed WHERE at_ms > ?1 AND at_ms <= ?2 AND kind = ?3 ORDER BY id";
        let mut rows = store.prepare_cached(sql)?;
        rows.query_map(params![after_ms, until_ms, kind], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()
    };
    let mut all = Vec::new();
    for (at_ms, data) in rows().map_err(StoreError::during("read what samples observed"))? {
        let one = decode(&decompressed(data)?)?;
        all.extend(one.into_iter().map(|one| (at_ms, one)));
    }
    Ok(all)
}

const TRANSLATIONS: &str = "translations";
const EXCHANGES: &str = "exchanges";
const NETNS_NAMES: &str = "netns-names";

/// Names are noted again after half of this time at the latest.
const NETNS_NAMES_MS: u64 = 1_200_000;

/// Bytes of a row without its data, and of the changed page of the index that it may be alone in.
const ROW_BYTES: usize = 4_096;
