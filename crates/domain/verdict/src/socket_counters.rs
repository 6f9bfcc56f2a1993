//! Counters of `tcp_info` and of the socket's drops that `check` compares between two samples. `Snapshot`
//! makes the differences; `connection.rs` and `socket.rs` judge them. A missing counter counts as 0.

use sockeye_model::{Socket, TcpInfo};

/// Whether less than a segment waits until what is in flight is acknowledged, though both windows have room: what
/// Nagle's algorithm does (`tcp_nagle_test()`).
fn is_held_back(info: &TcpInfo) -> bool {
    let (Some(waiting), Some(in_flight), Some(mss), Some(cwnd)) = (
        info.notsent_bytes,
        info.unacked_segs,
        info.snd_mss_bytes,
        info.snd_cwnd_segs,
    ) else {
        return false;
    };
    waiting > 0
        && waiting < mss
        && (1..cwnd).contains(&in_flight)
        && info
            .snd_wnd_bytes
            .is_none_or(|window| u64::from(window) >= u64::from(mss) * 2)
}

/// Counters of one socket: at one moment, or their change between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SocketCounters {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Looks in which less than a segment waited for an acknowledgement, though the windows were open
    pub(crate) held_back: u8,
    pub(crate) busy_us: u64,
    pub(crate) receiver_limited_us: u64,
    pub(crate) send_buffer_limited_us: u64,
    pub(crate) sent_segs: u32,
    pub(crate) retransmitted_segs: u32,
    pub(crate) needless_segs: u32,
    pub(crate) reorderings: u32,
    pub(crate) received_segs: u32,
    pub(crate) received_data_segs: u32,
    pub(crate) drops: u32,
}

impl SocketCounters {
    pub(crate) fn of(socket: &Socket) -> Self {
        let nothing = TcpInfo::default();
        let info = socket.tcp_info.as_ref().unwrap_or(&nothing);
        Self {
            sent_bytes: info.bytes_sent.unwrap_or(0),
            received_bytes: info.bytes_received.unwrap_or(0),
            held_back: u8::from(is_held_back(info)),
            busy_us: info.busy_time_us.unwrap_or(0),
            receiver_limited_us: info.rwnd_limited_us.unwrap_or(0),
            send_buffer_limited_us: info.sndbuf_limited_us.unwrap_or(0),
            sent_segs: info.data_segs_out.unwrap_or(0),
            retransmitted_segs: info.total_retrans_segs.unwrap_or(0),
            needless_segs: info.dsack_dups.unwrap_or(0),
            reorderings: info.reord_seen.unwrap_or(0),
            received_segs: info.segs_in.unwrap_or(0),
            received_data_segs: info.data_segs_in.unwrap_or(0),
            drops: socket.memory.and_then(|memory| memory.drops).unwrap_or(0),
        }
    }

    /// Number of counters.
    pub(crate) const COUNT: usize = 13;

    /// Returns the counters as numbers, in the order of their declaration.
    pub(crate) fn numbers(&self) -> [u64; Self::COUNT] {
        [
            self.sent_bytes,
            self.received_bytes,
            self.held_back.into(),
            self.busy_us,
            self.receiver_limited_us,
            self.send_buffer_limited_us,
            self.sent_segs.into(),
            self.retransmitted_segs.into(),
            self.needless_segs.into(),
            self.reorderings.into(),
            self.received_segs.into(),
            self.received_data_segs.into(),
            self.drops.into(),
        ]
    }

    /// Returns the counters that [`Self::numbers`] gave.
    pub(crate) const fn of_numbers(numbers: [u64; Self::COUNT]) -> Self {
        Self {
            sent_bytes: numbers[0],
            received_bytes: numbers[1],
            held_back: numbers[2] as u8,
            busy_us: numbers[3],
            receiver_limited_us: numbers[4],
            send_buffer_limited_us: numbers[5],
            sent_segs: numbers[6] as u32,
            retransmitted_segs: numbers[7] as u32,
            needless_segs: numbers[8] as u32,
            reorderings: numbers[9] as u32,
            received_segs: numbers[10] as u32,
            received_data_segs: numbers[11] as u32,
            drops: numbers[12] as u32,
        }
    }

    /// Returns the change since `earlier`. The kernel's 32-bit counters wrap.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            held_back: self.held_back + earlier.held_back,
            busy_us: self.busy_us.saturating_sub(earlier.busy_us),
            receiver_limited_us: self
                .receiver_limited_us
                .saturating_sub(earlier.receiver_limited_us),
            send_buffer_limited_us: self
                .send_buffer_limited_us
                .saturating_sub(earlier.send_buffer_limited_us),
            sent_segs: self.sent_segs.wrapping_sub(earlier.sent_segs),
            retransmitted_segs: self.retransmitted_segs.wrapping_sub(earlier.retransmitted_segs),
            needless_segs: self.needless_segs.wrapping_sub(earlier.needless_segs),
            reorderings: self.reorderings.wrapping_sub(earlier.reorderings),
            received_segs: self.received_segs.wrapping_sub(earlier.received_segs),
            received_data_segs: self.received_data_segs.wrapping_sub(earlier.received_data_segs),
            drops: self.drops.wrapping_sub(earlier.drops),
        }
    }
}
