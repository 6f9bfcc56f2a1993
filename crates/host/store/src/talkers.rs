//! Sums of talkers: written with each sample, and read for `history top`.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use sockeye_history::{SumKey, Sums};
use sockeye_model::NetnsInode;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// The ids of talkers that were written before.
#[derive(Debug, Default)]
pub(crate) struct TalkerIds {
    ids: HashMap<SumKey, i64>,
}

impl TalkerIds {
    /// Adds the sums of a sample to those of its minute and its five minutes.
    pub(crate) fn add(
        &mut self,
        store: &Transaction<'_>,
        at_s: u64,
        sums: &[(SumKey, Sums)],
    ) -> rusqlite::Result<()> {
        if self.ids.len() > IDS_MAX {
            self.ids.clear();
        }
        let mut of_ids = Vec::with_capacity(sums.len());
        for (key, sums) in sums {
            of_ids.push((self.id(store, key)?, sums));
        }
        // In the order of the tables: the pages that they fill one after the other are full.
        of_ids.sort_unstable_by_key(|(id, _)| *id);
        for (table, seconds) in [("sum_1m", 60), ("sum_5m", 300)] {
            let mut upsert = store.prepare(&upsert(table, "?1, ?2, "))?;
            let start_s = at_s / seconds * seconds;
            for (id, sums) in &of_ids {
                let Sums {
                    sent_bytes,
                    received_bytes,
                    retrans_segs,
                    opened,
                    closed,
                    connections,
                } = sums;
                upsert.execute(params![
                    start_s,
                    id,
                    sent_bytes,
                    received_bytes,
                    retrans_segs,
                    opened,
                    closed,
                    connections
                ])?;
            }
        }
        let mut upsert = store.prepare(&upsert("top_1h", "?1, ?2, ?9, "))?;
        for by in By::ALL {
            let mut of_names: HashMap<String, Sums> = HashMap::new();
            for (key, sums) in sums {
                *of_names.entry(by.name_of(key).unwrap_or_default()).or_default() += *sums;
            }
            for (name, sums) in of_names {
                let Sums {
                    sent_bytes,
                    received_bytes,
                    retrans_segs,
                    opened,
                    closed,
                    connections,
                } = sums;
                upsert.execute(params![
                    at_s / 3600 * 3600,
                    by.name(),
                    sent_bytes,
                    received_bytes,
                    retrans_segs,
                    opened,
                    closed,
                    connections,
                    name
                ])?;
            }
        }
        Ok(())
    }

    fn id(&mut self, store: &Transaction<'_>, key: &SumKey) -> rusqlite::Result<i64> {
        if let Some(id) = self.ids.get(key) {
            return Ok(*id);
        }
        let netns = key.netns.map(|netns| netns.0);
        let direction = if key.is_passive { PASSIVE } else { ACTIVE };
        let peer = key.peer.to_string();
        let values = params![netns, direction, peer, key.port, key.owner, key.container];
        let sql = "SELECT id FROM talker WHERE netns IS ?1 AND direction = ?2 AND peer = ?3 AND port = ?4
                   AND owner IS ?5 AND container IS ?6";
        let id = match store.query_row(sql, values, |row| row.get(0)).optional()? {
            Some(id) => id,
            None => {
                let sql = "INSERT INTO talker (netns, direction, peer, port, owner, container)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                store.execute(sql, values)?;
                store.last_insert_rowid()
            }
        };
        self.ids.insert(key.clone(), id);
        Ok(id)
    }
}

/// Returns SQL that adds sums to a row of a table, whose key is `key`.
fn upsert(table: &str, key: &str) -> String {
    format!(
        "INSERT INTO {table} VALUES ({key}?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT DO UPDATE SET sent_bytes = sent_bytes + excluded.sent_bytes,
         received_bytes = received_bytes + excluded.received_bytes,
         retrans_segs = retrans_segs + excluded.retrans_segs,
         opened = opened + excluded.opened, closed = closed + excluded.closed,
         connections_max = max(connections_max, excluded.connections_max)"
    )
}

/// What talkers are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The name of the owner process.
    Owner,
    /// The peer's address.
    Peer,
    /// The port of the service.
    Port,
    /// The network namespace.
    Netns,
    /// The container.
    Container,
}

impl By {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Owner, Self::Peer, Self::Port, Self::Netns, Self::Container];

    /// Returns what a key is grouped by; `None` if it is unknown.
    pub(crate) fn name_of(self, key: &SumKey) -> Option<String> {
        match self {
            Self::Owner => key.owner.clone(),
            Self::Peer => Some(key.peer.to_string()),
            Self::Port => Some(key.port.to_string()),
            Self::Netns => key.netns.map(|netns| netns.to_string()),
            Self::Container => key.container.clone(),
        }
    }

    /// The name, as on the command line and in the table of talkers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Peer => "peer",
            Self::Port => "port",
            Self::Netns => "netns",
            Self::Container => "container",
        }
    }
}

