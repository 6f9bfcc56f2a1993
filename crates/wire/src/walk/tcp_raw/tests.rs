use super::*;
use alloc::vec::Vec;

const NOW: KernelClock = KernelClock {
    hz: 250,
    jiffies: (1 << 32) + 1000,
    ktime_ns: 5_000_000_000,
};

/// A section of an ESTABLISHED socket with every group of fields, and with these words.
fn section(words: &[(usize, u32)]) -> [u8; BYTES] {
    let mut section = [0; BYTES];
    section[0] = 7;
    section[4] = 1;
    for (at, word) in words {
        section[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    section
}

/// Checks a field with these words in the section.
macro_rules! check {
    ($words:expr, $field:ident, $expected:expr) => {
        assert_eq!(
            TcpRaw::new(&section($words), NOW).unwrap().$field(),
            Some($expected)
        );
    };
}

/// The fields of a struct in C: name, offset, size, by the rules of every 64-bit ABI.
fn layout_in_c(name: &str) -> (Vec<(&'static str, usize, usize)>, usize) {
    let source = include_str!("../../../../../bpf/tables.h");
    let start = source.find(&alloc::format!("struct {name} {{")).unwrap();
    let body = source[start..].split("};").next().unwrap();
    let (mut fields, mut end) = (Vec::new(), 0_usize);
    for line in body.lines().skip(1) {
        let Some((declared, _comment)) = line.trim().split_once(';') else {
            continue;
        };
        let (int, names) = declared.split_once(' ').unwrap();
        let size = match int {
            "u8" => 1,
            "u16" => 2,
            "u32" => 4,
            "u64" => 8,
            other => panic!("{other}"),
        };
        for field in names.split(", ") {
            let (field, count) = match field.split_once('[') {
                Some((field, count)) => (field, count.trim_end_matches(']').parse().unwrap()),
                None => (field, 1),
            };
            for _ in 0..count {
                end = end.next_multiple_of(size);
                fields.push((field, end, size));
                end += size;
            }
        }
    }
    (fields, end)
}

#[test]
fn section_has_the_programs_layout() {
    let (fields, end) = layout_in_c("tcp_raw");
    assert_eq!((end, end % 8), (BYTES, 0));
    assert_eq!(fields.len(), LAYOUT.len());
    for (&(name, at, size), &(field, field_at, field_size)) in LAYOUT.iter().zip(&fields) {
        assert_eq!((at, size), (field_at, field_size), "{name} is {field}");
        // Elements of arrays have separate names here.
        let is_element = fields.iter().filter(|(other, ..)| *other == field).count() > 1;
        assert!(
            is_element || name.strip_prefix("raw_") == Some(field),
            "{name} is not {field}"
        );
    }
    let (fields, end) = layout_in_c("congestion");
    assert_eq!(end, crate::walk::congestion::BYTES);
    let words = [
        "is_bbr",
        "bandwidth",
        "mss_cache",
        "min_rtt_us",
        "pacing_gain",
        "cwnd_gain",
    ];
    let expected: Vec<_> = (0..)
        .zip(words)
        .map(|(place, name)| (name, 16 + place * 4, 4))
        .collect();
    assert_eq!(fields[16..], expected);
}

#[test]
#[cfg_attr(
    target_endian = "big",
    ignore = "our programs are little-endian, and so are their records"
)]
fn times_have_the_units_of_tcp_info() {
    check!(&[(24, 51)], rto, 204_000);
    check!(&[(96, 8 * 43 + 7)], rtt, 43);
    check!(&[(100, 4 * 21 + 3)], rttvar, 21);
    check!(&[(116, 8 * 9 + 1)], rcv_rtt, 9);
    check!(&[(76, 990)], last_data_sent, 40);
    check!(&[(80, 0xffff_fff6)], last_data_recv, 4040);
    check!(&[(84, 1002)], last_ack_recv, 0);
    check!(&[], last_ack_sent, 0);
    check!(&[(220, 70)], total_rto_time, 70);
    check!(&[(220, 70), (224, 4800)], total_rto_time, 270);
}

#[test]
#[cfg_attr(
    target_endian = "big",
    ignore = "our programs are little-endian, and so are their records"
)]
fn delayed_ack_timeout_has_three_limits() {
    // delack_max 50 jiffies, rto_min 50
    let limits = [(32, 50), (36, 50)];
    let with = |more: &[(usize, u32)]| [&limits, more].concat();
    check!(&with(&[(28, 10)]), ato, 40_000);
    check!(&with(&[(28, 60)]), ato, 196_000);
    check!(&with(&[(28, 60), (32, 20)]), ato, 80_000);
    check!(&with(&[(28, 60), (36, 1)]), ato, 4000);
    let locked = u32::from_ne_bytes([0, 0, 0, 1]);
    check!(&with(&[(28, 60), (20, locked), (40, 9)]), ato, 8000);
    check!(&with(&[(28, 60), (40, 9)]), ato, 196_000);
    // before Linux 6.7
    check!(&with(&[(28, 60), (0, 1)]), ato, 240_000);
}

