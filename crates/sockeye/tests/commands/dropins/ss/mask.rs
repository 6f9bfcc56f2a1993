//! What of two outputs has to be equal: everything but the values that move, each named here.

use super::run::{Case, Outcome, Stdout};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Words before a value that moves between two runs, and what ends the value.
///
/// Counters (`segs_out:`, `backoff:`, retransmissions, the `d` of `skmem`) move too, but only when a timer
/// fires, which is rare: a comparison that meets it is repeated.
const MOVES: &[(&str, &[u8])] = &[
    // The time until a timer fires.
    ("timer:(on,", b","),
    ("timer:(keepalive,", b","),
    ("timer:(timewait,", b","),
    ("timer:(persist,", b","),
    ("timer:(unknown,", b","),
    ("timer:(delack,", b","),
    // Milliseconds since something was last sent, received, acknowledged.
    ("lastsnd:", b" \n\t"),
    ("lastrcv:", b" \n\t"),
    ("lastack:", b" \n\t"),
    ("last_data_sent:", b" \n\t"),
    ("last_data_recv:", b" \n\t"),
    ("last_ack_recv:", b" \n\t"),
    // How long a connection has had something to send, and what held it up meanwhile.
    (" busy:", b" \n\t"),
    ("rwnd_limited:", b" \n\t"),
    ("sndbuf_limited:", b" \n\t"),
];

/// The text with what moves replaced by `~`, and the process's own number too: its netlink socket is listed
/// under it.
///
/// Records are padded to one width: what a value lost by its mask its record gets back as spaces at the end.
fn masked(outcome: &Outcome) -> Vec<u8> {
    let own = outcome.pid.to_string();
    let text = &outcome.stdout;
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    let mut lost = 0;
    // Its own netlink socket has buffers as each program likes them.
    let mut of_own = false;
    while at < text.len() {
        let rest = &text[at..];
        of_own &= rest[0] != b'\n';
        if of_own && let Some(memory) = rest.strip_prefix(b"skmem:(") {
            out.extend_from_slice(b"skmem:(~");
            at += rest.len() - memory.len() + memory.iter().position(|&byte| byte == b')').unwrap_or(0);
            of_own = false;
            continue;
        }
        if rest[0] == b'\n' && rest.get(1) != Some(&b'\t') {
            out.extend(std::iter::repeat_n(b' ', lost));
            lost = 0;
        }
        if let Some((name, ends)) = MOVES.iter().find(|(name, _)| rest.starts_with(name.as_bytes())) {
            out.extend_from_slice(name.as_bytes());
            out.push(b'~');
            let value = &rest[name.len()..];
            let end = value.iter().position(|byte| ends.contains(byte));
            let length = end.unwrap_or(value.len());
            lost += length;
            at += name.len() + length;
            continue;
        }
        // `PROTOCOL:PID`, `PROTOCOL:COMM/PID`, `pid=PID`.
        let own_begins = match rest[0] {
            // A port may have the same number.
            b':' => out.ends_with(b"tcpdiag") || out.ends_with(b" 4"),
            b'/' | b'=' => true,
            _ => false,
        };
        let own_follows = own_begins
            && rest[1..].starts_with(own.as_bytes())
            && !rest.get(1 + own.len()).is_some_and(u8::is_ascii_digit);
        out.push(rest[0]);
        at += 1;
        of_own |= own_follows;
        if own_follows {
            out.extend(std::iter::repeat_n(b'~', own.len()));
            at += own.len();
        }
    }
    out
}

fn find(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// The text of `-s` without what the kernel counts for all namespaces together, in which other tests live:
/// `TCP:   N (estab n, closed N, orphaned N, timewait n)`. From files these are compared too.
fn without_host_counts(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        if words.starts_with(&[b"TCP:", b"", b""]) && words.len() == 12 {
            for number in [3, 7, 9] {
                words[number] = b"~";
            }
        }
        out.extend(words.join(&b' '));
    }
    out
}

