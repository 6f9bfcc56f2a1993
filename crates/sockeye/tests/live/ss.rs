//! What `ss` says, word by word, and whether a row of ours says the same.

use super::endpoint;
use serde_json::Value;
use sockeye_lab::Namespace;
use std::collections::BTreeMap;

/// A line of `ss -HOn`: columns, then words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) state: String,
    pub(crate) recv_queue: u64,
    pub(crate) send_queue: u64,
    pub(crate) local: String,
    pub(crate) peer: String,
    words: BTreeMap<String, String>,
}

/// Lines of `ss` for one protocol; `flags` beside `-HOn`.
#[track_caller]
pub(crate) fn lines(namespace: &Namespace, flags: &str, filter: &[&str]) -> Vec<Line> {
    let words = [&["-H", "-O", "-n", flags], filter].concat();
    let text = namespace.output("ss", &words);
    text.lines().map(Line::parse).collect()
}

impl Line {
    #[track_caller]
    fn parse(text: &str) -> Self {
        let all: Vec<&str> = text.split_whitespace().collect();
        let [state, recv_queue, send_queue, local, peer, rest @ ..] = &all[..] else {
            panic!("not a line of ss: {text}");
        };
        let mut words = BTreeMap::new();
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            match *word {
                // These have their value in the word after.
                "send" | "pacing_rate" | "delivery_rate" => {
                    let value = rest
                        .next()
                        .unwrap_or_else(|| panic!("{word} without value in {text}"));
                    words.insert((*word).to_owned(), (*value).to_owned());
                }
                word => {
                    let (key, value) = word.split_once(':').unwrap_or((word, ""));
                    words.insert(key.to_owned(), value.to_owned());
                }
            }
        }
        Self {
            text: text.to_owned(),
            state: (*state).to_owned(),
            recv_queue: recv_queue.parse().unwrap(),
            send_queue: send_queue.parse().unwrap(),
            local: (*local).to_owned(),
            peer: (*peer).to_owned(),
            words,
        }
    }

    pub(crate) fn word(&self, key: &str) -> Option<&str> {
        self.words.get(key).map(String::as_str)
    }

    pub(crate) fn cookie(&self) -> u64 {
        u64::from_str_radix(self.word("sk").unwrap(), 16).unwrap()
    }

    /// `timer:(KIND,TIME,RETRANSMISSIONS)`.
    fn timer(&self) -> Option<(&str, u64, u64)> {
        let inside = self.word("timer")?.strip_prefix('(')?.strip_suffix(')')?;
        let [kind, time, retransmissions] = inside.split(',').collect::<Vec<_>>()[..] else {
            panic!("timer in {self:?}");
        };
        Some((kind, milliseconds(time), retransmissions.parse().unwrap()))
    }

    /// Whether it and a later line show a socket to which nothing happened in between.
    fn is_quiet_until(&self, later: &Self) -> bool {
        let still = |line: &Self| {
            let mut line = line.clone();
            let timer = line
                .timer()
                .map(|(kind, _, retransmissions)| (kind.to_owned(), retransmissions));
            line.text.clear();
            line.words
                .retain(|key, _| key != "timer" && !CLOCKS.contains(&key.as_str()));
            (line, timer)
        };
        still(self) == still(later)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.word(key).map(|word| {
            let digits = word.trim_end_matches("ms");
            digits
                .parse()
                .unwrap_or_else(|_| panic!("{key}:{word} in {}", self.text))
        })
    }
}

/// Words that change with time alone.
const CLOCKS: [&str; 6] = [
    "lastsnd",
    "lastrcv",
    "lastack",
    "busy",
    "rwnd_limited",
    "sndbuf_limited",
];

