//! Slots of the BPF programs that walk over socket tables: mirrors `bpf/tables.h`.
//!
//! A slot is memory shared with the program: a request, a reply, the program's private pages, and records, in native
//! byte order.
//!
//! What it deliberately does not do: own the memory, or run anything.
//!
//! ```
//! use sockeye_wire::walk::{self, Outcome, Request, Table};
//!
//! let mut slot = vec![0; walk::SLOT_BYTES];
//! Request { table: Table::Listening, end: 512, ..Request::ALL }.write(&mut slot);
//! // ... the program runs ...
//! let reply = walk::Reply::read(&slot).unwrap();
//! assert_eq!(reply.outcome, Outcome::Unknown(0)); // it did not
//! assert_eq!(walk::records(&slot, &reply).count(), 0);
//! ```

mod congestion;
mod kernel_clock;
mod record;
mod tcp_raw;

pub use congestion::Congestion;
pub use kernel_clock::{KernelClock, hz};
pub use record::{Found, FoundRecords, Kind, Memory, Quiet, Record, Records, found_records, records};
pub use tcp_raw::TcpRaw;

use crate::bytes::{ne_u32, ne_u64};

/// Bytes of one slot: `struct slot`.
pub const SLOT_BYTES: usize = RECORDS_AT + RECORDS_BYTES;

/// The table to walk over and the sockets to return: `struct request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The table.
    pub table: Table,
    /// First bucket.
    pub first: u32,
    /// The bucket after the last; the program limits it to the table's size.
    pub end: u32,
    /// What to read in addition to addresses, state and namespace: bits of [`detail`].
    pub detail: u32,
    /// States to return: bits `1 << state`, with `sock_diag`'s numbers.
    pub states: u32,
    /// Whether to return IPv4 sockets.
    pub v4: bool,
    /// Whether to return IPv6 sockets.
    pub v6: bool,
    /// Inode of the network namespace to return; 0 for all.
    pub netns: u32,
    /// [`Reply::skip`] of the previous run, if this one continues in its bucket; else 0.
    pub skip: u32,
    /// Condition on the local endpoint.
    pub local: End,
    /// Condition on the peer's endpoint.
    pub peer: End,
    /// Established connections to which nothing has happened since then are reported as [`Quiet`]; 0: none. Microseconds of
    /// `CLOCK_MONOTONIC`. Only for the program that reads `struct tcp_info`, and without conditions on endpoints.
    pub quiet_since_us: u64,
}

/// A condition on one endpoint of a socket: `(address & mask) == prefix`, IPv4 mapped into IPv6, and a port range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Lowest port.
    pub port_min: u16,
    /// Highest port.
    pub port_max: u16,
    /// Address, in network byte order.
    pub prefix: [u8; 16],
    /// Significant bits of the address.
    pub mask: [u8; 16],
}

/// A table of sockets: `enum table`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// `inet_hashinfo.ehash`: sockets with a peer.
    Established,
    /// `inet_hashinfo.lhash2`
    Listening,
    /// `inet_hashinfo.bhash2`: sockets with a port that are neither connected nor listening.
    Bound,
    /// `udp_table.hash`: UDP sockets with a port (only for the program that walks over UDP's tables).
    Udp,
}

/// Bits of [`Request::detail`] and [`Record::has`]: `enum detail`.
pub mod detail {
    /// Receive and send queues.
    pub const QUEUES: u32 = 1;
    /// Inode.
    pub const INODE: u32 = 2;
    /// Mark, cgroup, shutdown, options, type of service.
    pub const OPTIONS: u32 = 4;
    /// Memory in use and its limits.
    pub const MEMORY: u32 = 8;
    /// Timer.
    pub const TIMER: u32 = 64;
    /// User id.
    pub const USER: u32 = 128;
    /// The source fields of `struct tcp_info` (only for the program that reads them).
    pub const TCP_INFO: u32 = 16;
    /// Congestion control, likewise.
    pub const CONGESTION: u32 = 32;
    /// Endpoints of families whose addresses do not fit a record's fields ([`crate::fd_sockets`]).
    pub const ENDS: u32 = 256;
}

/// The reply of the program: `struct reply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// How the run ended.
    pub outcome: Outcome,
    /// The bucket to continue with.
    pub next: u32,
    /// Number of buckets in the table.
    pub buckets: u32,
    /// Length of all records in bytes.
    pub used: u32,
    /// Number of chains walked again because a socket moved meanwhile.
    pub again: u32,
    /// Number of chains that changed at every attempt; some of their sockets are missing.
    pub given_up: u32,
    /// Number of chains that were too long to be walked completely.
    pub overlong: u32,
    /// Number of sockets in the next bucket to skip, because the bucket alone did not fit; those are reported already.
    pub skip: u32,
    /// `jiffies_64`
    pub jiffies: u64,
    /// `CLOCK_MONOTONIC`
    pub ktime_ns: u64,
    /// Identity of the hash tables: the address of TCP's `inet_hashinfo`, or of UDP's `udp_table`.
    pub hashinfo: u64,
}

/// How a run ended: `enum outcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All buckets were walked over.
    Done,
    /// The records' buffer is full; continue with [`Reply::next`].
    Full,
    /// There is no such table.
    NoTable,
    /// The table could not be read.
    Unreadable,
    /// The walk took more steps than any valid table needs.
    TooManySteps,
    /// A number that is not in `enum outcome`.
    Unknown(u32),
}

impl Outcome {
    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Done,
            2 => Self::Full,
            3 => Self::NoTable,
            4 => Self::Unreadable,
            5 => Self::TooManySteps,
            unknown => Self::Unknown(unknown),
        }
    }
}

