//! Whole listings of sockets.

use super::fixtures::{
    self, AllNames, EvilNames, Full, check_golden, connection, inet, owner, without_escapes,
};
use crate::listing::{Record, WAITING_BYTES, all_columns, find_column, named_columns, parse_columns};
use crate::*;
use sockeye_model::*;
use std::io;

type Row = (Socket, Option<Vec<Owner>>);

fn render(layout: SocketLayout, rows: &[Row], names: &dyn Names) -> String {
    let mut out = Vec::new();
    let mut listing = SocketWriter::new(&mut out, layout);
    listing.begin().unwrap();
    for (socket, owners) in rows {
        listing
            .row(&Entry::with_owners(socket, owners.as_deref()), names)
            .unwrap();
    }
    listing.finish(&Summary::default()).unwrap();
    String::from_utf8(out).unwrap()
}

fn ordinary() -> Vec<Row> {
    let listener = connection(State::Listen, inet("::", 80), inet("::", 0));
    let mut client = connection(
        State::Established,
        inet("10.0.1.9", 45_678),
        inet("10.0.1.10", 3306),
    );
    client.timer = Some(Timer {
        kind: TimerKind::Keepalive,
        expires_ms: 7_130_000,
        retransmits: 0,
    });
    client.uid = Some(Uid(33));
    client.inode = Some(Inode(22_016));
    client.cookie = Some(Cookie(0x1001));
    client.cgroup = Some(CgroupId(4711));
    let mut info = TcpInfo {
        rtt_us: Some(1234),
        rttvar_us: Some(500),
        ..TcpInfo::default()
    };
    info.snd_cwnd_segs = Some(10);
    client.tcp_info = Some(info);
    client.congestion = Some(Algorithm::new(b"cubic"));
    client.memory = Some(Memory {
        rmem_alloc_bytes: Some(0),
        rcvbuf_bytes: Some(131_072),
        wmem_alloc_bytes: Some(0),
        sndbuf_bytes: Some(87_040),
        drops: Some(3),
        ..Memory::default()
    });
    let waiting = connection(State::TimeWait, inet("10.0.1.9", 45_679), inet("10.0.1.10", 3306));
    vec![
        (
            listener,
            Some(vec![owner(b"nginx", 812, 6), owner(b"nginx", 813, 6)]),
        ),
        (client, Some(vec![owner(b"php\x1b[2J", 99, 12)])),
        (waiting, Some(vec![])),
    ]
}

fn table(details: Details) -> SocketLayout {
    SocketLayout {
        details,
        ..SocketLayout::default()
    }
}

fn columns(format: Format, list: &str) -> SocketLayout {
    let columns = Some(parse_columns(list).unwrap());
    SocketLayout {
        format,
        columns,
        ..SocketLayout::default()
    }
}

#[test]
fn tables_with_details_equal_golden() {
    let rows = ordinary();
    let owners = Details {
        netid: true,
        owners: true,
        ..Details::default()
    };
    check_golden("sockets.txt", &render(table(owners), &rows, &NoNames));
    let all = Details {
        timers: true,
        extended: true,
        memory: true,
        info: true,
        netns: true,
        ..owners
    };
    check_golden("sockets-all-details.txt", &render(table(all), &rows, &NoNames));
    check_golden("sockets-names.txt", &render(table(all), &rows, &AllNames));
    check_golden("sockets-evil-names.txt", &render(table(all), &rows, &EvilNames));
    let chosen = columns(
        Format::Table,
        "local,rtt,cwnd,retrans,bytes_acked,v6only,process,state",
    );
    check_golden("sockets-columns.txt", &render(chosen, &rows, &NoNames));
    let mut bare = table(Details::default());
    bare.no_header = true;
    check_golden("sockets-no-header.txt", &render(bare, &rows, &NoNames));
    assert_eq!(
        render(table(Details::default()), &[], &NoNames),
        "State  Recv-Q  Send-Q  Local Address:Port  Peer Address:Port\n"
    );
}

