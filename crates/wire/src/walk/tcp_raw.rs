//! Calculates `tcp_info` from the raw fields of a BPF walk record, as `tcp_get_info()` of the kernel does.
//! `TcpInfo::from_walk` of `model` uses it. Its results must equal those of `sock_diag`.

use super::KernelClock;
use crate::bytes::{ne_u16, ne_u32, ne_u64};

/// The fields of a socket from which the kernel calculates `struct tcp_info`: `struct tcp_raw` of bpf/tables.h.
///
/// Methods have the names and results of [`TcpInfo`](crate::tcp_info::TcpInfo)'s: they calculate as `tcp_get_info()` of
/// `net/ipv4/tcp.c` does. For a listener most are 0, as there.
#[derive(Debug, Clone, Copy)]
pub struct TcpRaw<'a> {
    bytes: &'a [u8; BYTES],
    now: KernelClock,
}

impl<'a> TcpRaw<'a> {
    /// Wraps the section, with the clocks of the run that wrote it; `None` if it is too short.
    #[must_use]
    #[inline]
    pub fn new(section: &'a [u8], now: KernelClock) -> Option<Self> {
        let bytes = section.first_chunk()?;
        Some(Self { bytes, now })
    }

    #[inline]
    fn is_listening(&self) -> bool {
        self.raw_state() == TCP_LISTEN
    }

    /// Returns a value that is 0 for listeners.
    #[inline]
    fn unless_listening<T: Default>(&self, value: impl FnOnce(&Self) -> T) -> Option<T> {
        Some(if self.is_listening() {
            T::default()
        } else {
            value(self)
        })
    }

    /// Returns a value that only kernels with this group of fields have, and that is 0 for listeners.
    #[inline]
    fn of_group<T: Default>(&self, group: u32, value: impl FnOnce(&Self) -> T) -> Option<T> {
        if self.raw_groups() & group == 0 {
            return None;
        }
        self.unless_listening(value)
    }
}

