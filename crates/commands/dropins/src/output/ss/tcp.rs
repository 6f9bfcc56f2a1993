//! Details of TCP and MPTCP (`-i`).

use super::level::SsLevel;
use super::line::{Line, push_address};
use super::printf::{push_g, push_g_256ths, push_g_thousandths, push_whole};
use super::row::SsRow;
use sockeye_model::{CongestionInfo, Md5Key, MptcpInfo, Queues, Socket, State, Subflow, TcpInfo, Tls};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Line<'_> {
    pub(super) fn tcp(&mut self, row: &SsRow<'_>) {
        if let Some(info) = &row.socket.tcp_info {
            self.tcp_info(row.socket, info);
        }
        if let Some(keys) = row.diag_details.md5_keys() {
            for (nth, key) in keys.enumerate() {
                self.text(if nth == 0 { " md5keys:" } else { "," });
                self.md5_key(&key);
            }
        }
        if let Some(name) = row.diag_details.upper_layer.or(row.socket.ulp) {
            self.text(" tcp-ulp-");
            self.untrusted(name.as_bytes());
        }
        if let Some(tls) = &row.diag_details.tls {
            self.tls(tls);
        }
        if let Some(subflow) = &row.diag_details.subflow {
            self.subflow(subflow);
        }
    }

    fn tcp_info(&mut self, socket: &Socket, info: &TcpInfo) {
        let options = info.options.unwrap_or(0);
        if self.layout.timers {
            for (bit, name, since) in [
                (0, " ts", SsLevel::V6_1),
                (6, " usec_ts", SsLevel::V6_15),
                (1, " sack", SsLevel::V6_1),
                (3, " ecn", SsLevel::V6_1),
                (4, " ecnseen", SsLevel::V6_1),
                (5, " fastopen", SsLevel::V6_1),
            ] {
                if options & 1 << bit != 0 && self.layout.level >= since {
                    self.text(name);
                }
            }
        }
        if let Some(name) = socket.congestion.filter(|name| !name.as_bytes().is_empty()) {
            self.text(" ");
            self.untrusted(name.as_bytes());
        }
        if options & HAS_WSCALE != 0 {
            self.number(" wscale:", info.snd_wscale.unwrap_or(0).into());
            self.number(",", info.rcv_wscale.unwrap_or(0).into());
        }
        self.thousandths(" rto:", info.rto_us.filter(|&us| us != RTO_DEFAULT_US));
        self.nonzero(" backoff:", info.backoff);
        if let Some(rtt) = info.rtt_us.filter(|&us| us > 0) {
            self.text(" rtt:");
            push_g_thousandths(self.out(), rtt.into());
            self.text("/");
            push_g_thousandths(self.out(), info.rttvar_us.unwrap_or(0).into());
        }
        self.thousandths(" ato:", info.ato_us);
        self.nonzero(" mss:", info.snd_mss_bytes);
        self.nonzero(" pmtu:", info.pmtu_bytes);
        self.nonzero(" rcvmss:", info.rcv_mss_bytes);
        self.nonzero(" advmss:", info.advmss_bytes);
        self.nonzero(" cwnd:", info.snd_cwnd_segs);
        self.nonzero(" ssthresh:", info.snd_ssthresh_segs.filter(|&segs| segs < 0xffff));
        self.nonzero(" bytes_sent:", info.bytes_sent);
        self.nonzero(" bytes_retrans:", info.bytes_retrans);
        self.nonzero(" bytes_acked:", info.bytes_acked);
        self.nonzero(" bytes_received:", info.bytes_received);
        self.nonzero(" segs_out:", info.segs_out);
        self.nonzero(" segs_in:", info.segs_in);
        self.nonzero(" data_segs_out:", info.data_segs_out);
        self.nonzero(" data_segs_in:", info.data_segs_in);
        if let Some(congestion) = &socket.congestion_info {
            self.congestion(congestion);
        }
        self.send_rate(socket, info);
        self.nonzero(" lastsnd:", info.last_data_sent_ms);
        self.nonzero(" lastrcv:", info.last_data_recv_ms);
        self.nonzero(" lastack:", info.last_ack_recv_ms);
        let is_limit = |rate: &u64| *rate > 0 && *rate != u64::MAX;
        if let Some(rate) = info.pacing_rate_bytes_per_s.filter(is_limit) {
            self.rate(" pacing_rate ", rate as f64 * 8.0);
            if let Some(most) = info.max_pacing_rate_bytes_per_s.filter(is_limit) {
                self.rate("/", most as f64 * 8.0);
            }
        }
        if let Some(rate) = info.delivery_rate_bytes_per_s.filter(|&rate| rate > 0) {
            self.rate(" delivery_rate ", rate as f64 * 8.0);
        }
        self.nonzero(" delivered:", info.delivered_segs);
        self.nonzero(" delivered_ce:", info.delivered_ce_segs);
        if info.delivery_rate_app_limited == Some(true) {
            self.text(" app_limited");
        }
        self.limits(info);
        // For a listener the kernel reports the length of the accept queue here.
        let unacked = match socket.queues {
            Queues::Accept { waiting, .. } if socket.state == State::Listen => Some(waiting),
            _ => info.unacked_segs,
        };
        self.nonzero(" unacked:", unacked);
        let (retrans, total) = (
            info.retrans_segs.unwrap_or(0),
            info.total_retrans_segs.unwrap_or(0),
        );
        if retrans > 0 || total > 0 {
            self.number(" retrans:", retrans.into());
            self.number("/", total.into());
        }
        self.nonzero(" lost:", info.lost_segs);
        self.nonzero(" sacked:", info.sacked_segs);
        self.nonzero(" dsack_dups:", info.dsack_dups);
        self.nonzero(" fackets:", info.fackets_segs);
        if info.reordering_segs != Some(REORDERING_DEFAULT) {
            self.number(" reordering:", info.reordering_segs.unwrap_or(0).into());
        }
        self.nonzero(" reord_seen:", info.reord_seen);
        self.thousandths(" rcv_rtt:", info.rcv_rtt_us);
        self.nonzero(" rcv_space:", info.rcv_space_bytes);
        self.nonzero(" rcv_ssthresh:", info.rcv_ssthresh_bytes);
        self.nonzero(" notsent:", info.notsent_bytes);
        self.thousandths(" minrtt:", info.min_rtt_us);
        self.nonzero(" rcv_ooopack:", info.rcv_ooopack);
        self.nonzero(" snd_wnd:", info.snd_wnd_bytes);
        if self.layout.level >= SsLevel::V6_15 {
            self.nonzero(" rcv_wnd:", info.rcv_wnd_bytes);
            self.nonzero(" rehash:", info.rehash);
        }
    }

    /// Appends a value unless it is absent or 0.
    #[inline]
    fn nonzero(&mut self, label: &str, value: Option<impl Into<u64>>) {
        let value = value.map_or(0, Into::into);
        if value > 0 {
            self.number(label, value);
        }
    }

    /// Appends a time in milliseconds unless it is absent or 0.
    #[inline]
    fn thousandths(&mut self, label: &str, us: Option<u32>) {
        if let Some(us) = us.filter(|&us| us > 0) {
            self.text(label);
            push_g_thousandths(self.out(), us.into());
        }
    }

    /// Appends a rate in bits per second.
    fn rate(&mut self, label: &str, bits_per_s: f64) {
        self.text(label);
        let numeric = self.layout.numeric;
        push_bit_rate(self.out(), bits_per_s, numeric);
        self.text("bps");
    }

    /// Appends the send rate: a congestion window per round trip.
    fn send_rate(&mut self, socket: &Socket, info: &TcpInfo) {
        let mut rtt = info.rtt_us.unwrap_or(0);
        if let Some(CongestionInfo::Vegas {
            enabled: true,
            rtt_us,
            ..
        }) = socket.congestion_info
            && rtt_us != 0
            && rtt_us != VEGAS_NO_RTT
        {
            rtt = rtt_us;
        }
        let (mss, cwnd) = (info.snd_mss_bytes.unwrap_or(0), info.snd_cwnd_segs.unwrap_or(0));
        if rtt > 0 && mss > 0 && cwnd > 0 {
            let rate = f64::from(cwnd) * f64::from(mss) * 8_000_000.0 / f64::from(rtt);
            self.rate(" send ", rate);
        }
    }

    fn congestion(&mut self, info: &CongestionInfo) {
        match *info {
            CongestionInfo::Dctcp { enabled: false, .. } => self.text(" dctcp:fallback_mode"),
            CongestionInfo::Dctcp {
                ce_state,
                alpha_1024ths,
                ecn_bytes,
                total_bytes,
                ..
            } => self.text(&format!(
                " dctcp:(ce_state:{ce_state},alpha:{alpha_1024ths},ab_ecn:{ecn_bytes},ab_tot:{total_bytes})"
            )),
            CongestionInfo::Bbr {
                bandwidth_bytes_per_s,
                min_rtt_us,
                pacing_gain_256ths,
                cwnd_gain_256ths,
            } => {
                self.rate(" bbr:(bw:", bandwidth_bytes_per_s as f64 * 8.0);
                self.text(",mrtt:");
                push_g_thousandths(self.out(), min_rtt_us.into());
                for (label, gain) in [
                    (",pacing_gain:", pacing_gain_256ths),
                    (",cwnd_gain:", cwnd_gain_256ths),
                ] {
                    if gain > 0 {
                        self.text(label);
                        push_g_256ths(self.out(), gain);
                    }
                }
                self.text(")");
            }
            CongestionInfo::Vegas { .. } => {}
        }
    }

    /// Appends the busy time, and the parts of it that were limited by the receive window and the send buffer.
    fn limits(&mut self, info: &TcpInfo) {
        let Some(busy) = info.busy_time_us.filter(|&us| us > 0) else {
            return;
        };
        self.number(" busy:", busy / 1000);
        self.text("ms");
        for (label, us) in [
            (" rwnd_limited:", info.rwnd_limited_us),
            (" sndbuf_limited:", info.sndbuf_limited_us),
        ] {
            if let Some(us) = us.filter(|&us| us > 0) {
                self.number(label, us / 1000);
                self.text(&format!("ms({:.1}%)", 100.0 * us as f64 / busy as f64));
            }
        }
    }

    /// Appends an MD5 key, including the secret, as `ss` does.
    fn md5_key(&mut self, key: &Md5Key<'_>) {
        let [a, b, c, d, ..] = key.address;
        let ip = match key.family {
            10 => IpAddr::V6(Ipv6Addr::from(key.address)),
            _ => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        };
        push_address(self.out(), ip);
        self.number("/", key.prefix_len.into());
        self.text("=");
        for &byte in key.key {
            if (byte.is_ascii_graphic() || byte == b' ') && !b"\\ ,".contains(&byte) {
                self.out().push(byte);
            } else {
                self.text(&format!("\\{byte:03o}"));
            }
        }
    }

    fn tls(&mut self, tls: &Tls) {
        match tls.version {
            Some(0x0303) => self.text(" version: 1.2"),
            Some(0x0304) => self.text(" version: 1.3"),
            Some(version) => self.text(&format!(" version: unknown({version})")),
            None => {}
        }
        match tls.cipher {
            Some(51) => self.text(" cipher: aes-gcm-128"),
            Some(52) => self.text(" cipher: aes-gcm-256"),
            _ => {}
        }
        for (label, mode) in [("rxconf", tls.receive), ("txconf", tls.transmit)] {
            let Some(mode) = mode else { continue };
            self.text(&match mode {
                1 => format!(" {label}: none"),
                2 => format!(" {label}: sw"),
                3 => format!(" {label}: hw"),
                4 => format!(" {label}: hw-record"),
                unknown => format!(" {label}: unknown({unknown})"),
            });
        }
        if tls.zero_copy_sendfile {
            self.text(" zc_ro_tx");
        }
        if tls.receive_without_padding && self.layout.level >= SsLevel::V6_15 {
            self.text(" no_pad_rx");
        }
    }

    fn subflow(&mut self, subflow: &Subflow) {
        if let Some(flags) = subflow.flags.filter(|&flags| flags != 0) {
            self.text(" flags:");
            for &(bit, letter) in SUBFLOW_FLAGS {
                if flags & 1 << bit != 0 {
                    self.out().push(letter);
                }
            }
        }
        if let Subflow {
            remote_token: Some(remote_token),
            local_token: Some(local_token),
            remote_id: Some(remote_id),
            local_id: Some(local_id),
            ..
        } = *subflow
        {
            self.text(&format!(
                " token:{remote_token:04x}(id:{remote_id})/{local_token:04x}(id:{local_id})"
            ));
        }
        for (label, value) in [
            (" seq:", subflow.map_sequence),
            (" sfseq:", subflow.map_subflow_sequence.map(u64::from)),
            (" ssnoff:", subflow.subflow_offset.map(u64::from)),
            (" maplen:", subflow.map_len.map(u64::from)),
        ] {
            if let Some(value) = value {
                self.sequence(label, value);
            }
        }
    }

    pub(super) fn mptcp(&mut self, row: &SsRow<'_>) {
        let Some(info) = &row.socket.mptcp_info else {
            return;
        };
        let MptcpInfo { flags, .. } = *info;
        self.nonzero(" subflows:", info.subflows);
        self.nonzero(" add_addr_signal:", info.add_addr_signal);
        self.nonzero(" add_addr_accepted:", info.add_addr_accepted);
        self.nonzero(" subflows_max:", info.subflows_max);
        self.nonzero(" add_addr_signal_max:", info.add_addr_signal_max);
        self.nonzero(" add_addr_accepted_max:", info.add_addr_accepted_max);
        let flags = flags.unwrap_or(0);
        if flags & 1 != 0 {
            self.text(" fallback");
        }
        if flags & 2 != 0 {
            self.text(" remote_key");
        }
        if let Some(token) = info.token.filter(|&token| token != 0) {
            self.text(&format!(" token:{token:x}"));
        }
        for (label, value) in [
            (" write_seq:", info.write_seq),
            (" snd_una:", info.snd_una),
            (" rcv_nxt:", info.rcv_nxt),
        ] {
            if let Some(value) = value.filter(|&value| value != 0) {
                self.sequence(label, value);
            }
        }
        if self.layout.level < SsLevel::V6_15 {
            return;
        }
        self.nonzero(" local_addr_used:", info.local_addr_used);
        self.nonzero(" local_addr_max:", info.local_addr_max);
        self.nonzero(" csum_enabled:", info.csum_enabled);
        self.nonzero(" retransmits:", info.retransmits);
        self.nonzero(" bytes_retrans:", info.bytes_retrans);
        self.nonzero(" bytes_sent:", info.bytes_sent);
        self.nonzero(" bytes_received:", info.bytes_received);
        self.nonzero(" bytes_acked:", info.bytes_acked);
        self.nonzero(" subflows_total:", info.subflows_total);
        if self.layout.level >= SsLevel::V7_3 {
            self.nonzero(" endp_laminar_max:", row.diag_details.laminar_endpoints_max);
        }
        self.nonzero(" last_data_sent:", info.last_data_sent_ms);
        self.nonzero(" last_data_recv:", info.last_data_recv_ms);
        self.nonzero(" last_ack_recv:", info.last_ack_recv_ms);
    }

    /// Appends a sequence number: hexadecimal in 6.1, decimal since.
    fn sequence(&mut self, label: &str, number: u64) {
        if self.layout.level >= SsLevel::V6_15 {
            self.number(label, number);
        } else {
            self.text(&format!("{label}{number:x}"));
        }
    }
}

