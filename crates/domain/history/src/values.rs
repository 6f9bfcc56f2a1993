//! What changes while a socket lives: state, queues and counters. Each is a column of its own in a group of samples.

use sockeye_model::{Memory, Queues, Socket, State, TcpInfo};

/// The values of one socket in one sample, in the order of [`Values::COLUMNS`].
///
/// A recorder has one of these for each socket of the host: what fits into 32 bits takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// The lower halves.
    low: [u32; Values::COLUMNS.len()],
    /// The upper halves of [`WIDE`] columns.
    high: [u32; WIDE.len()],
    /// A bit for each number that is known.
    known: u32,
}

// Places of columns that are read for each socket.
const STATE: usize = 0;
const RECEIVE_QUEUE: usize = 1;
const SEND_QUEUE: usize = 2;
pub(crate) const BYTES_ACKED: usize = 5;
pub(crate) const BYTES_RECEIVED: usize = 6;
pub(crate) const RETRANS_SEGS: usize = 7;
pub(crate) const RTT: usize = 8;
const BUSY_MS: usize = 20;
const RWND_LIMITED_MS: usize = 21;
const SNDBUF_LIMITED_MS: usize = 22;
const CONNECT_FAILURES: usize = 23;
const CONNECT_REFUSALS: usize = 24;

/// Places of the columns whose numbers exceed 32 bits: bytes sent and received.
const WIDE: [usize; 2] = [BYTES_ACKED, BYTES_RECEIVED];

/// A column: its name, how it is read from a socket and written to one, and which difference is none. The second
/// argument is the time of the sample, in milliseconds since 1970.
#[derive(Debug)]
pub struct ValueColumn {
    /// The name, with its unit.
    pub name: &'static str,
    read: fn(&Socket, u64) -> Option<u64>,
    write: fn(&mut Socket, u64, u64),
    tolerance: u64,
    /// Whether it is a time, in seconds since 1970: it is near that of the sample.
    pub(crate) is_time: bool,
}

/// A column of tcp_info.
macro_rules! tcp_info {
    ($field:ident: $type:ty) => {
        ValueColumn {
            name: stringify!($field),
            read: |socket, _| socket.tcp_info.as_ref()?.$field.map(u64::from),
            write: |socket, number, _| info(socket).$field = <$type>::try_from(number).ok(),
            tolerance: 0,
            is_time: false,
        }
    };
}

/// A column for a time of tcp_info in microseconds: milliseconds fit into 32 bits for 49 days.
macro_rules! duration {
    ($name:literal, $field:ident) => {
        ValueColumn {
            name: $name,
            read: |socket, _| Some((socket.tcp_info.as_ref()?.$field? / 1000).min(u32::MAX.into())),
            write: |socket, number, _| info(socket).$field = Some(number.saturating_mul(1000)),
            tolerance: 0,
            is_time: false,
        }
    };
}

/// A column that no socket has: [`Values::of_failures`] sets it.
macro_rules! failures {
    ($name:literal) => {
        ValueColumn {
            name: $name,
            read: |_, _| None,
            write: |_, _, _| {},
            tolerance: 0,
            is_time: false,
        }
    };
}

/// A column for what tcp_info has as an age: its time, in seconds since 1970, changes only when it happens. Samples read the age at
/// slightly different times, by a clock that ticks every 1 to 10 ms.
macro_rules! time_of {
    ($name:literal, $field:ident) => {
        ValueColumn {
            name: $name,
            read: |socket, at_ms| Some(at_ms.saturating_sub(socket.tcp_info.as_ref()?.$field?.into()) / 1000),
            write: |socket, number, at_ms| {
                let age_ms = at_ms.saturating_sub(number.saturating_mul(1000));
                info(socket).$field = Some(u32::try_from(age_ms).unwrap_or(u32::MAX));
            },
            tolerance: 1,
            is_time: true,
        }
    };
}