/// Times, rates and other calculated fields.
impl TcpRaw<'_> {
    /// `tcpi_state`
    #[must_use]
    pub fn state(&self) -> Option<u8> {
        Some(self.raw_state())
    }

    /// `tcpi_options`
    #[must_use]
    pub fn options(&self) -> Option<u8> {
        self.unless_listening(|raw| {
            let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
            let ecn = raw.raw_ecn_flags();
            bit(raw.raw_tstamp_ok() != 0, 1)
                | bit(raw.raw_sack_ok() != 0, 2)
                | bit(raw.raw_wscale_ok() != 0, 4)
                | bit(ecn & (TCP_ECN_OK | TCP_ECN_MODE_ACCECN) != 0, 8)
                | bit(ecn & TCP_ECN_SEEN != 0, 16)
                | bit(raw.raw_syn_data_acked() != 0, 32)
                | bit(raw.raw_usec_ts() != 0, 64)
                | bit(raw.raw_fastopen_child() != 0, 128)
        })
    }

    /// `tcpi_snd_wscale`
    #[must_use]
    pub fn snd_wscale(&self) -> Option<u8> {
        self.unless_listening(|raw| {
            if raw.raw_wscale_ok() != 0 {
                raw.raw_snd_wscale()
            } else {
                0
            }
        })
    }

    /// `tcpi_rcv_wscale`
    #[must_use]
    pub fn rcv_wscale(&self) -> Option<u8> {
        self.unless_listening(|raw| {
            if raw.raw_wscale_ok() != 0 {
                raw.raw_rcv_wscale()
            } else {
                0
            }
        })
    }

    /// `tcpi_delivery_rate_app_limited`
    #[must_use]
    pub fn delivery_rate_app_limited(&self) -> Option<bool> {
        self.unless_listening(|raw| raw.raw_rate_app_limited() != 0)
    }

    /// `tcpi_rto`
    #[must_use]
    pub fn rto(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.now.usecs(raw.raw_rto()))
    }

    /// `tcpi_ato`: at most `tcp_delack_max()`, since Linux 6.7
    #[must_use]
    pub fn ato(&self) -> Option<u32> {
        self.unless_listening(|raw| {
            let ato = raw.raw_ato();
            if raw.raw_groups() & HAS_RTO_TOTALS == 0 {
                return raw.now.usecs(ato);
            }
            // tcp_rto_min()
            let rto_min = if raw.raw_rto_min_locked() != 0 {
                raw.now.jiffies(raw.raw_route_rto_min_ms())
            } else {
                raw.raw_rto_min()
            };
            raw.now
                .usecs(ato.min(raw.raw_delack_max()).min(rto_min.max(2) - 1))
        })
    }

    /// `tcpi_unacked`; of a listener, the connections waiting for `accept`
    #[must_use]
    pub fn unacked(&self) -> Option<u32> {
        Some(if self.is_listening() {
            self.raw_ack_backlog()
        } else {
            self.raw_packets_out()
        })
    }

    /// `tcpi_sacked`; of a listener, the most connections that may wait
    #[must_use]
    pub fn sacked(&self) -> Option<u32> {
        Some(if self.is_listening() {
            self.raw_max_ack_backlog()
        } else {
            self.raw_sacked_out()
        })
    }

    /// `tcpi_fackets`, which is 0 since Linux 4.15
    #[must_use]
    pub fn fackets(&self) -> Option<u32> {
        Some(0)
    }

    /// `tcpi_last_data_sent`
    #[must_use]
    pub fn last_data_sent(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.now.msecs(raw.now.jiffies_since(raw.raw_lsndtime())))
    }

    /// `tcpi_last_ack_sent`, which is always 0
    #[must_use]
    pub fn last_ack_sent(&self) -> Option<u32> {
        Some(0)
    }

    /// `tcpi_last_data_recv`
    #[must_use]
    pub fn last_data_recv(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.now.msecs(raw.now.jiffies_since(raw.raw_lrcvtime())))
    }

    /// `tcpi_last_ack_recv`
    #[must_use]
    pub fn last_ack_recv(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.now.msecs(raw.now.jiffies_since(raw.raw_rcv_tstamp())))
    }

    /// `tcpi_rtt`: kept in eighths
    #[must_use]
    pub fn rtt(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.raw_srtt_us() >> 3)
    }

    /// `tcpi_rttvar`: kept in quarters
    #[must_use]
    pub fn rttvar(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.raw_mdev_us() >> 2)
    }

    /// `tcpi_rcv_rtt`: kept in eighths
    #[must_use]
    pub fn rcv_rtt(&self) -> Option<u32> {
        self.unless_listening(|raw| raw.raw_rcv_rtt_us() >> 3)
    }

    /// `tcpi_snd_cwnd`, also of listeners
    #[must_use]
    pub fn snd_cwnd(&self) -> Option<u32> {
        Some(self.raw_snd_cwnd())
    }

    /// `tcpi_reordering`, also of listeners
    #[must_use]
    pub fn reordering(&self) -> Option<u32> {
        Some(self.raw_reordering())
    }

    /// `tcpi_pacing_rate`, also of listeners; all ones means unlimited
    #[must_use]
    pub fn pacing_rate(&self) -> Option<u64> {
        Some(self.raw_pacing_rate())
    }

    /// `tcpi_max_pacing_rate`, likewise
    #[must_use]
    pub fn max_pacing_rate(&self) -> Option<u64> {
        Some(self.raw_max_pacing_rate())
    }

    /// `tcpi_notsent_bytes`
    #[must_use]
    pub fn notsent_bytes(&self) -> Option<u32> {
        self.unless_listening(|raw| {
            let unsent = raw.raw_write_seq().wrapping_sub(raw.raw_snd_nxt());
            unsent.cast_signed().max(0).cast_unsigned()
        })
    }

    /// `tcpi_delivery_rate`: `tcp_compute_delivery_rate()`
    #[must_use]
    pub fn delivery_rate(&self) -> Option<u64> {
        self.unless_listening(|raw| {
            let bytes = u64::from(raw.raw_rate_delivered()) * u64::from(raw.raw_mss_cache());
            let interval_us = u64::from(raw.raw_rate_interval_us());
            bytes
                .wrapping_mul(1_000_000)
                .checked_div(interval_us)
                .unwrap_or(0)
        })
    }

    /// `tcpi_busy_time`: the sum of all three chronographs
    #[must_use]
    pub fn busy_time(&self) -> Option<u64> {
        self.unless_listening(|raw| raw.chrono(1) + raw.chrono(2) + raw.chrono(3))
    }

    /// `tcpi_rwnd_limited`
    #[must_use]
    pub fn rwnd_limited(&self) -> Option<u64> {
        self.unless_listening(|raw| raw.chrono(2))
    }

    /// `tcpi_sndbuf_limited`
    #[must_use]
    pub fn sndbuf_limited(&self) -> Option<u64> {
        self.unless_listening(|raw| raw.chrono(3))
    }

    /// `tcp_get_info_chrono_stats()`: microseconds of one of `enum tcp_chrono`, the running one's up to now.
    fn chrono(&self, number: u8) -> u64 {
        let mut jiffies = u64::from(match number {
            1 => self.raw_chrono_busy(),
            2 => self.raw_chrono_rwnd_limited(),
            _ => self.raw_chrono_sndbuf_limited(),
        });
        if self.raw_chrono_type() == number {
            jiffies += u64::from(self.now.jiffies_since(self.raw_chrono_start()));
        }
        jiffies * self.now.usecs_per_jiffy()
    }

    /// `tcpi_rehash`, since Linux 6.2
    #[must_use]
    pub fn rehash(&self) -> Option<u32> {
        self.of_group(HAS_REHASH, |raw| {
            raw.raw_plb_rehash().wrapping_add(raw.raw_timeout_rehash())
        })
    }

    /// `tcpi_total_rto_time`, since Linux 6.7, including a running recovery
    #[must_use]
    pub fn total_rto_time(&self) -> Option<u32> {
        self.of_group(HAS_RTO_TOTALS, |raw| {
            let stamp = raw.raw_rto_stamp();
            let running = if stamp == 0 { 0 } else { raw.now.msecs_since(stamp) };
            raw.raw_total_rto_time().wrapping_add(running)
        })
    }
}

