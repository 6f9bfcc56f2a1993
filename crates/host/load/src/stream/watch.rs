//! Samples of `tcp_info` at the sender of a stream.

use rustix::io::Errno;
use sockeye_measure::Sender;
use sockeye_model::{CaState, State, TcpInfo};
use sockeye_sys::tcp;
use std::os::fd::AsFd;
use std::time::Instant;

/// Samples of one sending socket, and their summary.
#[derive(Debug)]
pub struct Watch {
    first: TcpInfo,
    last: TcpInfo,
    started_at: Instant,
    sampled_at: Instant,
    counts: Counts,
    rtt: Samples,
    cwnd: Samples,
    window: Samples,
    sndbuf: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    all: u64,
    recovery: u64,
    loss: u64,
    full: u64,
    paced: u64,
    buffer_full: u64,
    idle: u64,
    app_limited: u64,
}

impl Watch {
    /// Starts with a first sample; `None` if the socket has no `tcp_info`.
    pub fn new(socket: &impl AsFd) -> Option<Self> {
        let first = tcp_info(socket).ok()?;
        let now = Instant::now();
        Some(Self {
            first,
            last: first,
            started_at: now,
            sampled_at: now,
            counts: Counts::default(),
            rtt: Samples::default(),
            cwnd: Samples::default(),
            window: Samples::default(),
            sndbuf: None,
        })
    }

    /// Discards the samples, and starts anew.
    pub fn restart(&mut self, socket: &impl AsFd) {
        if let Some(new) = Self::new(socket) {
            *self = new;
        }
    }

    /// Takes a sample. Works after the peer has gone; does nothing once the socket is closed.
    pub fn sample(&mut self, socket: &impl AsFd) {
        let Ok(info) = tcp_info(socket) else { return };
        if info.bytes_sent < self.last.bytes_sent {
            return;
        }
        self.last = info;
        self.sampled_at = Instant::now();
        let sndbuf = rustix::net::sockopt::socket_send_buffer_size(socket);
        self.sndbuf = sndbuf.ok().map(|bytes| bytes as u64).or(self.sndbuf);
        self.count(&info);
        self.rtt.push(info.rtt_us);
        self.cwnd.push(info.snd_cwnd_segs);
        self.window.push(info.snd_wnd_bytes);
    }

    fn count(&mut self, info: &TcpInfo) {
        let counts = &mut self.counts;
        counts.all += 1;
        let (in_flight, waiting) = (info.unacked_segs.unwrap_or(0), info.notsent_bytes.unwrap_or(0));
        let (cwnd, mss) = (info.snd_cwnd_segs.unwrap_or(0), info.snd_mss_bytes.unwrap_or(1));
        let in_flight_bytes = u64::from(in_flight) * u64::from(mss);
        let has_window = info
            .snd_wnd_bytes
            .is_none_or(|window| u64::from(window) >= (u64::from(in_flight) + 1) * u64::from(mss));
        counts.app_limited += u64::from(info.delivery_rate_app_limited == Some(true));
        match info.ca_state() {
            Some(CaState::Loss) => counts.loss += 1,
            Some(CaState::Recovery) => counts.recovery += 1,
            // A buffer that the kernel sizes holds twice the window, and includes the kernel's overhead.
            _ if waiting == 0 && self.sndbuf.is_some_and(|bytes| in_flight_bytes >= bytes / 3 * 2) => {
                counts.buffer_full += 1;
            }
            _ if waiting == 0 => counts.idle += 1,
            _ if in_flight.saturating_add(BURST_SEGS) > cwnd => counts.full += 1,
            _ if has_window => counts.paced += 1,
            _ => {}
        }
    }

    /// Returns segments that were retransmitted since the start.
    pub(super) fn retransmitted(&self) -> Option<u64> {
        since(self.first.total_retrans_segs, self.last.total_retrans_segs)
    }

    /// Round trip, and congestion window in bytes, as last sampled.
    pub(super) fn path(&self) -> (Option<u64>, Option<u64>) {
        let cwnd = self.last.snd_cwnd_segs.zip(self.last.snd_mss_bytes);
        (
            self.last.rtt_us.map(u64::from),
            cwnd.map(|(segs, mss)| u64::from(segs) * u64::from(mss)),
        )
    }