impl Values {
    /// All columns. A store names them by their places: a new one comes at the end.
    pub const COLUMNS: [ValueColumn; 25] = [
        ValueColumn {
            name: "state",
            read: |socket, _| Some(socket.state.number().into()),
            write: |socket, number, _| socket.state = State::from_number(number as u8),
            tolerance: 0,
            is_time: false,
        },
        ValueColumn {
            name: "receive_queue_bytes",
            read: |socket, _| match socket.queues {
                Queues::Data { receive_bytes, .. } => Some(receive_bytes.into()),
                _ => None,
            },
            write: |socket, number, _| {
                socket.queues = Queues::Data {
                    receive_bytes: number as u32,
                    send_bytes: 0,
                };
            },
            tolerance: 0,
            is_time: false,
        },
        ValueColumn {
            name: "send_queue_bytes",
            read: |socket, _| match socket.queues {
                Queues::Data { send_bytes, .. } => Some(send_bytes.into()),
                _ => None,
            },
            write: |socket, number, _| {
                if let Queues::Data { send_bytes, .. } = &mut socket.queues {
                    *send_bytes = number as u32;
                }
            },
            tolerance: 0,
            is_time: false,
        },
        ValueColumn {
            name: "accept_waiting",
            read: |socket, _| match socket.queues {
                Queues::Accept { waiting, .. } => Some(waiting.into()),
                _ => None,
            },
            write: |socket, number, _| {
                socket.queues = Queues::Accept {
                    waiting: number as u32,
                    backlog: None,
                };
            },
            tolerance: 0,
            is_time: false,
        },
        ValueColumn {
            name: "accept_backlog",
            read: |socket, _| match socket.queues {
                Queues::Accept { backlog, .. } => backlog.map(u64::from),
                _ => None,
            },
            write: |socket, number, _| {
                if let Queues::Accept { backlog, .. } = &mut socket.queues {
                    *backlog = Some(number as u32);
                }
            },
            tolerance: 0,
            is_time: false,
        },
        tcp_info!(bytes_acked: u64),
        tcp_info!(bytes_received: u64),
        tcp_info!(total_retrans_segs: u32),
        ValueColumn {
            name: "rtt_us",
            read: |socket, _| Some(code(socket.tcp_info.as_ref()?.rtt_us?.into())),
            write: |socket, coded, _| {
                info(socket).rtt_us = Some(u32::try_from(of_code(coded)).unwrap_or(u32::MAX));
            },
            tolerance: 0,
            is_time: false,
        },
        tcp_info!(min_rtt_us: u32),
        tcp_info!(snd_cwnd_segs: u32),
        ValueColumn {
            name: "delivery_rate_code",
            read: |socket, _| Some(rate_code(socket.tcp_info.as_ref()?.delivery_rate_bytes_per_s?)),
            write: |socket, coded, _| info(socket).delivery_rate_bytes_per_s = Some(of_code(coded)),
            tolerance: 0,
            is_time: false,
        },
        tcp_info!(unacked_segs: u32),
        tcp_info!(lost_segs: u32),
        tcp_info!(retransmits: u8),
        tcp_info!(probes: u8),
        tcp_info!(backoff: u8),
        time_of!("last_data_sent_at_s", last_data_sent_ms),
        time_of!("last_data_recv_at_s", last_data_recv_ms),
        ValueColumn {
            name: "drops",
            read: |socket, _| socket.memory.as_ref()?.drops.map(u64::from),
            write: |socket, number, _| {
                socket.memory.get_or_insert_with(Memory::default).drops = u32::try_from(number).ok();
            },
            tolerance: 0,
            is_time: false,
        },
        duration!("busy_ms", busy_time_us),
        duration!("rwnd_limited_ms", rwnd_limited_us),
        duration!("sndbuf_limited_ms", sndbuf_limited_us),
        failures!("connect_failures"),
        failures!("connect_refusals"),
    ];

    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        low: [0; Self::COLUMNS.len()],
        high: [0; WIDE.len()],
        known: 0,
    };

    /// Takes over the values of a socket, in a sample of this time.
    #[must_use]
    pub fn of(socket: &Socket, at_ms: u64) -> Self {
        let mut values = Self::UNKNOWN;
        for (index, column) in COLUMNS.iter().enumerate() {
            values.set(index, (column.read)(socket, at_ms));
        }
        values
    }

    /// The values of connects that failed since the sample before, which no socket has: `refused` of them were refused by the peer.
    #[must_use]
    pub fn of_failures(failed: u32, refused: u32) -> Self {
        let mut values = Self::UNKNOWN;
        values.set(STATE, Some(State::Close.number().into()));
        values.set(CONNECT_FAILURES, Some(failed.into()));
        values.set(CONNECT_REFUSALS, Some(refused.into()));
        values
    }

    /// Returns how many connects failed since the sample before, and how many of them the peer refused; `None` for sockets.
    #[must_use]
    pub fn failures(&self) -> Option<(u64, u64)> {
        Some((self.at(CONNECT_FAILURES)?, self.at(CONNECT_REFUSALS).unwrap_or(0)))
    }

    /// Returns how long the connection had data to send, and of this, how long the peer's window and our send buffer held it back, in
    /// milliseconds; `None` if it is unknown.
    pub(crate) fn limits_ms(&self) -> Option<[u64; 3]> {
        let [busy, window, buffer] =
            [BUSY_MS, RWND_LIMITED_MS, SNDBUF_LIMITED_MS].map(|place| self.at(place));
        Some([busy?, window?, buffer?])
    }

    /// Writes what is known into a socket, for a sample of this time.
    pub fn write(&self, socket: &mut Socket, at_ms: u64) {
        for (index, column) in COLUMNS.iter().enumerate() {
            if let Some(number) = self.at(index) {
                (column.write)(socket, number, at_ms);
            }
        }
    }

    /// Returns the number of a column by its name; `None` if it is unknown.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        let place = COLUMNS.iter().position(|column| column.name == name)?;
        let number = self.at(place)?;
        Some(if place == RTT { of_code(number) } else { number })
    }

    /// Returns the state; `None` if it is unknown.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        Some(State::from_number(self.at(STATE)? as u8))
    }

    /// Whether the socket transfers no data any more: one in TIME_WAIT, which keeps the cookie of its connection, or one in FIN_WAIT2 that
    /// no process has. Neither has tcp_info.
    #[must_use]
    pub fn is_left_over(&self) -> bool {
        match self.state() {
            Some(State::TimeWait) => true,
            Some(State::FinWait2) => self.at(BYTES_ACKED).is_none(),
            _ => false,
        }
    }

    /// Whether no data waits to be sent or acknowledged.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.at(SEND_QUEUE) == Some(0)
    }

    /// Whether no data waits to be read.
    pub(crate) fn is_all_read(&self) -> bool {
        self.at(RECEIVE_QUEUE) == Some(0)
    }

    /// Notes that no data waits to be read.
    pub(crate) fn set_all_read(&mut self) {
        self.set(RECEIVE_QUEUE, Some(0));
    }

    pub(crate) fn at(&self, index: usize) -> Option<u64> {
        (self.known & 1 << index != 0).then(|| self.bits(index))
    }

    pub(crate) fn set(&mut self, index: usize, number: Option<u64>) {
        self.set_bits(index, number.unwrap_or(0));
        self.known = self.known & !(1 << index) | u32::from(number.is_some()) << index;
    }

    /// Returns a number, 0 if it is unknown.
    fn bits(&self, index: usize) -> u64 {
        let high = WIDE.iter().position(|wide| *wide == index);
        u64::from(self.low[index]) | high.map_or(0, |place| u64::from(self.high[place]) << 32)
    }

    /// Sets a number. The upper half of one that only a damaged store can have is lost.
    fn set_bits(&mut self, index: usize, number: u64) {
        self.low[index] = number as u32;
        if let Some(place) = WIDE.iter().position(|wide| *wide == index) {
            self.high[place] = (number >> 32) as u32;
        }
    }

    /// Returns the bits of the columns that differ from `before`. Differences within the tolerance of a column are undone.
    pub(crate) fn settle(&mut self, before: &Self) -> u32 {
        // Most sockets of a large host are idle.
        if self == before {
            return 0;
        }
        let mut differ = self.known ^ before.known;
        for (index, column) in COLUMNS.iter().enumerate() {
            let (now, then) = (self.bits(index), before.bits(index));
            if now == then || differ & 1 << index != 0 {
                continue;
            }
            if now.abs_diff(then) <= column.tolerance {
                self.set_bits(index, then);
            } else {
                differ |= 1 << index;
            }
        }
        differ
    }
}