/// Compares every word of `before`, printed before our row was read, with the row, and clocks also with
/// `after`. `None` when the socket changed meanwhile.
#[track_caller]
pub(crate) fn compare(before: &Line, row: &Value, after: &Line) -> Option<()> {
    if !before.is_quiet_until(after) {
        return None;
    }
    let context = format!("ss: {}\nsockeye: {row}", before.text);
    assert_eq!(row["state"], state_of_word(&before.state), "{context}");
    assert_eq!(
        queue(row, "recv_queue_bytes", "accept_queue"),
        before.recv_queue,
        "{context}"
    );
    assert_eq!(
        queue(row, "send_queue_bytes", "accept_backlog"),
        before.send_queue,
        "{context}"
    );
    assert_eq!(address(row, "local"), before.local, "{context}");
    assert_eq!(address(row, "peer"), before.peer, "{context}");
    for (word, key) in [("ino", "inode"), ("uid", "uid")] {
        let said: u64 = before.word(word).map_or(0, |word| word.parse().unwrap());
        assert_eq!(row[key].as_u64().unwrap_or(0), said, "{key}: {context}");
    }
    assert_eq!(row["cookie"], before.cookie(), "{context}");
    let mark = before.word("fwmark").map_or(0, hexadecimal);
    assert_eq!(row["mark"].as_u64().unwrap_or(0), mark, "{context}");
    if let Some(cgroup) = before.word("cgroup") {
        assert_eq!(row["cgroup"], cgroup, "{context}");
    }
    compare_timer(before, row, after, &context);
    compare_memory(before, row, &context);
    compare_tcp(before, row, &context);
    Some(())
}

#[track_caller]
fn compare_timer(before: &Line, row: &Value, after: &Line, context: &str) {
    let (Some((kind, first_ms, retransmissions)), Some((_, last_ms, _))) = (before.timer(), after.timer())
    else {
        assert_eq!(row["timer"], Value::Null, "{context}");
        return;
    };
    let timer = &row["timer"];
    assert_eq!(timer["kind"], kind, "{context}");
    assert_eq!(timer["retransmits"], retransmissions, "{context}");
    // ss cuts long times to seconds or minutes.
    let coarse = |ms: u64| match ms {
        0..10_000 => 1,
        10_000..600_000 => 1000,
        _ => 60_000,
    };
    if last_ms <= first_ms {
        let ours = timer["expires_ms"].as_u64().unwrap();
        // A tick is up to 10 ms long.
        let range = last_ms.saturating_sub(10)..first_ms + coarse(first_ms) + 10;
        assert!(range.contains(&ours), "expires in {range:?} ms: {context}");
    }
}

/// `skmem:(r0,rb131072,t0,tb2626560,f0,w0,o0,bl0,d0)`
#[track_caller]
fn compare_memory(before: &Line, row: &Value, context: &str) {
    let Some(memory) = before.word("skmem") else {
        assert_eq!(row["memory"], Value::Null, "{context}");
        return;
    };
    let inside = memory.trim_start_matches('(').trim_end_matches(')');
    let names = [
        ("r", "rmem_alloc_bytes"),
        ("rb", "rcvbuf_bytes"),
        ("t", "wmem_alloc_bytes"),
        ("tb", "sndbuf_bytes"),
        ("f", "fwd_alloc_bytes"),
        ("w", "wmem_queued_bytes"),
        ("o", "optmem_bytes"),
        ("bl", "backlog_bytes"),
        ("d", "drops"),
    ];
    let words: Vec<&str> = inside.split(',').collect();
    assert_eq!(words.len(), names.len(), "{context}");
    for (word, (letter, name)) in words.into_iter().zip(names) {
        let said: u64 = word.strip_prefix(letter).unwrap().parse().unwrap();
        assert_eq!(row["memory"][name], said, "{name}: {context}");
    }
}