/// What a talker transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talker {
    /// The owner, peer, port, namespace or container; `None` if it is unknown.
    pub name: Option<String>,
    /// Sums; `connections` is the largest number: of a sample in whole hours, else at most what its flows had in five minutes.
    pub sums: Sums,
}

/// The talkers of some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talkers {
    /// Those that transferred most, the first first.
    pub talkers: Vec<Talker>,
    /// How many there are.
    pub number: usize,
    /// The time that the sums cover, in milliseconds since 1970.
    pub times_ms: (u64, u64),
    /// Whether that is more than was asked for: samples are gone, and only sums of whole five minutes are left.
    pub is_wider: bool,
}

/// The sums of talkers by their names; of an unknown name it is empty.
#[derive(Debug, Default)]
pub(crate) struct TopTable {
    places: HashMap<String, usize>,
    /// The sums, of which `connections` is the largest number.
    sums: Vec<Sums>,
}

impl TopTable {
    fn place(&mut self, name: String) -> usize {
        let next = self.sums.len();
        let place = *self.places.entry(name).or_insert(next);
        if place == next {
            self.sums.push(Sums::default());
        }
        place
    }

    /// Adds the sums of a name over some time.
    pub(crate) fn add(&mut self, name: String, sums: Sums) {
        let place = self.place(name);
        add_period(&mut self.sums[place], sums);
    }

    /// Adds the sums of a time that begins and ends with five minutes. Whole hours are summed up already; of the five minutes only those
    /// before and after them are left.
    pub(crate) fn add_whole(
        &mut self,
        store: &Connection,
        by: By,
        times_s: Range<u64>,
    ) -> rusqlite::Result<()> {
        let (first_hour_s, end_hour_s) = (times_s.start.div_ceil(3600) * 3600, times_s.end / 3600 * 3600);
        let hours_end_s = end_hour_s.max(first_hour_s);
        let sql = format!(
            "SELECT {SUM_COLUMNS}, name FROM top_1h WHERE by = ?1 AND start_s >= ?2 AND start_s < ?3"
        );
        let mut hours = store.prepare(&sql)?;
        let mut rows = hours.query(params![by.name(), first_hour_s, hours_end_s])?;
        while let Some(row) = rows.next()? {
            let sums = sums_of(row)?;
            self.add(row.get(6)?, sums);
        }
        self.add_five_minutes(store, by, times_s.start..times_s.end.min(first_hour_s))?;
        self.add_five_minutes(store, by, hours_end_s..times_s.end)
    }

    /// Adds the sums of five minutes between two times. A name has many talkers, each of them in many of these: it is read once for each.
    pub(crate) fn add_five_minutes(
        &mut self,
        store: &Connection,
        by: By,
        times_s: Range<u64>,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT {SUM_COLUMNS}, start_s, talker_id FROM sum_5m WHERE start_s >= ?1 AND start_s < ?2 ORDER BY start_s"
        );
        let mut periods = store.prepare(&sql)?;
        let sql = format!(
            "SELECT ifnull(CAST({} AS TEXT), '') FROM talker WHERE id = ?1",
            by.name()
        );
        let mut name = store.prepare(&sql)?;
        let mut of_talker: HashMap<i64, usize> = HashMap::new();
        // Those of one period, since its numbers of connections add up.
        let (mut start_s, mut period): (u64, HashMap<usize, Sums>) = (0, HashMap::new());
        let mut rows = periods.query(params![times_s.start, times_s.end])?;
        while let Some(row) = rows.next()? {
            let (begin_s, talker): (u64, i64) = (row.get(6)?, row.get(7)?);
            if begin_s != start_s {
                start_s = begin_s;
                self.end_period(&mut period);
            }
            let place = match of_talker.get(&talker) {
                Some(place) => *place,
                None => {
                    let place = self.place(name.query_row(params![talker], |row| row.get(0))?);
                    of_talker.insert(talker, place);
                    place
                }
            };
            *period.entry(place).or_default() += sums_of(row)?;
        }
        self.end_period(&mut period);
        Ok(())
    }

    fn end_period(&mut self, period: &mut HashMap<usize, Sums>) {
        for (place, sums) in period.drain() {
            add_period(&mut self.sums[place], sums);
        }
    }

    /// Returns those that transferred most, and how many there are.
    pub(crate) fn largest(self, count: usize) -> (Vec<Talker>, usize) {
        let sums = &self.sums;
        let talker = |(name, place): (String, usize)| Talker {
            name: Some(name).filter(|name| !name.is_empty()),
            sums: sums[place],
        };
        let mut all: Vec<Talker> = self.places.into_iter().map(talker).collect();
        let bytes = |talker: &Talker| std::cmp::Reverse(talker.sums.sent_bytes + talker.sums.received_bytes);
        all.sort_unstable_by(|a, b| (bytes(a), &a.name).cmp(&(bytes(b), &b.name)));
        let number = all.len();
        all.truncate(count);
        (all, number)
    }
}