/// One copy of the table, so that it is not built at each use.
pub(crate) static COLUMNS: [ValueColumn; Values::COLUMNS.len()] = Values::COLUMNS;

/// Returns a number to seven bits, so that a difference takes two bytes at most and not five: rates and round trip times are estimates of
/// the kernel's, and never the same again.
pub(crate) const fn code(number: u64) -> u64 {
    if number < 128 {
        return number;
    }
    let shift = 57 - number.leading_zeros() as u64;
    64 * shift + (number >> shift)
}

/// Returns a rate to six bits. It jumps from one sample to the next, so that each bit less is one less in the store.
const fn rate_code(rate: u64) -> u64 {
    let code = code(rate);
    if code < 128 { code } else { code | 1 }
}

/// The inverse of [`code`], to one percent.
const fn of_code(code: u64) -> u64 {
    if code < 128 {
        return code;
    }
    let shift = code / 64 - 1;
    if shift > 57 {
        return u64::MAX;
    }
    let middle = (1 << shift) / 2;
    ((code % 64 + 64) << shift) + middle
}

fn info(socket: &mut Socket) -> &mut TcpInfo {
    socket.tcp_info.get_or_insert_with(TcpInfo::default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Protocol;

    #[test]
    fn wide_columns_are_those_of_bytes() {
        let names = WIDE.map(|place| COLUMNS[place].name);
        assert_eq!(names, ["bytes_acked", "bytes_received"]);
        assert_eq!(COLUMNS[STATE].name, "state");
        assert_eq!(COLUMNS[RECEIVE_QUEUE].name, "receive_queue_bytes");
        assert_eq!(COLUMNS[SEND_QUEUE].name, "send_queue_bytes");
        assert_eq!(COLUMNS[RETRANS_SEGS].name, "total_retrans_segs");
        assert_eq!(COLUMNS[RTT].name, "rtt_us");
        assert_eq!(COLUMNS[BUSY_MS].name, "busy_ms");
        assert_eq!(COLUMNS[SNDBUF_LIMITED_MS].name, "sndbuf_limited_ms");
        assert_eq!(COLUMNS[CONNECT_FAILURES].name, "connect_failures");
        assert_eq!(COLUMNS[CONNECT_REFUSALS].name, "connect_refusals");
        // 25 columns, the upper halves of two, and a bit for each.
        assert!(size_of::<Values>() <= 112);
    }

    fn connection() -> Socket {
        let mut socket = Socket::new(Protocol::Tcp, State::CloseWait);
        socket.queues = Queues::Data {
            receive_bytes: 7,
            send_bytes: 9,
        };
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(1 << 40),
            // One that the code keeps as it is.
            rtt_us: Some(11_968),
            last_data_sent_ms: Some(4_000),
            busy_time_us: Some(7_000),
            rwnd_limited_us: Some(2_000),
            sndbuf_limited_us: Some(0),
            ..TcpInfo::default()
        });
        socket
    }

    #[test]
    fn failed_connects_are_no_socket() {
        let values = Values::of_failures(5, 3);
        assert_eq!(values.failures(), Some((5, 3)));
        assert_eq!(values.state(), Some(State::Close));
        assert_eq!(Values::of(&connection(), 0).failures(), None);
        assert_eq!(Values::of(&connection(), 0).limits_ms(), Some([7, 2, 0]));
        assert_eq!(values.limits_ms(), None);
    }

    #[test]
    fn values_survive_and_absent_ones_stay_absent() {
        let listener = Socket {
            queues: Queues::Accept {
                waiting: 3,
                backlog: Some(128),
            },
            ..Socket::new(Protocol::Tcp, State::Listen)
        };
        for socket in [connection(), listener] {
            let mut copy = Socket::new(Protocol::Tcp, State::Established);
            Values::of(&socket, 10_000).write(&mut copy, 10_000);
            assert_eq!(copy, socket);
        }
    }

    #[test]
    fn rates_and_round_trip_times_survive_to_some_percent() {
        for rate in [
            0,
            1,
            127,
            128,
            129,
            1_000,
            123_456_789,
            25_700_000_000,
            u64::MAX / 3,
            u64::MAX,
        ] {
            let back = of_code(code(rate));
            assert!(back.abs_diff(rate) <= rate / 100, "{rate}: {back}");
            let back = of_code(rate_code(rate));
            assert!(back.abs_diff(rate) <= rate / 40, "{rate}: {back}");
        }
        for code in [7_000, u64::MAX] {
            let _ = of_code(code);
        }
    }

    #[test]
    fn age_of_an_idle_connection_is_no_change() {
        let before = Values::of(&connection(), 10_000);
        let mut later = connection();
        let info = later.tcp_info.as_mut().unwrap();
        info.last_data_sent_ms = Some(14_900);
        let mut now = Values::of(&later, 20_000);
        assert_eq!(now.settle(&before), 0);
        assert_eq!(now, before);
        later.tcp_info.as_mut().unwrap().rtt_us = None;
        let mut now = Values::of(&later, 20_000);
        assert_eq!(now.settle(&before), 1 << 8);
        assert_eq!(now.number("rtt_us"), None);
    }
}