macro_rules! raw {
    ($($name:ident: $int:ident @ $at:literal;)*) => {
        impl TcpRaw<'_> {
            $(
                #[inline]
                fn $name(&self) -> $int {
                    // Each offset is below the length, which a test asserts: the default is never used.
                    raw!(@read $int, self.bytes, $at).unwrap_or_default()
                }
            )*
        }

        /// Every field of the section: name, offset, size.
        #[cfg(test)]
        const LAYOUT: &[(&str, usize, usize)] = &[$((stringify!($name), $at, size_of::<$int>())),*];
    };
    (@read u8, $bytes:expr, $at:literal) => { $bytes.get($at).copied() };
    (@read u16, $bytes:expr, $at:literal) => { ne_u16($bytes, $at) };
    (@read u32, $bytes:expr, $at:literal) => { ne_u32($bytes, $at) };
    (@read u64, $bytes:expr, $at:literal) => { ne_u64($bytes, $at) };
}

raw! {
    raw_groups: u32 @ 0;
    raw_state: u8 @ 4;
    raw_ca_state: u8 @ 5;
    raw_retransmits: u8 @ 6;
    raw_probes_out: u8 @ 7;
    raw_backoff: u8 @ 8;
    raw_tstamp_ok: u8 @ 9;
    raw_sack_ok: u8 @ 10;
    raw_wscale_ok: u8 @ 11;
    raw_snd_wscale: u8 @ 12;
    raw_rcv_wscale: u8 @ 13;
    raw_ecn_flags: u8 @ 14;
    raw_syn_data_acked: u8 @ 15;
    raw_usec_ts: u8 @ 16;
    raw_fastopen_child: u8 @ 17;
    raw_rate_app_limited: u8 @ 18;
    raw_fastopen_client_fail: u8 @ 19;
    raw_chrono_type: u8 @ 20;
    raw_accecn_fail_mode: u8 @ 21;
    raw_accecn_opt_seen: u8 @ 22;
    raw_rto_min_locked: u8 @ 23;
    raw_rto: u32 @ 24;
    raw_ato: u32 @ 28;
    raw_delack_max: u32 @ 32;
    raw_rto_min: u32 @ 36;
    raw_route_rto_min_ms: u32 @ 40;
    raw_mss_cache: u32 @ 44;
    raw_rcv_mss: u16 @ 48;
    raw_advmss: u16 @ 50;
    raw_packets_out: u32 @ 52;
    raw_sacked_out: u32 @ 56;
    raw_lost_out: u32 @ 60;
    raw_retrans_out: u32 @ 64;
    raw_ack_backlog: u32 @ 68;
    raw_max_ack_backlog: u32 @ 72;
    raw_lsndtime: u32 @ 76;
    raw_lrcvtime: u32 @ 80;
    raw_rcv_tstamp: u32 @ 84;
    raw_pmtu_cookie: u32 @ 88;
    raw_rcv_ssthresh: u32 @ 92;
    raw_srtt_us: u32 @ 96;
    raw_mdev_us: u32 @ 100;
    raw_snd_ssthresh: u32 @ 104;
    raw_snd_cwnd: u32 @ 108;
    raw_reordering: u32 @ 112;
    raw_rcv_rtt_us: u32 @ 116;
    raw_rcv_space: u32 @ 120;
    raw_total_retrans: u32 @ 124;
    raw_write_seq: u32 @ 128;
    raw_snd_nxt: u32 @ 132;
    raw_segs_out: u32 @ 136;
    raw_segs_in: u32 @ 140;
    raw_data_segs_in: u32 @ 144;
    raw_data_segs_out: u32 @ 148;
    raw_min_rtt_us: u32 @ 152;
    raw_rate_delivered: u32 @ 156;
    raw_rate_interval_us: u32 @ 160;
    raw_chrono_start: u32 @ 164;
    raw_chrono_busy: u32 @ 168;
    raw_chrono_rwnd_limited: u32 @ 172;
    raw_chrono_sndbuf_limited: u32 @ 176;
    raw_delivered: u32 @ 180;
    raw_delivered_ce: u32 @ 184;
    raw_dsack_dups: u32 @ 188;
    raw_reord_seen: u32 @ 192;
    raw_rcv_ooopack: u32 @ 196;
    raw_snd_wnd: u32 @ 200;
    raw_rcv_wnd: u32 @ 204;
    raw_plb_rehash: u32 @ 208;
    raw_timeout_rehash: u32 @ 212;
    raw_total_rto: u16 @ 216;
    raw_total_rto_recoveries: u16 @ 218;
    raw_total_rto_time: u32 @ 220;
    raw_rto_stamp: u32 @ 224;
    raw_received_ce: u32 @ 228;
    raw_delivered_e1_bytes: u32 @ 232;
    raw_delivered_e0_bytes: u32 @ 236;
    raw_delivered_ce_bytes: u32 @ 240;
    raw_received_e1_bytes: u32 @ 244;
    raw_received_e0_bytes: u32 @ 248;
    raw_received_ce_bytes: u32 @ 252;
    raw_pacing_rate: u64 @ 256;
    raw_max_pacing_rate: u64 @ 264;
    raw_bytes_acked: u64 @ 272;
    raw_bytes_received: u64 @ 280;
    raw_bytes_sent: u64 @ 288;
    raw_bytes_retrans: u64 @ 296;
}

