//! Reports of benchmarks, as a whole and in every format.

use super::schema_check::{follows, validator};
use crate::{ChartFormat, Format, ReportLayout, Style, push_report, write_charts};
use serde_json::{Value as Json, json};
use sockeye_measure::{Chart, Column, Line, Noise, NoiseSample, Partial, Report, Scale, Table, Unit, Value};

const SCHEMA: &str = include_str!("../../../../docs/schema/bench.schema.json");

/// Returns a report with every kind of content.
fn stream() -> Report {
    let mut report = Report::new("stream");
    report.setting("host", "to", Unit::Text, "10.0.0.2:5210".into());
    report.setting("streams", "streams", Unit::Count, Value::Whole(4));
    report.setting("time_s", "for", Unit::Seconds, Value::Whole(10));
    report.setting("reverse", "in reverse", Unit::Text, Value::Bool(false));
    report.setting("mss_bytes", "MSS", Unit::Bytes, Value::Absent);
    let columns = vec![
        Column::new("stream", "stream", Unit::Number),
        Column::new("rate", "bytes_per_s", Unit::BitsPerSecond),
        Column::hidden("bytes", Unit::Bytes),
        Column::new("retransmitted", "retransmitted", Unit::Count),
        Column::new("rtt", "rtt_us", Unit::Microseconds),
    ];
    let mut streams = Table::new("streams", columns);
    let row = |stream, rate, bytes, retransmitted: Option<u64>, rtt: Option<f64>| {
        vec![
            Value::Whole(stream),
            Value::Real(rate),
            Value::Whole(bytes),
            retransmitted.into(),
            rtt.into(),
        ]
    };
    streams.row(row(1, 1.17625e9, u64::MAX, Some(12_345), Some(85.25)));
    streams.row(row(2, 12_500.0, 125_000, None, None));
    let mut ends = Table::new(
        "both_ends",
        vec![
            Column::new("end", "end", Unit::Text),
            Column::new("CPU", "cpu_permille", Unit::Permille),
        ],
    );
    ends.row(vec!["=here, \x1b[1m".into(), Value::Real(125.0)]);
    report.tables = vec![streams, ends];
    report
        .say(
            "receiver-limited",
            "The receiver's window was full 83.1 % of the time: the program at 10.0.0.2 reads too slowly.",
        )
        .remedy("ss -tmi dst 10.0.0.2  # its window");
    report.say("even", "Both streams\nare \x1b[31mfine.");
    let at = |total, idle, steal, own| NoiseSample {
        total_ticks: Some(total),
        idle_ticks: Some(idle),
        steal_ticks: Some(steal),
        own_ticks: Some(own),
        load: Some(2.1),
        frequency_khz: None,
        processors: Some(2),
    };
    report.noise = Some(Noise {
        before: at(0, 0, 0, 0),
        after: at(1000, 500, 30, 350),
    });
    report
}

fn interrupted() -> Report {
    let mut report = stream();
    report.partial = Some(Partial {
        code: "interrupted",
        text: "interrupted after 3.2 of 10 s".to_owned(),
    });
    report
}

fn render(report: &Report, layout: ReportLayout) -> String {
    let mut out = Vec::new();
    push_report(&mut out, report, layout);
    String::from_utf8(out).unwrap()
}

fn render_as(report: &Report, format: Format) -> String {
    render(
        report,
        ReportLayout {
            format,
            ..ReportLayout::default()
        },
    )
}