#[test]
fn every_kind_of_socket_equals_golden() {
    let rows: Vec<Row> = fixtures::sockets()
        .into_iter()
        .map(|socket| (socket, Some(fixtures::odd_owners())))
        .collect();
    let details = Details {
        netid: true,
        owners: true,
        info: true,
        ..Details::default()
    };
    check_golden("sockets-every-kind.txt", &render(table(details), &rows, &NoNames));
    let mut csv = table(details);
    csv.format = Format::Csv;
    csv.details.memory = true;
    check_golden("sockets-every-kind.csv", &render(csv, &rows, &EvilNames));
}

#[test]
fn narrow_terminal_loses_no_words() {
    let rows = ordinary();
    let details = Details {
        netid: true,
        owners: true,
        timers: true,
        info: true,
        ..Details::default()
    };
    let mut layout = table(details);
    layout.width = Some(20);
    check_golden("sockets-20-columns.txt", &render(layout.clone(), &rows, &NoNames));
    // The words are the same at every width.
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let wide = words(&render(table(details), &rows, &NoNames));
    for width in 0..150 {
        layout.width = Some(width);
        assert_eq!(words(&render(layout.clone(), &rows, &NoNames)), wide, "{width}");
    }
}

#[test]
fn colours_do_not_change_text() {
    let mut rows = ordinary();
    rows.extend(fixtures::sockets().into_iter().map(|socket| (socket, None)));
    for width in [None, Some(20), Some(80)] {
        let mut layout = table(Details {
            netid: true,
            info: true,
            ..Details::default()
        });
        layout.width = width;
        let plain = render(layout.clone(), &rows, &EvilNames);
        layout.style = Style::Color;
        let colored = render(layout, &rows, &EvilNames);
        assert!(!plain.contains('\x1b') && colored.contains("\x1b[32mESTAB\x1b[0m"));
        assert_eq!(without_escapes(&colored), plain);
    }
}

#[test]
fn text_from_outside_is_escaped_in_every_format() {
    let rows: Vec<Row> = fixtures::sockets()
        .into_iter()
        .map(|socket| (socket, Some(fixtures::odd_owners())))
        .collect();
    let all = Some(Sockets::columns().iter().collect());
    for format in [Format::Table, Format::Json, Format::Jsonl, Format::Csv] {
        let details = Details {
            info: true,
            ..Details::default()
        };
        let layout = SocketLayout {
            format,
            columns: all.clone(),
            details,
            ..SocketLayout::default()
        };
        let text = render(layout, &rows, &EvilNames);
        let allowed = if format == Format::Csv { "\r\n" } else { "\n" };
        let wrong = |c: &char| (c.is_control() && !allowed.contains(*c)) || *c == '\u{202e}';
        assert_eq!(text.chars().find(wrong), None, "{format:?}");
    }
}

#[test]
fn rows_are_sorted_by_value_in_every_format() {
    let mut rows: Vec<Row> = Vec::new();
    for (ip, inode) in [
        ("10.0.0.1", Some(9)),
        ("9.0.0.1", None),
        ("::1", Some(100)),
        ("9.0.0.1", Some(20)),
    ] {
        let mut socket = connection(State::Established, inet(ip, 80), inet("9.9.9.9", 1));
        socket.inode = inode.map(Inode);
        rows.push((socket, None));
    }
    for (key, expected) in [
        ("inode", ["9", "20", "100", "-"]),
        ("-inode", ["100", "20", "9", "-"]),
        ("local", ["-", "20", "9", "100"]),
        ("-local", ["100", "9", "-", "20"]),
    ] {
        for format in [Format::Table, Format::Csv, Format::Jsonl, Format::Json] {
            let mut layout = columns(format, "inode");
            layout.columns = Some(named_columns(&["inode", "netid"]));
            layout.sort = Some(SortKey::parse(key).unwrap());
            let text = render(layout, &rows, &NoNames);
            let inodes: Vec<&str> = match format {
                Format::Table => text
                    .lines()
                    .skip(1)
                    .map(|line| line.split_whitespace().next().unwrap())
                    .collect(),
                Format::Csv => text
                    .lines()
                    .skip(1)
                    // After the time.
                    .map(|line| line.split(',').nth(1).unwrap())
                    .collect(),
                _ => text
                    .lines()
                    .filter(|line| line.contains("netid"))
                    .map(|line| {
                        line.split_once("\"inode\":")
                            .map_or("-", |(_, rest)| rest.split(['}', ',']).next().unwrap())
                    })
                    .collect(),
            };
            let inodes: Vec<&str> = inodes
                .into_iter()
                .map(|inode| if inode.is_empty() { "-" } else { inode })
                .collect();
            assert_eq!(inodes, expected, "{format:?} by {key}: {text}");
        }
    }
}