/// Whether it is the nameless UNIX socket of the program's own resolver: `u_str UNCONN 0 0 * INODE * 0`.
fn is_resolvers(record: &[u8], outcome: &Outcome) -> bool {
    let text = String::from_utf8_lossy(record);
    // Of a program that the other worker runs.
    if text.contains("users:((\"ss\",") && text.contains(" * 0 ") {
        return true;
    }
    let Some(known) = &outcome.known_unix else {
        return false;
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut stars = words
        .iter()
        .zip(words.iter().skip(1))
        .filter(|(star, _)| **star == "*");
    let inode = stars.next().map(|(_, inode)| *inode);
    (text.starts_with("u_") || words.first() == Some(&"UNCONN"))
        && inode
            .is_some_and(|inode| inode.bytes().all(|byte| byte.is_ascii_digit()) && !known.contains(inode))
}

/// The message of an error, without what we add to explain it, and without the usage, which has words of its own.
fn without_explanations(stderr: &[u8]) -> Vec<u8> {
    let lines = stderr.split_inclusive(|&byte| byte == b'\n');
    let outcome = lines.take_while(|line| !line.starts_with(b"Usage: "));
    outcome
        .filter(|line| !line.starts_with(b"sockeye ss: "))
        .flatten()
        .copied()
        .collect()
}

/// The text without the keys of MD5 signatures. ss prints these at once, before its table, in which each is missing
/// then; here they stand where they belong.
fn without_secrets(text: &[u8]) -> Vec<u8> {
    let mut rest = text;
    while let Some(behind) = rest.strip_prefix(SECRET) {
        rest = behind;
    }
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&byte, behind)) = rest.split_first() {
        out.push(byte);
        rest = match behind.strip_prefix(SECRET) {
            Some(behind) if byte == b'=' => behind,
            _ => behind,
        };
    }
    out
}

/// The text without blanks at the ends of lines: their number depends on the longest line, and that may be one with a
/// key.
fn trimmed(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let mut out = Vec::with_capacity(text.len());
    for line in lines {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, &b"\n"[..]),
            None => (line, &b""[..]),
        };
        out.extend_from_slice(line.trim_ascii_end());
        out.extend_from_slice(end);
    }
    out
}

/// The key of the socket set's sockets with MD5 signatures.
const SECRET: &[u8] = b"secret";

/// The text of the real ss on a terminal, with the socket set's names as we show them there: nothing of what others chose
/// reaches a terminal raw.
fn harmless(mut text: Vec<u8>) -> Vec<u8> {
    for (raw, clean) in [
        (&b"ctl\x1b[1m\r\n"[..], &b"ctl?[1m?"[..]),
        (b"tab\there", b"tab?here"),
        (b"\xff\xfe", b"??"),
        (b"tab\tnl\r\nesc\x1b[1m", b"tab?nl?esc?[1m"),
    ] {
        while let Some(place) = text.windows(raw.len()).position(|window| window == raw) {
            text.splice(place..place + raw.len(), clean.iter().copied());
        }
    }
    text
}