#[test]
fn options_and_window_scales_are_combined_from_flags() {
    let byte = |at: usize, value: u8| {
        let mut word = [0; 4];
        word[at % 4] = value;
        (at / 4 * 4, u32::from_ne_bytes(word))
    };
    for (at, value, bits) in [
        (9, 1, 1),
        (10, 4, 2),
        (11, 1, 4),
        (14, 1, 8),
        (14, 16, 8),
        (14, 8, 16),
        (14, 6, 0),
        (15, 1, 32),
        (16, 1, 64),
        (17, 1, 128),
    ] {
        check!(&[byte(at, value)], options, bits);
    }
    check!(&[byte(12, 7)], snd_wscale, 0);
    let both = u32::from_ne_bytes([7, 10, 0, 0]);
    check!(&[byte(11, 1), (12, both)], snd_wscale, 7);
    check!(&[byte(11, 1), (12, both)], rcv_wscale, 10);
    check!(&[byte(18, 1)], delivery_rate_app_limited, true);
}

#[test]
#[cfg_attr(
    target_endian = "big",
    ignore = "our programs are little-endian, and so are their records"
)]
fn rates_and_bytes_are_calculated() {
    check!(&[(156, 10), (44, 1448), (160, 100)], delivery_rate, 144_800_000);
    check!(&[(156, 10), (44, 1448)], delivery_rate, 0);
    check!(&[(128, 1000), (132, 400)], notsent_bytes, 600);
    check!(&[(128, 400), (132, 1000)], notsent_bytes, 0);
    check!(&[(128, 5), (132, u32::MAX)], notsent_bytes, 6);
    let all = [(256, u32::MAX), (260, u32::MAX)];
    check!(&all, pacing_rate, u64::MAX);
    check!(&[(208, 2), (212, 3)], rehash, 5);
}

#[test]
fn running_chronograph_counts_up_to_now() {
    let stopped = [(168, 10), (172, 20), (176, 30), (164, 900)];
    let running = |number: u8| [&stopped[..], &[(20, u32::from_ne_bytes([number, 0, 0, 0]))]].concat();
    check!(&stopped, busy_time, 240_000);
    check!(&running(1), busy_time, 640_000);
    check!(&running(1), rwnd_limited, 80_000);
    check!(&running(2), rwnd_limited, 480_000);
    check!(&running(2), busy_time, 640_000);
    check!(&running(3), sndbuf_limited, 520_000);
    check!(&running(2), sndbuf_limited, 120_000);
}

#[test]
fn listener_has_only_backlog_rates_and_window() {
    let mut bytes = [1; BYTES];
    bytes[..4].copy_from_slice(&(HAS_REHASH | HAS_RTO_TOTALS).to_ne_bytes());
    bytes[4] = TCP_LISTEN;
    bytes[68..76].copy_from_slice(&[[3, 0, 0, 0], [128, 0, 0, 0]].concat());
    let raw = TcpRaw::new(&bytes, NOW).unwrap();
    let ones = Some(0x0101_0101);
    assert_eq!((raw.snd_cwnd(), raw.reordering()), (ones, ones));
    assert_eq!(raw.pacing_rate(), Some(0x0101_0101_0101_0101));
    if cfg!(target_endian = "little") {
        assert_eq!((raw.unacked(), raw.sacked()), (Some(3), Some(128)));
    }
    assert_eq!(
        (raw.rtt(), raw.rto(), raw.busy_time()),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!(
        (raw.last_data_sent(), raw.options(), raw.total_rto()),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!((raw.state(), raw.received_ce()), (Some(10), None));
}

#[test]
fn missing_groups_are_none() {
    let mut bytes = [1; BYTES];
    bytes[..4].fill(0);
    let raw = TcpRaw::new(&bytes, NOW).unwrap();
    assert_eq!((raw.rehash(), raw.rcv_wnd()), (None, None));
    assert_eq!(
        (raw.total_rto(), raw.total_rto_recoveries(), raw.total_rto_time()),
        (None, None, None)
    );
    assert_eq!(
        (raw.received_ce(), raw.delivered_e1_bytes(), raw.accecn_opt_seen()),
        (None, None, None)
    );
    assert!(raw.snd_wnd().is_some());
    bytes[..4].copy_from_slice(&7_u32.to_ne_bytes());
    let raw = TcpRaw::new(&bytes, NOW).unwrap();
    assert!(raw.rehash().is_some() && raw.total_rto().is_some() && raw.received_ce().is_some());
    assert!(TcpRaw::new(&bytes[..BYTES - 1], NOW).is_none());
}