    /// Returns the summary of all samples.
    pub fn summary(&self) -> Sender {
        let (first, last, counts) = (&self.first, &self.last, &self.counts);
        let known = |rate: Option<u64>| rate.filter(|&rate| rate != u64::MAX && rate != u64::from(u32::MAX));
        Sender {
            elapsed_us: u64::try_from(self.sampled_at.duration_since(self.started_at).as_micros()).ok(),
            busy_us: since(first.busy_time_us, last.busy_time_us),
            rwnd_limited_us: since(first.rwnd_limited_us, last.rwnd_limited_us),
            sndbuf_limited_us: since(first.sndbuf_limited_us, last.sndbuf_limited_us),
            samples: Some(counts.all),
            samples_recovery: Some(counts.recovery),
            samples_loss: Some(counts.loss),
            samples_cwnd_full: Some(counts.full),
            samples_paced: Some(counts.paced),
            samples_buffer_full: Some(counts.buffer_full),
            samples_idle: Some(counts.idle),
            samples_app_limited: Some(counts.app_limited),
            data_segs: since(first.data_segs_out, last.data_segs_out),
            retransmitted_segs: self.retransmitted(),
            retransmitted_bytes: since(first.bytes_retrans, last.bytes_retrans),
            timeouts: since(first.total_rto, last.total_rto),
            reorderings: since(first.reord_seen, last.reord_seen),
            needless_segs: since(first.dsack_dups, last.dsack_dups),
            marked_segs: since(first.delivered_ce_segs, last.delivered_ce_segs),
            rtt_us: self.rtt.median(),
            rtt_last_us: last.rtt_us.map(u64::from),
            min_rtt_us: last.min_rtt_us.map(u64::from),
            cwnd_segs: self.cwnd.median(),
            cwnd_max_segs: self.cwnd.max(),
            ssthresh_segs: last
                .snd_ssthresh_segs
                .filter(|&segs| segs < NO_THRESHOLD)
                .map(u64::from),
            mss_bytes: last.snd_mss_bytes.map(u64::from),
            pmtu_bytes: last.pmtu_bytes.map(u64::from),
            window_bytes: self.window.median(),
            pacing_bytes_per_s: known(last.pacing_rate_bytes_per_s),
            pacing_max_bytes_per_s: known(last.max_pacing_rate_bytes_per_s),
            delivery_bytes_per_s: last.delivery_rate_bytes_per_s,
            sndbuf_bytes: self.sndbuf,
        }
    }
}

/// Reads `tcp_info` of a connection.
pub(super) fn tcp_info(socket: impl AsFd) -> Result<TcpInfo, Errno> {
    let mut buffer = [0; tcp::INFO_LEN_MAX];
    let bytes = tcp::info(socket, &mut buffer)?;
    Ok(TcpInfo::from_wire(
        &sockeye_wire::tcp_info::TcpInfo::new(bytes),
        State::Established,
    ))
}

fn since<T: Into<u64>>(first: Option<T>, last: Option<T>) -> Option<u64> {
    Some(last?.into().saturating_sub(first?.into()))
}

/// A bounded selection of values for a median: when it is full, every second one is dropped.
#[derive(Debug, Default)]
struct Samples {
    kept: Vec<u32>,
    max: Option<u32>,
    stride: u32,
    skipped: u32,
}

impl Samples {
    fn push(&mut self, value: Option<u32>) {
        let Some(value) = value else { return };
        self.max = self.max.max(Some(value));
        self.skipped += 1;
        if self.skipped < self.stride {
            return;
        }
        self.skipped = 0;
        if self.kept.len() == SAMPLES_MAX {
            let mut is_kept = false;
            self.kept.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.stride = self.stride.max(1) * 2;
        }
        self.kept.push(value);
    }

    fn median(&self) -> Option<u64> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().map(u64::from)
    }

    fn max(&self) -> Option<u64> {
        self.max.map(u64::from)
    }
}

const SAMPLES_MAX: usize = 2048;
/// Segments that the kernel defers, to send more at once later (`tcp_tso_should_defer`).
const BURST_SEGS: u32 = 3;
/// `TCP_INFINITE_SSTHRESH`
const NO_THRESHOLD: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_many_values_is_close() {
        let mut samples = Samples::default();
        assert_eq!(samples.median(), None);
        for value in 0..100_000 {
            samples.push(Some(value));
        }
        samples.push(None);
        assert!(samples.kept.len() <= SAMPLES_MAX);
        assert_eq!(samples.max(), Some(99_999));
        assert!((40_000..60_000).contains(&samples.median().unwrap()));
    }
}