/// Says how they differ, if they do.
pub(crate) fn difference(case: &Case, ours: &Outcome, real: &Outcome) -> Option<String> {
    let mut text = String::new();
    if ours.status != real.status {
        let _ = writeln!(text, "  exit: ours {}, real {}", ours.status, real.status);
    }
    let (our_errors, real_errors) = (
        without_explanations(&ours.stderr),
        without_explanations(&real.stderr),
    );
    if our_errors != real_errors {
        let _ = writeln!(text, "  stderr:");
        push_pair(&mut text, &our_errors, &real_errors);
    }
    if ours.stdout.starts_with(b"Usage: ss ") && real.stdout.starts_with(b"Usage: ss ") {
        return (!text.is_empty()).then_some(text); // in words of our own
    }
    let (mut our_text, mut real_text) = (masked(ours), masked(real));
    if matches!(case.stdout, Stdout::Terminal(_)) {
        (our_text, real_text) = (harmless(our_text), harmless(real_text));
    }
    let has_secrets = find(&ours.stdout, b"md5keys:");
    if has_secrets {
        let without = |text: &[u8]| trimmed(&without_secrets(text));
        (our_text, real_text) = (without(&our_text), without(&real_text));
    }
    if our_text != real_text && (ends_in_the_widest(case, &our_text) || ends_in_the_widest(case, &real_text))
    {
        (our_text, real_text) = (trimmed(&our_text), trimmed(&real_text));
    }
    if case.counts_the_host() {
        (our_text, real_text) = (without_host_counts(&our_text), without_host_counts(&real_text));
    }
    if our_text != real_text {
        let (mut our_records, mut real_records) =
            (Records::of(case, &our_text), Records::of(case, &real_text));
        our_records.records.retain(|record| !is_resolvers(record, ours));
        real_records.records.retain(|record| !is_resolvers(record, real));
        let (ours, real) = (our_records, real_records);
        if ours.header != real.header {
            let _ = writeln!(text, "  header:");
            push_pair(&mut text, ours.header, real.header);
        }
        let mut counts: BTreeMap<&[u8], i32> = BTreeMap::new();
        for record in &ours.records {
            *counts.entry(record).or_default() += 1;
        }
        for record in &real.records {
            *counts.entry(record).or_default() -= 1;
        }
        let only = |sign: i32| {
            let mut found: Vec<&[u8]> = Vec::new();
            for (record, count) in counts.iter().filter(|(_, count)| **count * sign > 0) {
                found.extend(std::iter::repeat_n(*record, count.unsigned_abs() as usize));
            }
            found
        };
        let (of_ours, of_real) = (only(1), only(-1));
        if of_ours.len() + of_real.len() > 0 {
            let _ = writeln!(
                text,
                "  records: {} of ours' {} and {} of the real {} have no equal",
                of_ours.len(),
                ours.records.len(),
                of_real.len(),
                real.records.len()
            );
            push_records(&mut text, of_ours, of_real);
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Whether the last record is longer than every other: its last field then counts for no width, in either program, and
/// which record comes last is a matter of the order.
fn ends_in_the_widest(case: &Case, text: &[u8]) -> bool {
    let records = Records::of(case, text).records;
    let width = |record: &&[u8]| String::from_utf8_lossy(record).chars().count();
    let Some((last, others)) = records.split_last() else {
        return false;
    };
    others
        .iter()
        .map(width)
        .max()
        .is_some_and(|widest| width(last) > widest)
}

/// An output as a header and records: a record is a line with the lines that continue it.
struct Records<'a> {
    header: &'a [u8],
    records: Vec<&'a [u8]>,
}

impl<'a> Records<'a> {
    fn of(case: &Case, text: &'a [u8]) -> Self {
        let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let has_header = lines.first().is_some_and(|line| {
            let line = line.trim_ascii_start();
            [b"Netid", b"State", b"Recv-", b"Local"]
                .iter()
                .any(|word| line.starts_with(*word))
        });
        let width = match case.stdout {
            Stdout::Terminal(_) if has_header => {
                lines[0].split(|byte| *byte == b' ').next().unwrap_or_default()
            }
            _ => b"",
        };
        let header = if has_header { lines.remove(0) } else { b"" };
        let mut records: Vec<&[u8]> = Vec::new();
        let mut start = header.len();
        let mut at = start;
        for line in lines {
            let continues = match width {
                // Wrapped columns begin anywhere: a record begins with a word of its first column.
                b"Netid" => !begins_with(line, NETIDS),
                b"State" => !begins_with(line, STATES),
                _ => line.starts_with(b"\t"),
            };
            if !continues && at > start {
                records.push(&text[start..at]);
                start = at;
            }
            at += line.len();
        }
        if at > start {
            records.push(&text[start..at]);
        }
        Self { header, records }
    }
}

fn begins_with(line: &[u8], words: &[&str]) -> bool {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    words.iter().any(|known| known.as_bytes() == word)
}

const NETIDS: &[&str] = &[
    "tcp", "mptcp", "udp", "raw", "dccp", "sctp", "u_str", "u_dgr", "u_seq", "p_raw", "p_dgr", "nl", "v_str",
    "v_dgr", "tipc", "xdp", "icmp6", "ti_st", "ti_rd", "ti_sq", "ti_dg", "???", "unknown",
];
const STATES: &[&str] = &[
    "UNKNOWN",
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "UNCONN",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
];

/// Appends each of our records with the most similar one of the real ss.
fn push_records(text: &mut String, ours: Vec<&[u8]>, mut real: Vec<&[u8]>) {
    let shared = |one: &[u8], other: &[u8]| one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let mut printed = 0;
    for record in &ours {
        let nearest = (0..real.len()).max_by_key(|index| shared(record, real[*index]));
        printed += 1;
        if printed > RECORDS_SHOWN_MAX {
            let _ = writeln!(text, "    ... and {} more", ours.len() + 1 - printed);
            return;
        }
        match nearest {
            Some(index) => push_pair(text, record, real.swap_remove(index)),
            None => {
                let _ = writeln!(text, "    ours: {}", shown(record, 0));
            }
        }
    }
    for record in real.iter().take(RECORDS_SHOWN_MAX.saturating_sub(printed)) {
        let _ = writeln!(text, "    real: {}", shown(record, 0));
    }
}

fn push_pair(text: &mut String, ours: &[u8], real: &[u8]) {
    let same = ours.iter().zip(real).take_while(|(a, b)| a == b).count();
    // The beginning of a long record only identifies the socket, and the difference is far behind.
    let from = same.saturating_sub(WIDTH_MAX / 2);
    for (whose, bytes) in [("ours", ours), ("real", real)] {
        let _ = writeln!(text, "    {whose}: {}", shown(bytes, from));
    }
    let beginning = shown(&ours[..same], from);
    let _ = writeln!(
        text,
        "          {}^ byte {same}",
        " ".repeat(beginning.chars().count())
    );
}

fn shown(bytes: &[u8], from: usize) -> String {
    let mut text = String::new();
    if from > 0 {
        let head = &bytes[..from.min(bytes.len()).min(WIDTH_MAX / 3)];
        let _ = write!(text, "{} ... ", head.escape_ascii());
    }
    let tail = bytes.get(from..).unwrap_or_default();
    let _ = write!(text, "{}", tail[..tail.len().min(WIDTH_MAX)].escape_ascii());
    text.replace("\\\"", "\"").replace("\\'", "'")
}

const RECORDS_SHOWN_MAX: usize = 4;
const WIDTH_MAX: usize = 240;

#[test]
fn a_mask_hides_what_moves_and_nothing_else() {
    let check = |one: &str, other: &str, same: bool| {
        let [one, other] = [one, other].map(|text| Outcome {
            stdout: text.as_bytes().to_vec(),
            stderr: Vec::new(),
            status: std::process::ExitStatus::default(),
            pid: 77,
            known_unix: None,
        });
        assert_eq!(
            difference(&Case::of("-ta"), &one, &other).is_none(),
            same,
            "{one:?}\n{other:?}"
        );
    };
    check("a timer:(on,9ms,1)  \n", "a timer:(on,10ms,1) \n", true);
    check("a timer:(on,9ms,1)  \n", "a timer:(on,10ms,1)  \n", false);
    check("a timer:(on,9ms,1)\n", "a timer:(on,9ms,2)\n", false);
    check("a timer:(on,9ms,1)\n", "a timer:(persist,9ms,1)\n", false);
    check("a lastsnd:9\n\tb\n", "a lastsnd:10\n\tb\n", false);
    check("a lastsnd:9\n\tb \n", "a lastsnd:10\n\tb\n", true);
    check("a\n\tb\nc\n", "c\na\n\tb\n", true);
    check("a\n\tb\nc\n", "c\n\tb\na\n", false);
    check("wide row\nx       \n", "x\nwide row\n", true);
    check("a \nb \n", "a\nb\n", false);
    check("nl 4:77\n", "nl 4:78\n", false);
    check("State a\nx\ny\n", "x\nState a\ny\n", false);
    let counts = b"TCP:   637 (estab 160, closed 337, orphaned 115, timewait 8)\n";
    let masked: &[u8] = b"TCP:   ~ (estab 160, closed ~ orphaned ~ timewait 8)\n";
    assert_eq!(without_host_counts(counts), masked);
}