impl Request {
    /// All sockets of the table of connections, with addresses only.
    pub const ALL: Self = Self {
        table: Table::Established,
        first: 0,
        end: u32::MAX,
        detail: 0,
        states: u32::MAX,
        v4: true,
        v6: true,
        netns: 0,
        skip: 0,
        local: End::ANYWHERE,
        peer: End::ANYWHERE,
        quiet_since_us: 0,
    };

    /// Writes the request to the beginning of a slot and clears an earlier reply; fields beyond the slot are left out.
    pub fn write(&self, slot: &mut [u8]) {
        if let Some(outcome) = slot.get_mut(REPLY_AT..REPLY_AT + 4) {
            outcome.fill(0);
        }
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = slot.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        let words = [
            match self.table {
                Table::Established => 0,
                Table::Listening => 1,
                Table::Bound => 2,
                Table::Udp => 3,
            },
            self.first,
            self.end,
            self.detail,
            self.states,
            u32::from(self.v4) | u32::from(self.v6) << 1,
            self.netns,
            self.skip,
        ];
        for (place, word) in words.into_iter().enumerate() {
            put(place * 4, &word.to_ne_bytes());
        }
        for (ports_at, addresses_at, end) in [(32, 40, &self.local), (36, 72, &self.peer)] {
            put(ports_at, &end.port_min.to_ne_bytes());
            put(ports_at + 2, &end.port_max.to_ne_bytes());
            put(addresses_at, &end.prefix);
            put(addresses_at + 16, &end.mask);
        }
        put(104, &self.quiet_since_us.to_ne_bytes());
    }
}

impl End {
    /// Matches every address and port.
    pub const ANYWHERE: Self = Self {
        port_min: 0,
        port_max: u16::MAX,
        prefix: [0; 16],
        mask: [0; 16],
    };
}

impl Reply {
    /// Reads the reply from a slot; `None` if the slot is too short.
    #[must_use]
    pub fn read(slot: &[u8]) -> Option<Self> {
        let reply = slot.get(REPLY_AT..REPLY_AT + REPLY_BYTES)?;
        let word = |place: usize| ne_u32(reply, place * 4).unwrap_or_default();
        let long = |at: usize| ne_u64(reply, at).unwrap_or_default();
        Some(Self {
            outcome: Outcome::from_number(word(0)),
            next: word(1),
            buckets: word(2),
            used: word(3),
            again: word(5),
            given_up: word(6),
            overlong: word(7),
            skip: word(8),
            jiffies: long(40),
            ktime_ns: long(48),
            hashinfo: long(56),
        })
    }
}

/// A network namespace and the tables that it uses: `struct net_record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    /// The inode of the namespace.
    pub inode: u32,
    /// Identity of its tables, as in [`Reply::hashinfo`].
    pub hashinfo: u64,
}

/// Iterates over the namespaces that `list_nets` wrote.
pub fn nets<'a>(slot: &'a [u8], reply: &Reply) -> impl Iterator<Item = Net> + use<'a> {
    let used = (reply.used as usize).min(RECORDS_BYTES);
    let records = slot.get(RECORDS_AT..RECORDS_AT + used).unwrap_or_default();
    records.chunks_exact(16).filter_map(|record| {
        Some(Net {
            inode: ne_u32(record, 0)?,
            hashinfo: ne_u64(record, 8)?,
        })
    })
}

const REPLY_AT: usize = 256;
const REPLY_BYTES: usize = 64;
/// After the page of request and reply, and the page of heads.
const RECORDS_AT: usize = 8192;
const RECORDS_BYTES: usize = 512 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn request_has_the_programs_layout() {
        let mut slot = vec![0xee; 256];
        Request {
            table: Table::Listening,
            first: 1,
            end: 2,
            detail: 3,
            states: 4,
            v4: false,
            netns: 6,
            skip: 7,
            local: End {
                port_min: 8,
                port_max: 9,
                prefix: [10; 16],
                mask: [11; 16],
            },
            quiet_since_us: 12,
            ..Request::ALL
        }
        .write(&mut slot);
        let words: alloc::vec::Vec<_> = (0..8).map(|place| ne_u32(&slot, place * 4).unwrap()).collect();
        assert_eq!(words, [1, 1, 2, 3, 4, 2, 6, 7]);
        let port = |at: usize| u16::from_ne_bytes([slot[at], slot[at + 1]]);
        assert_eq!([port(32), port(34), port(36), port(38)], [8, 9, 0, u16::MAX]);
        assert_eq!(
            (slot[40..56].to_vec(), slot[56..72].to_vec()),
            (vec![10; 16], vec![11; 16])
        );
        assert_eq!(
            (slot[72..104].to_vec(), ne_u64(&slot, 104), slot[112]),
            (vec![0; 32], Some(12), 0xee)
        );
    }

    #[test]
    fn reply_is_read_after_the_request() {
        let mut slot = vec![0; SLOT_BYTES];
        for place in 0..9_u32 {
            let at = REPLY_AT + place as usize * 4;
            slot[at..at + 4].copy_from_slice(&(place + 2).to_ne_bytes());
        }
        slot[REPLY_AT + 40..REPLY_AT + 48].copy_from_slice(&70_u64.to_ne_bytes());
        let reply = Reply::read(&slot).unwrap();
        assert_eq!(
            (reply.outcome, reply.next, reply.buckets, reply.used),
            (Outcome::Full, 3, 4, 5)
        );
        assert_eq!(
            (reply.again, reply.given_up, reply.overlong, reply.skip),
            (7, 8, 9, 10)
        );
        assert_eq!(reply.jiffies, 70);
        assert_eq!(Reply::read(&slot[..300]), None);
        Request::ALL.write(&mut slot[..3]);
    }
}