#[test]
fn table_format_has_all_parts() {
    let expected = "\
PARTIAL: interrupted after 3.2 of 10 s
stream: to 10.0.0.2:5210, 4 streams, for 10s

streams
stream         rate  retransmitted     rtt
     1  9.41 Gbit/s          12.3K  85.2us
     2   100 kbit/s              -       -

both ends
end               CPU
=here, \\x1b[1m  12.5%

The receiver's window was full 83.1 % of the time: the program at 10.0.0.2 reads too slowly.
  $ ss -tmi dst 10.0.0.2  # its window

Both streams\\x0aare \\x1b[31mfine.

noise: 3.0 % of the machine's time was stolen by the hypervisor, other programs had 12 %, load 2.1 before and 2.1 after, 2 processors, frequency unknown: figures of other runs may differ by as much

PARTIAL: interrupted after 3.2 of 10 s
";
    assert_eq!(render_as(&interrupted(), Format::Table), expected);
    let coloured = render(
        &interrupted(),
        ReportLayout {
            style: Style::Color,
            ..ReportLayout::default()
        },
    );
    assert!(
        coloured.starts_with("\x1b[33mPARTIAL: interrupted after 3.2 of 10 s\x1b[0m\n"),
        "{coloured}"
    );
    let mut plain = coloured;
    for code in ["\x1b[33m", "\x1b[2m", "\x1b[0m"] {
        plain = plain.replace(code, "");
    }
    assert_eq!(plain, expected);
}

#[test]
fn narrow_terminal_wraps_all_but_commands() {
    let narrow = render(
        &stream(),
        ReportLayout {
            width: Some(30),
            ..ReportLayout::default()
        },
    );
    let expected = "\
stream: to 10.0.0.2:5210, 4
  streams, for 10s

streams
stream        rate
  retransmitted    rtt
     1 9.41 Gbit/s
          12.3K 85.2us
     2  100 kbit/s
              -      -
";
    assert!(narrow.starts_with(expected), "{narrow}");
    // A command is copied by users: it is not wrapped.
    assert!(
        narrow.contains("\n  $ ss -tmi dst 10.0.0.2  # its window\n"),
        "{narrow}"
    );
    let without = render(
        &stream(),
        ReportLayout {
            no_header: true,
            ..ReportLayout::default()
        },
    );
    assert!(!without.contains("retransmitted"), "{without}");
    assert!(without.contains("9.41 Gbit/s"), "{without}");
    for width in 0..120 {
        let layout = ReportLayout {
            width: Some(width),
            ..ReportLayout::default()
        };
        assert!(render(&stream(), layout).contains("9.41 Gbit/s"), "{width}");
    }
}

#[test]
fn single_table_has_no_title_and_empty_one_no_headings() {
    let mut report = stream();
    report.tables.pop();
    assert!(!render_as(&report, Format::Table).contains("\nstreams\n"));
    report.tables[0].rows.clear();
    let empty = render_as(&report, Format::Table);
    assert!(!empty.contains("retransmitted"), "{empty}");
    report.settings.clear();
    assert!(render_as(&report, Format::Table).starts_with("stream\n\nThe receiver"));
}

#[test]
fn csv_has_rows_of_first_table() {
    let time = "1970-01-01T00:00:00.000000Z";
    let rows = format!("{time},1,1176250000,18446744073709551615,12345,85.25\r\n{time},2,12500,125000,,\r\n");
    let expected = format!("time,stream,bytes_per_s,bytes,retransmitted,rtt_us\r\n{rows}");
    assert_eq!(render_as(&interrupted(), Format::Csv), expected);
    let bare = ReportLayout {
        format: Format::Csv,
        no_header: true,
        ..ReportLayout::default()
    };
    assert_eq!(render(&stream(), bare), rows);
    let mut ends = stream();
    ends.tables.remove(0);
    assert_eq!(
        render_as(&ends, Format::Csv),
        "time,end,cpu_permille\r\n1970-01-01T00:00:00.000000Z,\"'=here, \\x1b[1m\",125\r\n"
    );
    assert_eq!(render_as(&Report::new("memory"), Format::Csv), "");
}

#[test]
fn json_follows_schema() {
    let whole = validator(SCHEMA, None);
    let document = follows(&whole, &render_as(&stream(), Format::Json));
    assert_eq!(document["type"], "bench");
    assert_eq!(document["schema_version"], 2);
    assert_eq!(document["bench"], "stream");
    assert_eq!(
        document["settings"],
        json!({"host": "10.0.0.2:5210", "streams": 4, "time_s": 10, "reverse": false})
    );
    assert_eq!(
        document["streams"],
        json!([
            {"stream": 1, "bytes_per_s": 1_176_250_000.0_f64 as u64, "bytes": u64::MAX, "retransmitted": 12345, "rtt_us": 85.25},
            {"stream": 2, "bytes_per_s": 12500, "bytes": 125_000},
        ])
    );
    assert_eq!(document["both_ends"][0]["end"], "=here, \x1b[1m");
    assert_eq!(document["sentences"][0]["code"], "receiver-limited");
    assert_eq!(document["noise"]["steal_permille"], 30);
    assert_eq!(document["noise"]["noisy"], true);
    assert!(document.get("partial").is_none());
    let document = follows(&whole, &render_as(&interrupted(), Format::Json));
    assert_eq!(
        document["partial"],
        json!({"code": "interrupted", "text": "interrupted after 3.2 of 10 s"})
    );
    follows(&whole, &render_as(&Report::new("memory"), Format::Json));
}

#[test]
fn json_lines_follow_schema() {
    let (line, last) = (
        validator(SCHEMA, Some("line")),
        validator(SCHEMA, Some("summary_line")),
    );
    let text = render_as(&interrupted(), Format::Jsonl);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    let rows: Vec<Json> = lines[..3].iter().map(|text| follows(&line, text)).collect();
    assert_eq!(rows[0]["type"], "bench_row");
    assert_eq!(rows[0]["table"], "streams");
    assert_eq!(rows[2]["table"], "both_ends");
    let summary = follows(&last, lines[3]);
    assert_eq!(summary["type"], "bench_summary");
    assert_eq!(summary["summary"]["partial"]["code"], "interrupted");
    assert!(summary["summary"].get("streams").is_none());
}

fn draw(report: &Report) -> String {
    let mut out = Vec::new();
    write_charts(&mut out, report, ChartFormat::Svg).unwrap();
    String::from_utf8(out).unwrap()
}

fn chart_with_mark() -> Chart {
    let line = |name: &str, rates: [f64; 4]| Line {
        name: name.to_owned(),
        points: [64.0, 4096.0, 65_536.0, 1_048_576.0]
            .into_iter()
            .zip(rates)
            .collect(),
    };
    Chart {
        title: "rates <by> size".to_owned(),
        x: ("size", Unit::Bytes),
        y: ("bytes a second", Unit::BytesPerSecond),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Linear,
        lines: vec![
            line("libc", [1e9, 30e9, f64::NAN, 8e9]),
            line("rep \u{1b}[31m& stosb", [2e9, 40e9, 41e9, 9e9]),
        ],
        marks: vec![(65_536.0, "-79 % beyond 64Ki".to_owned())],
    }
}

#[test]
fn charts_are_drawn_as_svg_and_png() {
    let mut report = interrupted();
    report.charts = vec![chart_with_mark(), chart_with_mark()];
    let svg = draw(&report);
    for text in [
        ">stream: to 10.0.0.2:5210, 4 streams, for 10s</text>",
        ">PARTIAL: interrupted after 3.2 of 10 s</text>",
        ">rates &lt;by&gt; size</text>",
        ">libc</text>",
        ">rep \\x1b[31m&amp; stosb</text>",
        ">-79 % beyond 64Ki</text>",
        ">size</text>",
        ">64Ki</text>",
        ">40 GB/s</text>",
        ">bytes a second</text>",
        "prefers-color-scheme:dark",
        ">noise: 3.0 % of",
    ] {
        assert!(svg.contains(text), "{text} in {svg}");
    }
    assert_eq!(svg.matches(">libc</text>").count(), 2, "one legend per chart");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let mut png = Vec::new();
    write_charts(&mut png, &report, ChartFormat::Png).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xaeB`\x82"));
}

#[test]
fn report_without_points_has_message() {
    let nothing = "nothing was measured that could be drawn";
    assert!(draw(&stream()).contains(nothing));
    let mut report = stream();
    let mut chart = chart_with_mark();
    chart.y_scale = Scale::Logarithmic;
    for line in &mut chart.lines {
        line.points = vec![(1.0, 0.0), (2.0, f64::INFINITY)];
    }
    report.charts = vec![chart];
    assert!(draw(&report).contains(nothing));
    report.charts[0].lines.clear();
    report.charts[0].marks.clear();
    assert!(draw(&report).contains(nothing));
}