/// What `ss -i` prints and we tell in the same sense: word, field, how many of the field's units are one
/// of the word's.
const NUMBERS: &[(&str, &str, f64)] = &[
    ("rto", "rto_us", 1000.0),
    ("backoff", "backoff", 1.0),
    ("ato", "ato_us", 1000.0),
    ("mss", "snd_mss_bytes", 1.0),
    ("pmtu", "pmtu_bytes", 1.0),
    ("rcvmss", "rcv_mss_bytes", 1.0),
    ("advmss", "advmss_bytes", 1.0),
    ("cwnd", "snd_cwnd_segs", 1.0),
    ("bytes_sent", "bytes_sent", 1.0),
    ("bytes_retrans", "bytes_retrans", 1.0),
    ("bytes_acked", "bytes_acked", 1.0),
    ("bytes_received", "bytes_received", 1.0),
    ("segs_out", "segs_out", 1.0),
    ("segs_in", "segs_in", 1.0),
    ("data_segs_out", "data_segs_out", 1.0),
    ("data_segs_in", "data_segs_in", 1.0),
    ("delivered", "delivered_segs", 1.0),
    ("delivered_ce", "delivered_ce_segs", 1.0),
    ("unacked", "unacked_segs", 1.0),
    ("lost", "lost_segs", 1.0),
    ("sacked", "sacked_segs", 1.0),
    ("fackets", "fackets_segs", 1.0),
    ("dsack_dups", "dsack_dups", 1.0),
    ("reord_seen", "reord_seen", 1.0),
    ("rcv_rtt", "rcv_rtt_us", 1000.0),
    ("rcv_space", "rcv_space_bytes", 1.0),
    ("rcv_ssthresh", "rcv_ssthresh_bytes", 1.0),
    ("notsent", "notsent_bytes", 1.0),
    ("minrtt", "min_rtt_us", 1000.0),
    ("rcv_ooopack", "rcv_ooopack", 1.0),
    ("snd_wnd", "snd_wnd_bytes", 1.0),
    ("rcv_wnd", "rcv_wnd_bytes", 1.0),
    ("rehash", "rehash", 1.0),
];

#[track_caller]
fn compare_tcp(before: &Line, row: &Value, context: &str) {
    let info = &row["tcp_info"];
    let ours = |field: &str| info[field].as_f64().unwrap_or(0.0);
    let same = |field: &str, said: f64| {
        let ours = ours(field);
        // ss prints six digits.
        assert!(
            (ours - said).abs() <= 1e-5 * said.abs(),
            "{field} is {ours}, not {said}: {context}"
        );
    };
    // A TIME_WAIT or SYN_RECV socket has none.
    if before.word("cwnd").is_none() {
        assert_eq!(info["snd_cwnd_segs"], Value::Null, "{context}");
    }
    if info.is_null() {
        let unexpected = NUMBERS.iter().find(|(word, ..)| before.word(word).is_some());
        assert_eq!(unexpected, None, "{context}");
        return;
    }
    let listens = before.state == "LISTEN";
    for &(word, field, factor) in NUMBERS {
        // Of a listener the kernel means its accept queue by it, which we show as that.
        if listens && word == "unacked" {
            continue;
        }
        match before.number(word) {
            Some(said) => same(field, said * factor),
            // Zero is not printed; neither is much of a listener, nor what an older ss does not know.
            None if listens || matches!(word, "rcv_wnd" | "rehash") => {}
            None => same(field, 0.0),
        }
    }
    if let Some((rtt, variance)) = before.word("rtt").and_then(|word| word.split_once('/')) {
        same("rtt_us", rtt.parse::<f64>().unwrap() * 1000.0);
        same("rttvar_us", variance.parse::<f64>().unwrap() * 1000.0);
    }
    if let Some((send, receive)) = before.word("wscale").and_then(|word| word.split_once(',')) {
        same("snd_wscale", send.parse().unwrap());
        same("rcv_wscale", receive.parse().unwrap());
    }
    // retrans:UNACKNOWLEDGED/EVER
    let (now, ever) = before
        .word("retrans")
        .and_then(|word| word.split_once('/'))
        .unwrap_or(("0", "0"));
    same("retrans_segs", now.parse().unwrap());
    same("total_retrans_segs", ever.parse().unwrap());
    if let Some(said) = before.number("ssthresh") {
        same("snd_ssthresh_segs", said);
    }
    if let Some(said) = before.number("reordering") {
        same("reordering_segs", said);
    }
    for (place, word) in ["ts", "sack"].into_iter().enumerate() {
        let set = ours("options") as u64 & 1 << place != 0;
        assert_eq!(set, before.word(word).is_some(), "{word}: {context}");
    }
    for (word, field) in [
        ("pacing_rate", "pacing_rate_bytes_per_s"),
        ("delivery_rate", "delivery_rate_bytes_per_s"),
    ] {
        if let Some(said) = before.word(word) {
            let said = bits_per_second(said);
            let ours = ours(field) * 8.0;
            // Where ss rounds it keeps three digits.
            assert!(
                (ours - said).abs() <= 0.01 * said,
                "{field} {ours} is not {said}: {context}"
            );
        }
    }
    if !listens {
        let limited = info["delivery_rate_app_limited"] == true;
        assert_eq!(limited, before.word("app_limited").is_some(), "{context}");
    }
    if let Some(algorithm) = row["congestion"].as_str() {
        assert!(before.word(algorithm).is_some(), "{algorithm}: {context}");
    }
}

