//! tcp_info as one line of text, with units.
//!
//! Every field that is present and not zero is shown once: first the most used fields, some of them together
//! (`rtt 0.12/0.03ms`), then the others by their names, in the kernel's order.

use super::tcp_field::{APP_LIMITED, CA_STATE, TcpField};
use crate::number::{push_256ths, push_bit_rate, push_decimal, push_human, push_ms, push_time_us};
use crate::text::push_clean;
use crate::unit::{Unit, push_ca_state};
use sockeye_model::{CongestionInfo, Socket, TcpInfo, strip_unit};
use std::sync::LazyLock;

/// Appends the info of TCP or MPTCP about `socket`, its congestion control and its upper-layer protocol.
pub fn push(out: &mut Vec<u8>, socket: &Socket) {
    let mut line = Line {
        start: out.len(),
        out,
    };
    if let Some(name) = &socket.congestion {
        push_clean(line.word(), name.as_bytes());
    }
    if let Some(info) = &socket.congestion_info {
        push_congestion_info(line.word(), info);
    }
    if let Some(name) = &socket.ulp {
        line.name("ulp");
        push_clean(line.out, name.as_bytes());
    }
    if let Some(info) = &socket.tcp_info {
        push_tcp(&mut line, &mut values(Some(info)));
    }
    if let Some(info) = &socket.mptcp_info {
        info.visit(|name, value| {
            if let Some(value) = value.filter(|&value| value > 0) {
                line.labelled(&label(name), Unit::of(name), value);
            }
        });
    }
}

/// Returns the values of all fields, in the order of [`TcpInfo::NAMES`]; `None` if unknown.
#[inline]
pub fn values(info: Option<&TcpInfo>) -> [Option<u64>; TcpField::COUNT] {
    let mut values = [None; TcpField::COUNT];
    if let Some(info) = info {
        let mut index = 0;
        info.visit(|_, value| {
            values[index] = value;
            index += 1;
        });
    }
    values
}

fn push_tcp(line: &mut Line<'_>, values: &mut [Option<u64>; TcpField::COUNT]) {
    // A shown value is taken out, so that the loop at the end shows only the rest.
    let mut take = |field: TcpField| values[field.index()].take().filter(|&value| value > 0);

    if let Some(number) = take(CA_STATE) {
        push_ca_state(line.word(), number);
    }
    push_options(line, &mut take);
    match (take(RTT), take(RTTVAR)) {
        (None, None) => {}
        (rtt, rttvar) => {
            line.name("rtt");
            push_ms(line.out, rtt.unwrap_or(0));
            line.out.push(b'/');
            push_ms(line.out, rttvar.unwrap_or(0));
            line.out.extend_from_slice(b"ms");
        }
    }
    for (field, name, unit) in [
        (MIN_RTT, "min-rtt", Unit::RoundTripUs),
        (RTO, "rto", Unit::Us),
        (CWND, "cwnd", Unit::None),
    ] {
        if let Some(value) = take(field) {
            line.labelled(name, unit, value);
        }
    }
    if let Some(ssthresh) = take(SSTHRESH).filter(|&segs| segs < INFINITE_SSTHRESH) {
        line.labelled("ssthresh", Unit::None, ssthresh);
    }
    match (take(RETRANS), take(TOTAL_RETRANS)) {
        (None, None) => {}
        (now, total) => {
            line.name("retrans");
            push_decimal(line.out, now.unwrap_or(0));
            line.out.push(b'/');
            push_decimal(line.out, total.unwrap_or(0));
        }
    }
    for (field, name, unit) in [
        (LOST, "lost", Unit::None),
        (UNACKED, "unacked", Unit::None),
        (SENT, "sent", Unit::Bytes),
        (ACKED, "acked", Unit::Bytes),
        (RECEIVED, "recv", Unit::Bytes),
        (NOTSENT, "notsent", Unit::Bytes),
        (DELIVERY_RATE, "deliver", Unit::BytesPerSecond),
    ] {
        if let Some(value) = take(field) {
            line.labelled(name, unit, value);
        }
    }
    if take(APP_LIMITED).is_some() {
        line.word().extend_from_slice(b"app-limited");
    }
    if let Some(rate) = take(PACING_RATE).filter(|&rate| rate != u64::MAX) {
        line.labelled("pacing", Unit::BytesPerSecond, rate);
    }
    let _unlimited = values[MAX_PACING_RATE.index()].take_if(|rate| *rate == u64::MAX);
    push_limits(line, values);
    for ((label, unit), value) in LABELS.iter().zip(values) {
        if let Some(value) = value.filter(|&value| value > 0) {
            line.labelled(label, *unit, value);
        }
    }
}