fn push_bit_rate(out: &mut Vec<u8>, bits_per_s: f64, numeric: bool) {
    if numeric {
        return push_whole(out, bits_per_s);
    }
    for (unit, letter) in [(1e12, b'T'), (1e9, b'G'), (1e6, b'M'), (1e3, b'k')] {
        if bits_per_s >= unit {
            push_g(out, bits_per_s / unit, 3);
            return out.push(letter);
        }
    }
    push_g(out, bits_per_s, 6);
}

/// Letters of `MPTCP_SUBFLOW_FLAG_*` by bit, in the order in which they are shown.
const SUBFLOW_FLAGS: &[(u32, u8)] = &[
    (0, b'M'),
    (1, b'm'),
    (2, b'J'),
    (3, b'j'),
    (4, b'B'),
    (5, b'b'),
    (6, b'e'),
    (7, b'c'),
    (8, b'v'),
];
/// `TCPI_OPT_WSCALE`
const HAS_WSCALE: u8 = 4;
/// RTO of a connection that has measured no round trip; not shown.
const RTO_DEFAULT_US: u32 = 3_000_000;
/// Round trip of vegas when it has measured none.
const VEGAS_NO_RTT: u32 = 0x7fff_ffff;
/// `TCP_FASTRETRANS_THRESH`
const REORDERING_DEFAULT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_scaled_unless_numeric() {
        let rate = |bits, numeric| {
            let mut out = Vec::new();
            push_bit_rate(&mut out, bits, numeric);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(rate(123.0, false), "123");
        assert_eq!(rate(1_234.0, false), "1.23k");
        assert_eq!(rate(999_999.0, false), "1e+03k");
        assert_eq!(rate(12_345_678_901.6, false), "12.3G");
        assert_eq!(rate(12_345_678_901.6, true), "12345678902");
    }
}