#[test]
fn more_rows_than_buffered_are_all_written() {
    let rows = ordinary();
    for format in [Format::Table, Format::Json, Format::Jsonl, Format::Csv] {
        for sort in [None, Some(SortKey::parse("state").unwrap())] {
            let layout = SocketLayout {
                format,
                sort,
                ..SocketLayout::default()
            };
            let mut out = Vec::new();
            let mut listing = SocketWriter::new(&mut out, layout);
            listing.begin().unwrap();
            for nth in 0..9_000 {
                listing.row(&Entry::new(&rows[nth % 3].0), &NoNames).unwrap();
            }
            listing.finish(&Summary::default()).unwrap();
            let text = String::from_utf8(out).unwrap();
            let others = match format {
                Format::Table | Format::Csv | Format::Jsonl => 1,
                Format::Json => 3,
            };
            assert_eq!(text.lines().count(), 9_000 + others, "{format:?} {sort:?}");
        }
    }
}

#[test]
fn csv_lines_have_as_many_fields_as_the_header() {
    let rows: Vec<Row> = fixtures::sockets()
        .into_iter()
        .map(|socket| (socket, Some(fixtures::odd_owners())))
        .collect();
    for names in [&NoNames as &dyn Names, &AllNames, &EvilNames] {
        let text = render(columns(Format::Csv, "all"), &rows, names);
        let lines = parse_csv(&text);
        assert_eq!(lines.len(), rows.len() + 1);
        let unique: std::collections::HashSet<&String> = lines[0].iter().collect();
        assert_eq!(unique.len(), lines[0].len(), "{:?}", lines[0]);
        for line in &lines {
            assert_eq!(line.len(), lines[0].len(), "{line:?}");
            assert!(
                line.iter().all(|field| !field.starts_with(['=', '+', '-', '@'])),
                "{line:?}"
            );
        }
    }
}

#[test]
fn csv_has_each_field_once() {
    for list in [
        "local,local_port",
        "local_port,local",
        "peer,dport,peer_port,local_port",
    ] {
        let text = render(columns(Format::Csv, list), &ordinary(), &NoNames);
        let lines = parse_csv(&text);
        let unique: std::collections::HashSet<&String> = lines[0].iter().collect();
        assert_eq!(unique.len(), lines[0].len(), "{list}: {:?}", lines[0]);
        for line in &lines {
            assert_eq!(line.len(), lines[0].len(), "{line:?}");
        }
    }
}

/// Parses RFC 4180.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut lines, mut line, mut field, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => field.extend(rest.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => line.push(std::mem::take(&mut field)),
            '\r' if !is_quoted => {
                assert_eq!(rest.next(), Some('\n'));
                line.push(std::mem::take(&mut field));
                lines.push(std::mem::take(&mut line));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && line.is_empty() && !is_quoted);
    lines
}

#[test]
fn writer_errors_are_returned() {
    let rows = ordinary();
    for format in [Format::Table, Format::Json, Format::Jsonl, Format::Csv] {
        for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull] {
            // An error during the rows, and one at the end.
            for (left, count) in [(100_000, 20_000), (10, 1)] {
                let layout = SocketLayout {
                    format,
                    ..SocketLayout::default()
                };
                let mut listing = SocketWriter::new(Full { left, kind }, layout);
                let result = listing.begin().and_then(|()| {
                    (0..count).try_for_each(|_| listing.row(&Entry::new(&rows[0].0), &NoNames))
                });
                assert_eq!(result.is_err(), count > 1, "{format:?}");
                let error = result
                    .and_then(|()| listing.finish(&Summary::default()))
                    .unwrap_err();
                assert_eq!(error.kind(), kind);
            }
        }
    }
}