/// Milliseconds that count up or down between two lines and lie between them in our row.
#[track_caller]
pub(crate) fn compare_clocks(before: &Line, row: &Value, after: &Line) {
    let context = format!("ss: {}\nsockeye: {row}\nss: {}", before.text, after.text);
    for (word, field) in [
        ("lastsnd", "last_data_sent_ms"),
        ("lastrcv", "last_data_recv_ms"),
        ("lastack", "last_ack_recv_ms"),
    ] {
        let (Some(first), Some(last)) = (before.number(word), after.number(word)) else {
            continue;
        };
        let ours = row["tcp_info"][field].as_f64().unwrap();
        assert!((first..=last).contains(&ours), "{field} {ours}: {context}");
    }
}

/// Our endpoint as ss would print it.
fn address(row: &Value, side: &str) -> String {
    let address = endpoint(&row[side]);
    let is_wildcard = address.ip().is_unspecified();
    let any_family = address.is_ipv6() && is_wildcard && row["v6only"] != true;
    let ip = match address.ip() {
        _ if any_family => "*".to_owned(),
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    let device = match row["interface"].as_str() {
        Some(name) if side == "local" => format!("%{name}"),
        _ => String::new(),
    };
    let port = match address.port() {
        0 => "*".to_owned(),
        port => port.to_string(),
    };
    format!("{ip}{device}:{port}")
}

fn queue(row: &Value, of_data: &str, of_listener: &str) -> u64 {
    let key = if row["state"] == "listen" {
        of_listener
    } else {
        of_data
    };
    row[key].as_u64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

pub(crate) fn state_of_word(word: &str) -> &'static str {
    match word {
        "ESTAB" => "established",
        "SYN-SENT" => "syn_sent",
        "SYN-RECV" => "syn_recv",
        "FIN-WAIT-1" => "fin_wait_1",
        "FIN-WAIT-2" => "fin_wait_2",
        "TIME-WAIT" => "time_wait",
        "UNCONN" => "unconnected",
        "CLOSE-WAIT" => "close_wait",
        "LAST-ACK" => "last_ack",
        "LISTEN" => "listen",
        "CLOSING" => "closing",
        other => panic!("ss knows a state {other}"),
    }
}

fn hexadecimal(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

/// `59min`, `4min30sec`, `22sec`, `1.234ms` (which is 1234 ms), `200ms` (iproute2's `print_ms_timer`).
fn milliseconds(text: &str) -> u64 {
    let (minutes, rest) = text.split_once("min").unwrap_or(("0", text));
    let seconds = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("a time: {text}"));
    let rest = match (rest.strip_suffix("sec"), rest.strip_suffix("ms")) {
        (Some(whole), _) => seconds(whole) * 1000,
        (_, Some(ms)) => {
            let (whole, ms) = ms.split_once('.').unwrap_or(("0", ms));
            seconds(whole) * 1000 + seconds(ms)
        }
        (None, None) => rest.parse().unwrap_or(0),
    };
    seconds(minutes) * 60_000 + rest
}

/// `123bps`, `4.5Kbps`, `6.78Gbps`, or without a unit.
fn bits_per_second(text: &str) -> f64 {
    let number = text.trim_end_matches("bps");
    let factor = match number.bytes().last() {
        Some(b'K') => 1e3,
        Some(b'M') => 1e6,
        Some(b'G') => 1e9,
        Some(b'T') => 1e12,
        _ => 1.0,
    };
    number
        .trim_end_matches(['K', 'M', 'G', 'T'])
        .parse::<f64>()
        .unwrap_or_else(|_| panic!("a rate: {text}"))
        * factor
}