/// `sizeof(struct tcp_raw)`
pub(super) const BYTES: usize = 304;

/// Fields that are reported unchanged, but as 0 for listeners.
macro_rules! unchanged {
    ($($name:ident: $int:ident = $raw:ident $(, $group:ident)?;)*) => {
        impl TcpRaw<'_> {
            $(
                #[doc = concat!("`tcpi_", stringify!($name), "`")]
                #[must_use]
                #[inline]
                pub fn $name(&self) -> Option<$int> {
                    unchanged!(@ self, $int::from(self.$raw()) $(, $group)?)
                }
            )*
        }
    };
    (@ $self:ident, $value:expr) => { $self.unless_listening(|_| $value) };
    (@ $self:ident, $value:expr, $group:ident) => { $self.of_group($group, |_| $value) };
}

unchanged! {
    ca_state: u8 = raw_ca_state;
    retransmits: u8 = raw_retransmits;
    probes: u8 = raw_probes_out;
    backoff: u8 = raw_backoff;
    fastopen_client_fail: u8 = raw_fastopen_client_fail;
    snd_mss: u32 = raw_mss_cache;
    rcv_mss: u32 = raw_rcv_mss;
    lost: u32 = raw_lost_out;
    retrans: u32 = raw_retrans_out;
    pmtu: u32 = raw_pmtu_cookie;
    rcv_ssthresh: u32 = raw_rcv_ssthresh;
    snd_ssthresh: u32 = raw_snd_ssthresh;
    advmss: u32 = raw_advmss;
    rcv_space: u32 = raw_rcv_space;
    total_retrans: u32 = raw_total_retrans;
    bytes_acked: u64 = raw_bytes_acked;
    bytes_received: u64 = raw_bytes_received;
    segs_out: u32 = raw_segs_out;
    segs_in: u32 = raw_segs_in;
    min_rtt: u32 = raw_min_rtt_us;
    data_segs_in: u32 = raw_data_segs_in;
    data_segs_out: u32 = raw_data_segs_out;
    delivered: u32 = raw_delivered;
    delivered_ce: u32 = raw_delivered_ce;
    bytes_sent: u64 = raw_bytes_sent;
    bytes_retrans: u64 = raw_bytes_retrans;
    dsack_dups: u32 = raw_dsack_dups;
    reord_seen: u32 = raw_reord_seen;
    rcv_ooopack: u32 = raw_rcv_ooopack;
    snd_wnd: u32 = raw_snd_wnd;
    rcv_wnd: u32 = raw_rcv_wnd, HAS_REHASH;
    total_rto: u16 = raw_total_rto, HAS_RTO_TOTALS;
    total_rto_recoveries: u16 = raw_total_rto_recoveries, HAS_RTO_TOTALS;
    received_ce: u32 = raw_received_ce, HAS_ACCECN;
    delivered_e1_bytes: u32 = raw_delivered_e1_bytes, HAS_ACCECN;
    delivered_e0_bytes: u32 = raw_delivered_e0_bytes, HAS_ACCECN;
    delivered_ce_bytes: u32 = raw_delivered_ce_bytes, HAS_ACCECN;
    received_e1_bytes: u32 = raw_received_e1_bytes, HAS_ACCECN;
    received_e0_bytes: u32 = raw_received_e0_bytes, HAS_ACCECN;
    received_ce_bytes: u32 = raw_received_ce_bytes, HAS_ACCECN;
    accecn_fail_mode: u16 = raw_accecn_fail_mode, HAS_ACCECN;
    accecn_opt_seen: u16 = raw_accecn_opt_seen, HAS_ACCECN;
}

// enum groups of bpf/tables.h
const HAS_REHASH: u32 = 1;
const HAS_RTO_TOTALS: u32 = 2;
const HAS_ACCECN: u32 = 4;

const TCP_LISTEN: u8 = 10;
// include/net/tcp.h; the third came with AccECN, and no older kernel uses its bit
const TCP_ECN_OK: u8 = 1;
const TCP_ECN_SEEN: u8 = 8;
const TCP_ECN_MODE_ACCECN: u8 = 16;

#[cfg(test)]
mod tests;