/// Appends `ts sack wscale 7/8 ecn`.
fn push_options(line: &mut Line<'_>, take: &mut impl FnMut(TcpField) -> Option<u64>) {
    let options = take(OPTIONS).unwrap_or(0);
    let (theirs, ours) = (take(SND_WSCALE), take(RCV_WSCALE));
    for bit in (0..64).filter(|bit| options >> bit & 1 != 0) {
        match OPTION_NAMES.get(bit) {
            // The values of the window scale are shown instead.
            Some(&"wscale") if theirs.or(ours).is_some() => {}
            Some(name) => line.word().extend_from_slice(name.as_bytes()),
            None => {
                line.word().extend_from_slice(b"option-bit");
                push_decimal(line.out, bit as u64);
            }
        }
    }
    if theirs.or(ours).is_some() {
        line.name("wscale");
        push_decimal(line.out, theirs.unwrap_or(0));
        line.out.push(b'/');
        push_decimal(line.out, ours.unwrap_or(0));
    }
}

/// Appends `busy 12ms rwnd-limited 3% sndbuf-limited 1%`: percentages of the busy time.
fn push_limits(line: &mut Line<'_>, values: &mut [Option<u64>; TcpField::COUNT]) {
    let mut take = |field: TcpField| values[field.index()].take().filter(|&value| value > 0);
    let busy = take(BUSY);
    if let Some(us) = busy {
        line.name("busy");
        push_time_us(line.out, us);
    }
    for (field, name) in [(RWND_LIMITED, "rwnd-limited"), (SNDBUF_LIMITED, "sndbuf-limited")] {
        let Some(us) = take(field) else { continue };
        line.name(name);
        match busy {
            Some(busy) => {
                let percent = (u128::from(us) * 100).div_ceil(u128::from(busy));
                push_human(line.out, percent);
                line.out.push(b'%');
            }
            None => push_time_us(line.out, us),
        }
    }
}