/// Adds the sums of a period: its number of connections is not added to that of another one.
fn add_period(all: &mut Sums, period: Sums) {
    let connections = all.connections.max(period.connections);
    *all += period;
    all.connections = connections;
}

/// Returns the network namespaces of all talkers.
pub(crate) fn namespaces(store: &Connection) -> rusqlite::Result<Vec<Option<NetnsInode>>> {
    let mut rows = store.prepare("SELECT DISTINCT netns FROM talker")?;
    let found = rows.query_map([], |row| Ok(row.get::<_, Option<u32>>(0)?.map(NetnsInode)))?;
    found.collect()
}

/// Reads the columns of [`SUM_COLUMNS`], which are the first ones.
fn sums_of(row: &Row<'_>) -> rusqlite::Result<Sums> {
    Ok(Sums {
        sent_bytes: row.get(0)?,
        received_bytes: row.get(1)?,
        retrans_segs: row.get(2)?,
        opened: row.get(3)?,
        closed: row.get(4)?,
        connections: row.get(5)?,
    })
}

const SUM_COLUMNS: &str = "sent_bytes, received_bytes, retrans_segs, opened, closed, connections_max";

/// The sums of a talker over five minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodSums {
    /// Begin of the five minutes, in seconds since 1970.
    pub start_s: u64,
    /// Network namespace.
    pub netns_inode: Option<u64>,
    /// `active` if we connected, `passive` if the peer did.
    pub direction: String,
    /// The peer's address.
    pub peer: String,
    /// Port of the service.
    pub port: u64,
    /// Name of the owner process.
    pub owner: Option<String>,
    /// Name of the container.
    pub container: Option<String>,
    /// The sums; `connections` is the largest number.
    pub sums: Sums,
}

/// Calls `visit` with the sums of each talker over each five minutes between two times, in seconds since 1970; it may break off. Nothing
/// is being read while it is called: it may wait for a pager, and meanwhile the log could not be emptied, and nothing be recorded.
pub(crate) fn visit_sums(
    store: &Connection,
    (from_s, to_s): (u64, u64),
    visit: &mut dyn FnMut(&PeriodSums) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let mut begin = (from_s / 300 * 300, 0);
    loop {
        let part = sums_from(store, begin, to_s)?;
        let Some((sums, talker)) = part.last() else {
            return Ok(());
        };
        begin = (sums.start_s, talker + 1);
        if part.iter().any(|(sums, _)| visit(sums).is_break()) {
            return Ok(());
        }
    }
}

/// Returns at most [`SUMS_AT_ONCE`] sums from a time and a talker on, each with its talker.
fn sums_from(
    store: &Connection,
    (start_s, talker): (u64, i64),
    to_s: u64,
) -> rusqlite::Result<Vec<(PeriodSums, i64)>> {
    let mut statement = store.prepare(
        "SELECT start_s, netns, direction, peer, port, owner, container, sent_bytes, received_bytes, retrans_segs,
            opened, closed, connections_max, talker_id FROM sum_5m JOIN talker ON talker.id = talker_id
         WHERE (start_s, talker_id) >= (?1, ?2) AND start_s < ?3 ORDER BY start_s, talker_id LIMIT ?4",
    )?;
    let rows = statement.query_map(params![start_s, talker, to_s, SUMS_AT_ONCE], |row| {
        let sums = PeriodSums {
            start_s: row.get(0)?,
            netns_inode: row.get(1)?,
            direction: row.get(2)?,
            peer: row.get(3)?,
            port: row.get(4)?,
            owner: row.get(5)?,
            container: row.get(6)?,
            sums: Sums {
                sent_bytes: row.get(7)?,
                received_bytes: row.get(8)?,
                retrans_segs: row.get(9)?,
                opened: row.get(10)?,
                closed: row.get(11)?,
                connections: row.get(12)?,
            },
        };
        Ok((sums, row.get(13)?))
    })?;
    rows.collect()
}

const ACTIVE: &str = "active";
const PASSIVE: &str = "passive";

/// Talkers whose ids are remembered.
const IDS_MAX: usize = 65_536;

/// Sums that are in memory at a time.
const SUMS_AT_ONCE: usize = 1_000;
