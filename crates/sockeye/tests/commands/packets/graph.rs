//! `sockeye graph`: each format shows what `analyze --flags` lists, and an output file is complete or unchanged.

use super::graph_folder::{GraphFolder, MarkCounts, capture, marks_of_kind, svg_marks};
use super::impaired_path::{ImpairedPath, TransferPlan, delay};
use super::stdin::run_with_input;
use crate::fixtures::terminal::Terminal;
use rustix::termios::Winsize;
use serde_json::Value;
use sockeye_lab::{Impairment, Toward, need, program};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn each_format_marks_the_segments_that_analyze_lists() {
    let folder = need!(GraphFolder::new());
    let expected = MarkCounts::of_analysis(&folder, "1");
    assert!(
        expected.retransmissions > 5 && expected.duplicate_acks > 20 && expected.zero_windows > 0,
        "{expected:?}"
    );

    let json = folder.graph_json(&["a.pcap", "--direction", "both"]);
    assert_eq!(MarkCounts::of_graph(&json), expected);
    assert_eq!(json["connection"]["number"], 1);
    assert!(
        json["verdict"].as_str().unwrap().len() > 20,
        "{}",
        json["verdict"]
    );
    assert!(json.get("segments_left_out").is_none() && json.get("events_left_out").is_none());

    let svg = folder.graph_text(&["a.pcap", "--direction", "both", "--format", "svg"]);
    assert_eq!(svg_marks(&svg, &["re", "sp"], "R"), expected.retransmissions);
    assert_eq!(svg_marks(&svg, &["oo"], "O"), expected.out_of_order);
    assert_eq!(svg_marks(&svg, &["wi"], "Z"), expected.zero_windows);
    for word in ["stall", "window closed", "in flight", "round trip", "throughput"] {
        assert!(svg.contains(word), "{word}");
    }

    let xpl = folder.graph_text(&["a.pcap", "--format", "xpl"]);
    let count = |line: &str| xpl.lines().filter(|candidate| *candidate == line).count() as u64;
    assert_eq!(count("R"), expected.retransmissions);
    assert_eq!(count("O"), expected.out_of_order);
    assert_eq!(count("Z"), expected.zero_windows);
    assert_eq!(count("S"), marks_of_kind(&json, "sack"));
    assert_eq!(xpl.matches("\ndtick ").count() as u64, expected.duplicate_acks);

    let html = folder.graph_text(&["a.pcap", "--format", "html"]);
    for name in ["segments", "acks", "marks", "rtt", "events"] {
        let len = json["directions"][0][name].as_array().unwrap().len();
        assert!(html.contains(&format!("\"{name}\":{len}")), "{name} {len}");
    }

    let text = folder.graph_text(&["a.pcap", "--width", "100"]);
    assert!(
        text.contains(&format!("again {} ", expected.retransmissions)),
        "{text}"
    );
    assert!(text.contains("closed ") && text.contains("stalls "), "{text}");
    let sixel = folder.graph_bytes(&["a.pcap", "--format", "sixel"]);
    assert!(sixel.starts_with(b"\x1bPq") && sixel.ends_with(b"\x1b\\\n"));
    let kitty = folder.graph_bytes(&["a.pcap", "--format", "kitty"]);
    assert!(kitty.starts_with(b"\x1b_Ga=T") && kitty.ends_with(b"\x1b\\\n"));
    let png = folder.graph_bytes(&["a.pcap", "--format", "png"]);
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xaeB`\x82"));
}

#[test]
fn graph_has_as_many_sack_blocks_as_tshark() {
    let folder = need!(GraphFolder::new());
    let tshark = need!(program("tshark"));
    let output = Command::new(tshark)
        .args([
            "-n",
            "-r",
            "a.pcap",
            "-Y",
            "tcp.stream == 1",
            "-T",
            "fields",
            "-e",
            "tcp.options.sack_le",
        ])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let blocks = text
        .lines()
        .flat_map(|line| line.split(','))
        .filter(|block| !block.is_empty());
    let json = folder.graph_json(&["a.pcap", "--direction", "both"]);
    assert_eq!(marks_of_kind(&json, "sack"), blocks.count() as u64);
}

/// Compares with `cwnd` in the sender's `tcp_info`, sampled during the transfer.
#[test]
fn estimated_congestion_window_is_close_to_the_kernels() {
    let folder = need!(GraphFolder::new());
    let forward = Impairment {
        bytes_per_s: 500_000,
        queue_bytes: 30_000,
        ..delay(20)
    };
    let path = need!(ImpairedPath::with("graph_cwnd", 8, forward, delay(20)));
    let capture = need!(path.capture(Toward::Client));
    // Time since the epoch in nanoseconds, and the window in bytes.
    let mut samples: Vec<(u64, u64)> = Vec::new();
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| path.transfer(&TransferPlan::of(2_500_000)));
        while !transfer.is_finished() {
            if let Some(bytes) = path.congestion_window() {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                samples.push((now.as_nanos() as u64, bytes));
            }
            // The interval of the samples.
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let file = capture.stop();
    fs::copy(&file, folder.path("cwnd.pcap")).unwrap();
    let bytes = fs::read(&file).unwrap();
    // The timestamp of the first packet.
    let number = |offset: usize| u64::from(u32::from_le_bytes(*bytes[offset..].first_chunk().unwrap()));
    let start_ns = number(24) * 1_000_000_000 + number(28) * 1_000;
    let json = folder.graph_json(&["cwnd.pcap"]);
    let estimates = json["directions"][0]["cwnd_estimates"].as_array().unwrap();
    let mut ratios: Vec<f64> = Vec::new();
    for (time_ns, cwnd) in &samples {
        let time_ns = time_ns.saturating_sub(start_ns);
        let value = |estimate: &Value, key: &str| estimate[key].as_u64().unwrap();
        let estimate = estimates
            .iter()
            .find(|estimate| (value(estimate, "time_ns")..value(estimate, "until_ns")).contains(&time_ns));
        if let Some(estimate) = estimate {
            ratios.push(value(estimate, "bytes") as f64 / *cwnd as f64);
        }
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios.len() > 50, "{} of {} samples", ratios.len(), samples.len());
    let [low, median, high] = [10, 50, 90].map(|percent| ratios[ratios.len() * percent / 100]);
    eprintln!(
        "estimated/true window, 10th, 50th and 90th percentile: {low:.2} {median:.2} {high:.2} of {}",
        ratios.len()
    );
    assert!(
        (0.9..=1.1).contains(&median) && low > 0.75 && high < 1.25,
        "{ratios:?}"
    );
}

#[test]
fn connection_direction_and_panels_are_selected() {
    let folder = need!(GraphFolder::new());
    let number = |arguments: &[&str]| {
        folder.graph_json(arguments)["connection"]["number"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(number(&["a.pcap"]), 1);
    assert_eq!(number(&["a.pcap", "--connection", "0"]), 0);
    assert_eq!(number(&["a.pcap", "--connection", "2"]), 2);
    let small = folder.graph_json(&["a.pcap", "--connection", "0"]);
    let port = small["connection"]["server"]["port"].as_u64().unwrap();
    assert_eq!(number(&["a.pcap", "dport", "=", &format!(":{port}")]), 0);
    assert_eq!(number(&["a.pcap", &format!("not dport = :{port}")]), 1);
    let names = |option: &str| {
        let json = folder.graph_json(&["a.pcap", "--direction", option]);
        let directions = json["directions"].as_array().unwrap();
        directions
            .iter()
            .map(|direction| direction["direction"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("busier"), ["client_to_server"]);
    assert_eq!(names("server"), ["server_to_client"]);
    assert_eq!(names("both"), ["client_to_server", "server_to_client"]);
    // Panels are drawn in the order of the option.
    let svg = folder.graph_text(&["a.pcap", "--format", "svg", "--panels", "window,segment-size"]);
    let (window, size) = (svg.find(">receive window<"), svg.find(">segment size<"));
    assert!(
        window.is_some() && window < size && !svg.contains("sequence number"),
        "{size:?}"
    );
}

#[test]
fn invalid_arguments_and_captures_are_errors_without_output() {
    let folder = need!(GraphFolder::new());
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let outcome = folder.graph(arguments);
        assert!(
            outcome.failed(code).contains(expected),
            "{arguments:?}: {outcome}"
        );
    };
    check(
        &["a.pcap", "--connection", "7"],
        1,
        "there is no connection 7: the capture has 3, 0 to 2",
    );
    check(
        &["a.pcap", "--connection", "0", "dport = :1"],
        1,
        "connection 0 does not match the filter",
    );
    check(&["a.pcap", "dport = :1"], 1, "none of the 3 connections");
    check(&["missing.pcap"], 1, "missing.pcap");
    check(&["a.pcap", "-o", "out.gif"], 2, ".gif");
    check(&["a.pcap", "--panels", "cwnd"], 2, "sequence, in-flight, rtt");
    check(&["a.pcap", "a.pcap"], 2, "one capture");
    check(&["a.pcap", "state", "established"], 2, "'state established'");
    check(&["dport", "=", ":443"], 2, "sockeye graph FILE");
    check(
        &["a.pcap", "-o", "a.pcap", "--format", "svg"],
        2,
        "the capture itself",
    );
    // The file header alone: a capture without packets.
    let bytes = capture().unwrap();
    fs::write(folder.path("none.pcap"), &bytes[..24]).unwrap();
    check(&["none.pcap"], 1, "no segment of TCP");
    check(&["none.pcap", "--connection", "0"], 1, "the capture has none");
    fs::write(folder.path("text.pcap"), "no capture at all").unwrap();
    check(&["text.pcap"], 1, "no capture");
}

#[test]
fn truncated_capture_is_drawn_up_to_its_end() {
    let folder = need!(GraphFolder::new());
    let bytes = capture().unwrap();
    // Within the data of a packet: a file that ends between two packets is complete.
    let mut packet = 24;
    while packet < bytes.len() / 2 {
        let captured_len = u32::from_le_bytes(bytes[packet + 8..packet + 12].try_into().unwrap());
        packet += 16 + captured_len as usize;
    }
    let half = &bytes[..packet + 20];
    fs::write(folder.path("half.pcap"), half).unwrap();
    let outcome = folder.graph(&["half.pcap", "--format", "json"]);
    let json = outcome.json();
    assert!(
        outcome.error().contains("ends in the middle of a packet"),
        "{outcome}"
    );
    let whole = folder.graph_json(&["a.pcap"]);
    let segments = |json: &Value| json["directions"][0]["segments"].as_array().unwrap().clone();
    let (drawn, all) = (segments(&json), segments(&whole));
    assert!(drawn.len() > 100 && drawn.len() < all.len());
    assert_eq!(drawn[..], all[..drawn.len()]);
}

#[test]
fn pipes_and_compressed_files_have_the_same_graph() {
    let folder = need!(GraphFolder::new());
    let expected = folder.graph_json(&["a.pcap"]);
    let assert_same = |mut graph: Value| {
        for key in ["source", "time"] {
            graph[key] = expected[key].clone();
        }
        assert!(graph == expected, "another graph");
    };
    assert_same(run_with_input(&["graph", "-", "--format", "json"], capture().unwrap()).json());
    let gzip = need!(program("gzip"));
    let compressed = Command::new(gzip)
        .args(["-c", "a.pcap"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    fs::write(folder.path("a.pcap.gz"), compressed.stdout).unwrap();
    assert_same(folder.graph_json(&["a.pcap.gz"]));
}

#[test]
fn output_files_are_complete_or_unchanged() {
    let folder = need!(GraphFolder::new());
    let read = |name: &str| fs::read_to_string(folder.path(name)).unwrap();
    let write = |name: &str| folder.graph(&["a.pcap", "-o", name]).quiet().to_owned();
    assert_eq!(write("a.svg"), "");
    assert!(read("a.svg").ends_with("</svg>\n"));
    assert_eq!(folder.other_files(), ["a.svg"]);

    // An existing file is replaced and keeps its mode, also behind a symbolic link, which stays.
    fs::write(folder.path("old.svg"), "old").unwrap();
    fs::set_permissions(folder.path("old.svg"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("old.svg", folder.path("link.svg")).unwrap();
    assert_eq!(write("link.svg"), "");
    assert!(folder.path("link.svg").is_symlink());
    assert!(read("old.svg").ends_with("</svg>\n"));
    let mode = fs::metadata(folder.path("old.svg")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);

    // What only the owner of a capture may read is in its graph, too.
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    fs::copy(folder.path("a.pcap"), folder.path("private.pcap")).unwrap();
    for capture_mode in [0o600, 0o640] {
        fs::set_permissions(
            folder.path("private.pcap"),
            fs::Permissions::from_mode(capture_mode),
        )
        .unwrap();
        folder.graph(&["private.pcap", "-o", "private.svg"]).quiet();
        assert_eq!(mode("private.svg"), 0o600);
        fs::remove_file(folder.path("private.svg")).unwrap();
    }
    fs::remove_file(folder.path("private.pcap")).unwrap();

    // With a limit on the file size, the write fails.
    for (limit, name) in [("1000", "old.svg"), ("1000", "new.json")] {
        let before = fs::read(folder.path(name)).ok();
        let files = folder.other_files();
        let status = Command::new("prlimit")
            .arg(format!("--fsize={limit}"))
            .args([env!("CARGO_BIN_EXE_sockeye"), "graph", "a.pcap", "-o", name])
            .current_dir(&folder.0)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{name}");
        assert_eq!(fs::read(folder.path(name)).ok(), before, "{name}");
        assert_eq!(folder.other_files(), files, "{name}");
    }
    for (arguments, expected) in [
        (&["nowhere/a.svg"][..], "there is no directory \"nowhere\""),
        (
            &["/dev/full", "--format", "svg"],
            "write \"/dev/full\": No space left",
        ),
        (&[".", "--format", "svg"], "Is a directory"),
    ] {
        let outcome = folder.graph(&[&["a.pcap", "-o"], arguments].concat());
        assert!(outcome.failed(1).contains(expected), "{outcome}");
    }
}

#[test]
fn full_file_system_keeps_the_old_file() {
    let folder = need!(GraphFolder::new());
    fs::create_dir(folder.path("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs disk && echo old > disk/a.json && \
         ! {} graph a.pcap -o disk/a.json && cat disk/a.json && ls -A disk",
        env!("CARGO_BIN_EXE_sockeye")
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "old\na.json\n");
    assert!(error.contains("No space left on device"), "{error}");
}

#[test]
fn output_to_pipes_fifos_and_open_files_is_written_in_place() {
    let folder = need!(GraphFolder::new());
    let expected = folder.graph_text(&["a.pcap", "--format", "svg"]);
    // `/dev/stdout` as a pipe, and as a file.
    let to_stdout = ["graph", "a.pcap", "--format", "svg", "-o", "/dev/stdout"];
    assert!(folder.graph_text(&to_stdout[1..]) == expected);
    fs::write(folder.path("stdout.svg"), "before\n").unwrap();
    let file = File::options()
        .append(true)
        .open(folder.path("stdout.svg"))
        .unwrap();
    let status = folder.command(&to_stdout).stdout(file).status().unwrap();
    assert!(status.success());
    assert!(fs::read_to_string(folder.path("stdout.svg")).unwrap() == format!("before\n{expected}"));

    let fifo = folder.path("fifo.svg");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = folder
        .command(&["graph", "a.pcap", "-o", "fifo.svg"])
        .spawn()
        .unwrap();
    let received = fs::read_to_string(&fifo).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(received == expected);

    // A pipe that its reader has closed is not an error.
    let mut child = folder
        .command(&["graph", "a.pcap", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
}

#[test]
fn file_names_are_escaped() {
    let folder = need!(GraphFolder::new());
    let name = "<script>alert(1)<img src=x>&\"\x1b]0;owned\x07.pcap".replace('/', "_");
    fs::copy(folder.path("a.pcap"), folder.path(&name)).unwrap();
    for format in ["svg", "html", "text", "xpl"] {
        let out = folder.graph_text(&[&name, "--format", format]);
        assert!(!out.contains('\x1b') && !out.contains('\x07'), "{format}");
        assert!(
            !out.contains("<script>alert") && !out.contains("<img"),
            "{format}"
        );
    }
    let json = folder.graph_json(&[&name]);
    assert_eq!(json["source"].as_str(), Some(name.as_str()));
    assert!(
        folder
            .graph_text(&[&name, "--format", "svg"])
            .contains("&lt;script&gt;alert(1)&lt;img src=x&gt;&amp;&quot;")
    );
}

#[test]
fn text_fits_into_the_terminal() {
    let folder = need!(GraphFolder::new());
    for (columns, rows) in [(40, 26), (80, 24), (200, 60)] {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let text = graph_on_terminal(&folder, size, "xterm");
        let plain = without_colors(&text);
        assert!(text.contains("\x1b["), "no colors");
        assert!(
            plain.lines().count() < usize::from(rows),
            "{columns}x{rows}:\n{plain}"
        );
        for line in plain.lines() {
            assert!(
                line.chars().count() <= usize::from(columns),
                "{columns}x{rows}: {line}"
            );
        }
        let panels = ["sequence number", "in flight", "round trip", "throughput"];
        let drawn = panels.iter().filter(|panel| plain.contains(**panel)).count();
        assert!(drawn == 4 || rows < 60, "{plain}");
    }
    let piped = folder.graph_text(&["a.pcap"]);
    assert!(!piped.contains('\x1b') && piped.lines().all(|line| line.chars().count() <= 100));
    for panel in ["in flight", "round trip", "throughput"] {
        assert!(piped.contains(panel), "{piped}");
    }
    let narrow = folder.graph_text(&["a.pcap", "--width", "40"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
}

#[test]
fn terminal_with_kitty_or_sixel_graphics_gets_an_image_of_its_size() {
    let folder = need!(GraphFolder::new());
    let size = Winsize {
        ws_row: 50,
        ws_col: 100,
        ws_xpixel: 900,
        ws_ypixel: 1000,
    };
    let kitty = graph_on_terminal(&folder, size, "xterm-kitty");
    assert!(kitty.starts_with("\x1b_Ga=T"), "{kitty:.100}");
    let sixel = graph_on_terminal(&folder, size, "foot");
    assert!(sixel.starts_with("\x1bPq\"1;1;900;960#"), "{sixel:.100}");
    // Not inside tmux, nor with an unknown size in pixels.
    let inside = graph_on_terminal(&folder, size, "tmux-256color");
    assert!(inside.contains('┤'), "{inside:.100}");
    let unknown = Winsize {
        ws_xpixel: 0,
        ws_ypixel: 0,
        ..size
    };
    assert!(graph_on_terminal(&folder, unknown, "xterm-kitty").contains('┤'));
}

/// With `LC_ALL=C` a terminal or a pipe gets no byte beyond ASCII, and the same graph.
#[test]
fn locale_c_gives_ascii_graphs() {
    let folder = need!(GraphFolder::new());
    let size = Winsize {
        ws_row: 60,
        ws_col: 100,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    for (variables, is_ascii) in [
        (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")][..], true),
        (&[("LC_ALL", "POSIX")], true),
        (&[("LC_CTYPE", "C"), ("LANG", "en_US.UTF-8")], true),
        (&[("LANG", "C")], true),
        (&[("LC_ALL", "C.UTF-8"), ("LANG", "C")], false),
        (&[], false),
    ] {
        let on_terminal = graph_with(&folder, size, "xterm", variables);
        let mut piped = folder.command(&["graph", "a.pcap"]);
        let piped = crate::fixtures::binary::run(piped.envs(variables.iter().copied()));
        let mut verdict = folder.command(&["analyze", "-v", "a.pcap"]);
        let verdict = crate::fixtures::binary::run(verdict.envs(variables.iter().copied()));
        assert!(verdict.ok().is_ascii(), "{verdict}");
        for text in [&*on_terminal, piped.ok()] {
            assert_eq!(text.is_ascii(), is_ascii, "{variables:?}:\n{text}");
            let (arrow, edge) = if is_ascii { (" -> ", '+') } else { (" → ", '┤') };
            assert!(
                text.contains(arrow) && text.contains(edge),
                "{variables:?}:\n{text}"
            );
            for panel in ["sequence number", "in flight", "round trip", "throughput"] {
                assert!(text.contains(panel), "{variables:?}:\n{text}");
            }
        }
        assert!(!is_ascii || on_terminal.contains("= sent"), "{on_terminal}");
    }
}

/// Runs `graph` on a terminal of this size and type; returns its output.
fn graph_on_terminal(folder: &GraphFolder, size: Winsize, term: &str) -> String {
    graph_with(folder, size, term, &[])
}

fn graph_with(folder: &GraphFolder, size: Winsize, term: &str, variables: &[(&str, &str)]) -> String {
    let terminal = Terminal::with_size(size);
    let mut child = folder
        .command(&["graph", "a.pcap"])
        .envs(variables.iter().copied())
        .env("TERM", term)
        .env_remove("TERM_PROGRAM")
        .stdout(terminal.stdio())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let text = terminal.read_to_end();
    assert!(child.wait().unwrap().success());
    String::from_utf8(text).unwrap().replace("\r\n", "\n")
}

/// Removes the escape sequences of colors.
fn without_colors(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap().to_owned();
    first
        + &parts
            .map(|part| part.split_once('m').unwrap().1)
            .collect::<String>()
}