/// Appends `bbr(bw 12.3Mbit/s min-rtt 0.123ms pacing-gain 2.88 cwnd-gain 2.88)`.
pub fn push_congestion_info(out: &mut Vec<u8>, info: &CongestionInfo) {
    let text = match *info {
        CongestionInfo::Vegas {
            enabled,
            rtt_count,
            rtt_us,
            min_rtt_us,
        } => {
            format!("vegas(enabled {enabled} rtt-count {rtt_count} rtt {rtt_us}us min-rtt {min_rtt_us}us)")
        }
        CongestionInfo::Dctcp {
            enabled,
            ce_state,
            alpha_1024ths,
            ecn_bytes,
            total_bytes,
        } => format!(
            "dctcp(enabled {enabled} ce-state {ce_state} alpha {:.3} ecn {ecn_bytes}B total {total_bytes}B)",
            f64::from(alpha_1024ths) / 1024.0
        ),
        CongestionInfo::Bbr {
            bandwidth_bytes_per_s,
            min_rtt_us,
            pacing_gain_256ths,
            cwnd_gain_256ths,
        } => {
            out.extend_from_slice(b"bbr(bw ");
            push_bit_rate(out, bandwidth_bytes_per_s);
            out.extend_from_slice(b" min-rtt ");
            push_ms(out, min_rtt_us.into());
            out.extend_from_slice(b"ms pacing-gain ");
            push_256ths(out, pacing_gain_256ths);
            out.extend_from_slice(b" cwnd-gain ");
            push_256ths(out, cwnd_gain_256ths);
            out.push(b')');
            return;
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// A line of words with a blank between them.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl Line<'_> {
    /// Begins a word.
    fn word(&mut self) -> &mut Vec<u8> {
        if self.out.len() > self.start {
            self.out.push(b' ');
        }
        self.out
    }

    /// Appends a name; its value is to follow.
    fn name(&mut self, name: &str) {
        self.word().extend_from_slice(name.as_bytes());
        self.out.push(b' ');
    }

    /// Appends `snd-mss 1448B`.
    fn labelled(&mut self, label: &str, unit: Unit, value: u64) {
        self.name(label);
        unit.push(self.out, value);
    }
}

/// Returns `snd-mss` for `snd_mss_bytes`.
fn label(name: &str) -> String {
    strip_unit(name).replace('_', "-")
}

/// Label and unit of each field of tcp_info.
static LABELS: LazyLock<Vec<(String, Unit)>> = LazyLock::new(|| {
    let labelled = |field: TcpField| (field.short_name().replace('_', "-"), Unit::of(field.name()));
    TcpField::all().map(labelled).collect()
});

const OPTIONS: TcpField = TcpField::named("options");
const SND_WSCALE: TcpField = TcpField::named("snd_wscale");
const RCV_WSCALE: TcpField = TcpField::named("rcv_wscale");
const RTT: TcpField = TcpField::named("rtt_us");
const RTTVAR: TcpField = TcpField::named("rttvar_us");
const MIN_RTT: TcpField = TcpField::named("min_rtt_us");
const RTO: TcpField = TcpField::named("rto_us");
const CWND: TcpField = TcpField::named("snd_cwnd_segs");
const SSTHRESH: TcpField = TcpField::named("snd_ssthresh_segs");
const RETRANS: TcpField = TcpField::named("retrans_segs");
const TOTAL_RETRANS: TcpField = TcpField::named("total_retrans_segs");
const LOST: TcpField = TcpField::named("lost_segs");
const UNACKED: TcpField = TcpField::named("unacked_segs");
const SENT: TcpField = TcpField::named("bytes_sent");
const ACKED: TcpField = TcpField::named("bytes_acked");
const RECEIVED: TcpField = TcpField::named("bytes_received");
const NOTSENT: TcpField = TcpField::named("notsent_bytes");
const DELIVERY_RATE: TcpField = TcpField::named("delivery_rate_bytes_per_s");
const PACING_RATE: TcpField = TcpField::named("pacing_rate_bytes_per_s");
const MAX_PACING_RATE: TcpField = TcpField::named("max_pacing_rate_bytes_per_s");
const BUSY: TcpField = TcpField::named("busy_time_us");
const RWND_LIMITED: TcpField = TcpField::named("rwnd_limited_us");
const SNDBUF_LIMITED: TcpField = TcpField::named("sndbuf_limited_us");

/// Bits of `tcpi_options` (`TCPI_OPT_*`).
const OPTION_NAMES: [&str; 7] = ["ts", "sack", "wscale", "ecn", "ecnseen", "fastopen", "usec-ts"];

/// The kernel's value before the first loss (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u64 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Algorithm, Protocol, State, Ulp};

    #[track_caller]
    fn check(info: TcpInfo, adjust: impl FnOnce(&mut Socket), expected: &str) {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.tcp_info = Some(info);
        adjust(&mut socket);
        let mut out = Vec::new();
        push(&mut out, &socket);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn most_used_fields_are_first() {
        let info = TcpInfo {
            rtt_us: Some(123),
            rttvar_us: Some(31),
            snd_cwnd_segs: Some(10),
            snd_ssthresh_segs: Some(0x7fff_ffff),
            retrans_segs: Some(0),
            total_retrans_segs: Some(3),
            bytes_sent: Some(1_234_567),
            bytes_received: Some(3_400_000),
            delivery_rate_bytes_per_s: Some(1_540_000),
            busy_time_us: Some(12_000),
            rwnd_limited_us: Some(300),
            snd_mss_bytes: Some(1448),
            pacing_rate_bytes_per_s: Some(u64::MAX),
            max_pacing_rate_bytes_per_s: Some(u64::MAX),
            options: Some(0b1000_0111),
            snd_wscale: Some(7),
            rcv_wscale: Some(8),
            ..TcpInfo::default()
        };
        let named = |socket: &mut Socket| {
            socket.congestion = Some(Algorithm::new(b"b\x1bbr"));
            socket.ulp = Some(Ulp::new(b"tls"));
        };
        check(
            info,
            named,
            "b\\x1bbr ulp tls ts sack option-bit7 wscale 7/8 rtt 0.123/0.031ms cwnd 10 retrans 0/3 \
             sent 1.2MB recv 3.4MB deliver 12.3Mbit/s busy 12.0ms rwnd-limited 3% snd-mss 1448B",
        );
        check(TcpInfo::default(), |_| {}, "");
    }

    #[test]
    fn every_field_is_shown_once() {
        let mut text = Vec::new();
        let mut all = [Some(5); TcpField::COUNT];
        push_tcp(
            &mut Line {
                start: 0,
                out: &mut text,
            },
            &mut all,
        );
        let text = format!(" {} ", String::from_utf8(text).unwrap());
        for name in TcpInfo::NAMES {
            let words = match *name {
                "ca_state" => "unknown(5)",
                "options" => "ts",
                "snd_wscale" | "rcv_wscale" => "wscale 5/5",
                "rtt_us" | "rttvar_us" => "rtt 0.005/0.005ms",
                "snd_cwnd_segs" => "cwnd 5",
                "snd_ssthresh_segs" => "ssthresh 5",
                "retrans_segs" | "total_retrans_segs" => "retrans 5/5",
                "bytes_sent" => "sent 5B",
                "bytes_acked" => "acked 5B",
                "bytes_received" => "recv 5B",
                "busy_time_us" => "busy 5us",
                "rwnd_limited_us" => "rwnd-limited 100%",
                "sndbuf_limited_us" => "sndbuf-limited 100%",
                "delivery_rate_bytes_per_s" => "deliver 40bit/s",
                "delivery_rate_app_limited" => "app-limited",
                "pacing_rate_bytes_per_s" => "pacing 40bit/s",
                other => &TcpField::named(other).short_name().replace('_', "-"),
            };
            let times = text.matches(&format!(" {words} ")).count();
            assert_eq!(times, 1, "{name} as '{words}' in: {text}");
        }
    }

    #[test]
    fn bbr_info_has_bandwidth_and_gains() {
        let mut out = Vec::new();
        push_congestion_info(
            &mut out,
            &CongestionInfo::Bbr {
                bandwidth_bytes_per_s: u64::MAX,
                min_rtt_us: 123,
                pacing_gain_256ths: 739,
                cwnd_gain_256ths: 512,
            },
        );
        let expected = "bbr(bw 148Ebit/s min-rtt 0.123ms pacing-gain 2.89 cwnd-gain 2.00)";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