#[test]
fn flush_writes_buffered_rows() {
    let rows = ordinary();
    let mut listing = SocketWriter::new(Vec::new(), SocketLayout::default());
    listing.begin().unwrap();
    listing.row(&Entry::new(&rows[0].0), &NoNames).unwrap();
    listing.flush().unwrap();
    assert_eq!(
        listing.into_inner().iter().filter(|&&byte| byte == b'\n').count(),
        2
    );
}

#[test]
fn json_ends_with_losses_and_sources() {
    let rows = ordinary();
    let losses = Losses {
        overruns: 2,
        ..Losses::default()
    };
    let summary = Summary {
        rows_left_out: 0,
        summed_us: None,
        connections: None,
        losses,
        sources: &[("tcp", "sock_diag")],
        coverage: None,
        interrupted: false,
    };
    for (format, name) in [(Format::Json, "sockets.json"), (Format::Jsonl, "sockets.jsonl")] {
        let mut out = Vec::new();
        let mut listing = SocketWriter::new(
            &mut out,
            SocketLayout {
                format,
                ..SocketLayout::default()
            },
        );
        listing.begin().unwrap();
        for (socket, owners) in &rows {
            listing
                .row(&Entry::with_owners(socket, owners.as_deref()), &NoNames)
                .unwrap();
        }
        listing.finish(&summary).unwrap();
        check_golden(name, &String::from_utf8(out).unwrap());
    }
}

#[test]
fn every_column_is_found_by_its_name() {
    for column in Sockets::columns() {
        assert_eq!(find_column(column.name), Ok(column));
    }
}

#[test]
fn columns_are_found_by_short_and_ss_names() {
    let list = parse_columns::<Sockets>("state, rtt,cwnd,Recv-Q,retrans,").unwrap();
    let names: Vec<_> = list.iter().map(|column| column.name).collect();
    assert_eq!(
        names,
        [
            "state",
            "rtt_us",
            "snd_cwnd_segs",
            "recv_queue_bytes",
            "total_retrans_segs"
        ]
    );
    let tcp_info = parse_columns::<Sockets>("tcp_info").unwrap();
    assert_eq!(tcp_info.len(), TcpInfo::NAMES.len());
    assert!(parse_columns::<Sockets>(" , ").is_err());
    // Twice is once, also by another name.
    let list = parse_columns::<Sockets>("local,state,src,local").unwrap();
    let names: Vec<_> = list.iter().map(|column| column.name).collect();
    assert_eq!(names, ["local", "state"]);
    assert_eq!(
        parse_columns::<Sockets>("state,all").unwrap().len(),
        all_columns::<Sockets>().count()
    );
}

#[test]
fn unknown_column_is_reported_with_the_nearest_name() {
    let error = parse_columns::<Sockets>("local,pear").unwrap_err().to_string();
    assert!(
        error.starts_with("unknown column 'pear'; did you mean 'peer'? (known: netid, "),
        "{error}"
    );
    for (typed, nearest) in [
        ("rtt_su", "rtt_us"),
        ("conges", "congestion"),
        ("total-retrnas", "total_retrans_segs"),
    ] {
        let error = find_column::<Sockets>(typed).unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some(nearest), "{typed}");
    }
    let error = find_column::<Sockets>("time").unwrap_err();
    assert_eq!(
        error.message(),
        "'time' is no column: CSV and JSON have it always"
    );
    let error = find_column::<Sockets>("\x1b[2Jzzzzzzzzzzz").unwrap_err();
    assert_eq!(error.nearest, None);
    assert!(
        error.to_string().starts_with("unknown column '\\x1b[2Jzz"),
        "{error}"
    );
}

