//! What TCP and MPTCP know: `-i`.

use super::printf::{push_g, push_g_256ths, push_g_thousandths, push_whole};
use super::{Line, SsRow, push_address};
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
            self.outside(name.as_bytes());
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
            for (bit, name) in [
                (0, " ts"),
                (1, " sack"),
                (3, " ecn"),
                (4, " ecnseen"),
                (5, " fastopen"),
            ] {
                if options & 1 << bit != 0 {
                    self.text(name);
                }
            }
        }
        if let Some(name) = socket.congestion.filter(|name| !name.as_bytes().is_empty()) {
            self.text(" ");
            self.outside(name.as_bytes());
        }
        if options & HAS_WSCALE != 0 {
            self.number(" wscale:", info.snd_wscale.unwrap_or(0).into());
            self.number(",", info.rcv_wscale.unwrap_or(0).into());
        }
        self.thousandths(" rto:", info.rto_us.filter(|&us| us != RTO_DEFAULT_US));
        self.some(" backoff:", info.backoff);
        if let Some(rtt) = info.rtt_us.filter(|&us| us > 0) {
            self.text(" rtt:");
            push_g_thousandths(self.out(), rtt.into());
            self.text("/");
            push_g_thousandths(self.out(), info.rttvar_us.unwrap_or(0).into());
        }
        self.thousandths(" ato:", info.ato_us);
        self.some(" mss:", info.snd_mss_bytes);
        self.some(" pmtu:", info.pmtu_bytes);
        self.some(" rcvmss:", info.rcv_mss_bytes);
        self.some(" advmss:", info.advmss_bytes);
        self.some(" cwnd:", info.snd_cwnd_segs);
        self.some(" ssthresh:", info.snd_ssthresh_segs.filter(|&segs| segs < 0xffff));
        self.some(" bytes_sent:", info.bytes_sent);
        self.some(" bytes_retrans:", info.bytes_retrans);
        self.some(" bytes_acked:", info.bytes_acked);
        self.some(" bytes_received:", info.bytes_received);
        self.some(" segs_out:", info.segs_out);
        self.some(" segs_in:", info.segs_in);
        self.some(" data_segs_out:", info.data_segs_out);
        self.some(" data_segs_in:", info.data_segs_in);
        if let Some(congestion) = &socket.congestion_info {
            self.congestion(congestion);
        }
        self.send_rate(socket, info);
        self.some(" lastsnd:", info.last_data_sent_ms);
        self.some(" lastrcv:", info.last_data_recv_ms);
        self.some(" lastack:", info.last_ack_recv_ms);
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
        self.some(" delivered:", info.delivered_segs);
        self.some(" delivered_ce:", info.delivered_ce_segs);
        if info.delivery_rate_app_limited == Some(true) {
            self.text(" app_limited");
        }
        self.limits(info);
        // Of a listener this is how many wait, which a socket tells as its queue.
        let unacked = match socket.queues {
            Queues::Accept { waiting, .. } if socket.state == State::Listen => Some(waiting),
            _ => info.unacked_segs,
        };
        self.some(" unacked:", unacked);
        let (retrans, total) = (
            info.retrans_segs.unwrap_or(0),
            info.total_retrans_segs.unwrap_or(0),
        );
        if retrans > 0 || total > 0 {
            self.number(" retrans:", retrans.into());
            self.number("/", total.into());
        }
        self.some(" lost:", info.lost_segs);
        self.some(" sacked:", info.sacked_segs);
        self.some(" dsack_dups:", info.dsack_dups);
        self.some(" fackets:", info.fackets_segs);
        if info.reordering_segs != Some(REORDERING_DEFAULT) {
            self.number(" reordering:", info.reordering_segs.unwrap_or(0).into());
        }
        self.some(" reord_seen:", info.reord_seen);
        self.thousandths(" rcv_rtt:", info.rcv_rtt_us);
        self.some(" rcv_space:", info.rcv_space_bytes);
        self.some(" rcv_ssthresh:", info.rcv_ssthresh_bytes);
        self.some(" notsent:", info.notsent_bytes);
        self.thousandths(" minrtt:", info.min_rtt_us);
        self.some(" rcv_ooopack:", info.rcv_ooopack);
        self.some(" snd_wnd:", info.snd_wnd_bytes);
    }

    /// What is absent or 0 is not shown.
    #[inline]
    fn some(&mut self, label: &str, value: Option<impl Into<u64>>) {
        let value = value.map_or(0, Into::into);
        if value > 0 {
            self.number(label, value);
        }
    }

    #[inline]
    fn thousandths(&mut self, label: &str, us: Option<u32>) {
        if let Some(us) = us.filter(|&us| us > 0) {
            self.text(label);
            push_g_thousandths(self.out(), us.into());
        }
    }

    /// A rate in bits a second.
    fn rate(&mut self, label: &str, bits_per_s: f64) {
        self.text(label);
        let numeric = self.layout.numeric;
        push_bit_rate(self.out(), bits_per_s, numeric);
        self.text("bps");
    }

    /// What the window lets go out in a round trip.
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

    /// Of the time that data was under way, which part was waiting for others.
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

    /// `ss` prints the secret too, though before its table.
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
                self.text(&format!("{label}{value:x}"));
            }
        }
    }

    pub(super) fn mptcp(&mut self, socket: &Socket) {
        let Some(info) = &socket.mptcp_info else { return };
        let MptcpInfo { flags, .. } = *info;
        self.some(" subflows:", info.subflows);
        self.some(" add_addr_signal:", info.add_addr_signal);
        self.some(" add_addr_accepted:", info.add_addr_accepted);
        self.some(" subflows_max:", info.subflows_max);
        self.some(" add_addr_signal_max:", info.add_addr_signal_max);
        self.some(" add_addr_accepted_max:", info.add_addr_accepted_max);
        let flags = flags.unwrap_or(0);
        if flags & 1 != 0 {
            self.text(" fallback");
        }
        if flags & 2 != 0 {
            self.text(" remote_key");
        }
        for (label, value) in [
            (" token:", info.token.map(u64::from)),
            (" write_seq:", info.write_seq),
            (" snd_una:", info.snd_una),
            (" rcv_nxt:", info.rcv_nxt),
        ] {
            if let Some(value) = value.filter(|&value| value != 0) {
                self.text(&format!("{label}{value:x}"));
            }
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

/// `MPTCP_SUBFLOW_FLAG_*` in the order in which they are shown, each with its bit.
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
/// Of a connection that has measured no round trip: not shown.
const RTO_DEFAULT_US: u32 = 3_000_000;
/// `TCP_INFINITE`-like: vegas has measured nothing.
const VEGAS_NO_RTT: u32 = 0x7fff_ffff;
/// `TCP_FASTRETRANS_THRESH`
const REORDERING_DEFAULT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
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
