//! Listings of flows, whole.

use super::fixtures::{self, AllNames, EvilNames, Full, check_golden, flow, key, process, without_escapes};
use crate::flow::*;
use crate::listing::{ListingWriter, Record};
use crate::*;
use sockeye_model::*;

fn render(layout: FlowLayout, flows: &[Flow], names: &dyn Names) -> String {
    let mut out = Vec::new();
    let has_owners = layout.details.owners;
    let mut listing = ListingWriter::new(&mut out, layout.listing());
    listing.begin().unwrap();
    for flow in flows {
        listing.row(&row(flow, names, has_owners)).unwrap();
    }
    listing.finish(&Summary::default()).unwrap();
    String::from_utf8(out).unwrap()
}

pub(super) fn row<'a>(flow: &'a Flow, names: &'a dyn Names, has_owners: bool) -> FlowRow<'a> {
    FlowRow {
        flow,
        names,
        protocol: Protocol::Tcp,
        has_owners,
    }
}

fn ordinary() -> Vec<Flow> {
    let mut active = flow(key(Direction::Active), 22);
    active.states[6] = 2;
    active.states[1] = 20;
    active.owners = vec![
        process(b"nginx", 812, Some(800)),
        process(b"php\x1bfpm", 99, None),
    ];
    active.totals = Some(Totals {
        measured: 20,
        bytes_acked: Some(1_234_567),
        bytes_received: Some(3_400_000_000),
        rtt_us_median: Some(3_420),
        total_retrans_segs: Some(3),
        delivery_rate_bytes_per_s_sum: Some(1_540_000),
        delivery_rate_bytes_per_s_median: Some(77_000),
    });
    active.rates = Some(Rates {
        sent_bytes_per_s: Some(12_345.6),
        received_bytes_per_s: Some(0.0),
        retrans_segs_per_s: Some(0.25),
        opened_per_s: Some(3.0),
        closed_per_s: Some(f64::NAN),
    });
    let mut passive = flow(key(Direction::Passive), 120);
    passive.key.peer = Some("10.0.2.13".parse().unwrap());
    passive.key.port = Some(Port(80));
    let mut v6 = flow(key(Direction::Passive), 1);
    v6.key.local = Some("2001:db8::1".parse().unwrap());
    v6.key.peer = Some("2001:db8::".parse().unwrap());
    v6.key.peer_prefix = Some(64);
    vec![active, passive, v6]
}

fn everything() -> FlowDetails {
    FlowDetails {
        netns: true,
        states: true,
        owners: true,
        info: true,
        rates: true,
    }
}

#[test]
fn tables_equal_their_golden_files() {
    let flows = ordinary();
    check_golden("flows.txt", &render(FlowLayout::default(), &flows, &NoNames));
    let all = FlowLayout {
        details: everything(),
        ..FlowLayout::default()
    };
    check_golden("flows-all-details.txt", &render(all.clone(), &flows, &NoNames));
    check_golden("flows-names.txt", &render(all.clone(), &flows, &AllNames));
    check_golden("flows-evil-names.txt", &render(all.clone(), &flows, &EvilNames));
    let narrow = FlowLayout {
        width: Some(20),
        ..all
    };
    check_golden("flows-20-columns.txt", &render(narrow, &flows, &NoNames));
}

#[test]
fn grouped_flows_show_many_for_what_differs() {
    let mut by_port = fixtures::bare_flow();
    by_port.key.port = Some(Port(443));
    let mut by_process = fixtures::bare_flow();
    by_process.key.process = Some(process(b"nginx", 812, Some(800)));
    let mut by_user = fixtures::bare_flow();
    by_user.key.uid = Some(Uid(33));
    let mut by_netns = fixtures::bare_flow();
    by_netns.key.netns = Some(NetnsInode(4_026_531_840));
    for (group_by, flow, expected) in [
        (
            GroupBy::Port,
            by_port,
            "Local Address:Port       Peer Address:Port  Connections\n\
             many:many           -->  many:443                     0\n",
        ),
        (
            GroupBy::Process,
            by_process,
            "Process         Direction  Connections\nnginx(812/800)  active               0\n",
        ),
        (
            GroupBy::Uid,
            by_user,
            "User  Direction  Connections\n33    active               0\n",
        ),
        (
            GroupBy::Netns,
            by_netns,
            "Netns       Direction  Connections\n4026531840  active               0\n",
        ),
    ] {
        let text = render(
            FlowLayout {
                group_by,
                ..FlowLayout::default()
            },
            &[flow],
            &NoNames,
        );
        assert_eq!(text, expected, "{group_by:?}");
    }
}

#[test]
fn json_and_csv_equal_their_golden_files() {
    let mut flows = ordinary();
    flows.extend([fixtures::full_flow(), fixtures::bare_flow()]);
    for (format, name) in [
        (Format::Json, "flows.json"),
        (Format::Jsonl, "flows.jsonl"),
        (Format::Csv, "flows.csv"),
    ] {
        check_golden(
            name,
            &render(
                FlowLayout {
                    format,
                    ..FlowLayout::default()
                },
                &flows,
                &NoNames,
            ),
        );
    }
    let text = render(
        FlowLayout {
            format: Format::Csv,
            ..FlowLayout::default()
        },
        &flows,
        &AllNames,
    );
    let fields = |line: &str| {
        line.split('"')
            .step_by(2)
            .map(|part| part.matches(',').count())
            .sum::<usize>()
    };
    let counts: Vec<usize> = text.lines().map(fields).collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

#[test]
fn absurd_values_do_not_panic_and_colours_change_nothing_else() {
    let mut flows = ordinary();
    flows.extend([fixtures::full_flow(), fixtures::bare_flow()]);
    for width in [None, Some(0), Some(20), Some(80)] {
        let columns = Some(Flows::columns().iter().collect());
        let mut layout = FlowLayout {
            columns,
            width,
            ..FlowLayout::default()
        };
        let plain = render(layout.clone(), &flows, &EvilNames);
        layout.style = Style::Color;
        let colored = render(layout, &flows, &EvilNames);
        assert!(!plain.contains('\x1b') && colored.contains("\x1b[36m-->\x1b[0m"));
        assert_eq!(without_escapes(&colored), plain);
    }
}

#[test]
fn errors_of_the_writer_are_handed_on() {
    for format in [Format::Table, Format::Json, Format::Jsonl, Format::Csv] {
        let kind = std::io::ErrorKind::BrokenPipe;
        let layout = FlowLayout {
            format,
            ..FlowLayout::default()
        };
        let mut listing = ListingWriter::new(Full { left: 10, kind }, layout.listing());
        listing.begin().unwrap();
        let flow = fixtures::full_flow();
        // CSV waits for the last row.
        let result = (0..10_000)
            .try_for_each(|_| listing.row(&row(&flow, &NoNames, false)))
            .and_then(|()| listing.finish(&Summary::default()));
        assert_eq!(result.unwrap_err().kind(), kind, "{format:?}");
    }
}