#[test]
fn sort_keys_have_a_direction() {
    for (text, descending) in [
        ("recv_q", false),
        ("-recv_q", true),
        ("-Recv-Q", true),
        ("recv-queue-bytes", false),
    ] {
        let key = SortKey::<Sockets>::parse(text).unwrap();
        assert_eq!(
            (key.column.name, key.descending),
            ("recv_queue_bytes", descending),
            "{text}"
        );
    }
    assert!(SortKey::<Sockets>::parse("-").is_err());
}

#[test]
fn addresses_are_sorted_by_value_and_absent_ones_come_last() {
    let key = SortKey::<Sockets>::parse("local").unwrap();
    let at = |ip: &str| {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet(ip.parse().unwrap(), Port(1));
        key.column.sort_value(&socket::SocketRow {
            entry: Entry::new(&socket),
            names: &NoNames,
            tcp: socket::TcpValues::NONE,
            rates: None,
            more: &[],
        })
    };
    let (nine, ten, mapped, v6) = (at("9.0.0.1"), at("10.0.0.1"), at("::ffff:9.0.0.2"), at("::1"));
    assert!(nine < mapped && mapped < ten && ten < v6);
    for text in ["local", "-local"] {
        let key = SortKey::<Sockets>::parse(text).unwrap();
        assert_eq!(
            key.compare(None, nine.as_ref()),
            std::cmp::Ordering::Greater,
            "{text}"
        );
    }
}

/// The rows of `count` listeners as CSV, without chosen columns.
fn csv_of_listeners(count: usize, no_header: bool) -> String {
    let layout = SocketLayout {
        format: Format::Csv,
        no_header,
        details: Details {
            info: true,
            memory: true,
            ..Details::default()
        },
        ..SocketLayout::default()
    };
    let mut listener = Socket::new(Protocol::Tcp, State::Listen);
    listener.family = Family::Inet;
    listener.local = inet("127.0.0.1", 80);
    listener.peer = inet("0.0.0.0", 0);
    let mut out = Vec::new();
    let mut listing = SocketWriter::new(&mut out, layout);
    listing.begin().unwrap();
    for _ in 0..count {
        listing.row(&Entry::new(&listener), &NoNames).unwrap();
    }
    listing.finish(&Summary::default()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn csv_leaves_out_columns_that_no_row_fills_up_to_a_bound() {
    let filled = "time,netid,family,state,local_ip,local_port,peer_ip,peer_port\r\n";
    let row = "1970-01-01T00:00:00.000000Z,tcp,inet,listen,127.0.0.1,80,0.0.0.0,0\r\n";
    assert_eq!(csv_of_listeners(2, false), format!("{filled}{row}{row}"));
    let fields = |line: &str| line.split(',').count();
    // A single sample has no rates.
    let is_rate = |path: &&str| path.starts_with("rates.");
    let all = 1 + all_columns::<Sockets>()
        .filter(|column| !column.json_paths().iter().any(is_rate))
        .map(|column| column.csv_fields().len())
        .sum::<usize>();
    // Nothing is left out without rows, without a header, and of more rows than may wait.
    assert_eq!(fields(&csv_of_listeners(0, false)), all);
    assert_eq!(fields(&csv_of_listeners(1, true)), all);
    let rows = WAITING_BYTES / csv_of_listeners(1, true).len() + 1;
    let text = csv_of_listeners(rows, false);
    assert_eq!(text.lines().count(), rows + 1);
    assert!(text.lines().all(|line| fields(line) == all));
}

#[test]
fn csv_leaves_out_what_was_not_asked_for() {
    let header = |details| {
        let layout = SocketLayout {
            format: Format::Csv,
            details,
            ..SocketLayout::default()
        };
        let mut out = Vec::new();
        let mut listing = SocketWriter::new(&mut out, layout);
        listing.begin().unwrap();
        listing.finish(&Summary::default()).unwrap();
        String::from_utf8(out).unwrap()
    };
    let plain = header(Details::default());
    assert!(
        plain.contains(",cookie,") && !plain.contains(",rtt_us,") && !plain.contains("wmem"),
        "{plain}"
    );
    let info = Details {
        info: true,
        ..Details::default()
    };
    assert!(header(info).contains(",rtt_us,"), "{info:?}");
}
