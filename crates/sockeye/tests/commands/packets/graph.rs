//! `sockeye graph` on captures of the kernel's own TCP: what is drawn is what `analyze --flags` lists, in every format, and
//! whatever becomes of its output, no half picture is found under the wanted name.

use super::drawn::{Counts, Folder, capture, letters, sack_blocks, said};
use super::road;
use super::road::Road;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use sockeye_lab::{Impairment, Toward, need, program};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The connection with most data
const BIG: &str = "1";

#[test]
fn every_format_shows_what_analyze_lists() {
    let folder = need!(Folder::new());
    let told = Counts::told(&folder, BIG);
    assert!(
        told.repeated > 5 && told.duplicate_acks > 20 && told.zero_windows > 0,
        "{told:?}"
    );

    let json = folder.json(&["a.pcap", "--direction", "both"]);
    assert_eq!(Counts::of_json(&json), told);
    assert_eq!(json["connection"]["number"], 1);
    assert!(
        json["verdict"].as_str().unwrap().len() > 20,
        "{}",
        json["verdict"]
    );
    assert!(json.get("segments_left_out").is_none() && json.get("events_left_out").is_none());

    let svg = folder.text(&["a.pcap", "--direction", "both", "--format", "svg"]);
    assert_eq!(letters(&svg, &["re", "sp"], "R"), told.repeated);
    assert_eq!(letters(&svg, &["oo"], "O"), told.out_of_order);
    assert_eq!(letters(&svg, &["wi"], "Z"), told.zero_windows);
    for word in ["stall", "window closed", "in flight", "round trip", "throughput"] {
        assert!(svg.contains(word), "{word}");
    }

    let xpl = folder.text(&["a.pcap", "--format", "xpl"]);
    let count = |line: &str| xpl.lines().filter(|one| *one == line).count() as u64;
    assert_eq!(count("R"), told.repeated);
    assert_eq!(count("O"), told.out_of_order);
    assert_eq!(count("Z"), told.zero_windows);
    assert_eq!(count("S"), sack_blocks(&json));
    assert_eq!(xpl.matches("\ndtick ").count() as u64, told.duplicate_acks);

    let html = folder.text(&["a.pcap", "--format", "html"]);
    for (name, list) in [
        ("segments", "segments"),
        ("acks", "acks"),
        ("marks", "marks"),
        ("rtt", "rtt"),
        ("events", "events"),
    ] {
        let len = json["directions"][0][list].as_array().unwrap().len();
        assert!(html.contains(&format!("\"{name}\":{len}")), "{name} {len}");
    }

    let text = folder.text(&["a.pcap", "--width", "100"]);
    assert!(text.contains(&format!("again {} ", told.repeated)), "{text}");
    assert!(text.contains("closed ") && text.contains("stalls "), "{text}");
    let sixel = folder.drawn(&["a.pcap", "--format", "sixel"]);
    assert!(sixel.starts_with(b"\x1bPq") && sixel.ends_with(b"\x1b\\\n"));
    let kitty = folder.drawn(&["a.pcap", "--format", "kitty"]);
    assert!(kitty.starts_with(b"\x1b_Ga=T") && kitty.ends_with(b"\x1b\\\n"));
    let png = folder.drawn(&["a.pcap", "--format", "png"]);
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xaeB`\x82"));
}

/// Each block that tshark reads is there.
#[test]
fn sack_blocks_are_those_of_tshark() {
    let folder = need!(Folder::new());
    let tshark = need!(program("tshark"));
    let out = Command::new(tshark)
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
    let listed = String::from_utf8(out.stdout).unwrap();
    let blocks = listed
        .lines()
        .flat_map(|line| line.split(','))
        .filter(|block| !block.is_empty());
    let json = folder.json(&["a.pcap", "--direction", "both"]);
    assert_eq!(sack_blocks(&json), blocks.count() as u64);
}

/// What is estimated of the congestion window is near to what the sender's kernel said of it at the same moment.
#[test]
fn the_congestion_window_is_about_the_kernels() {
    let folder = need!(Folder::new());
    let road = need!(Road::new("graph_cwnd", 8));
    road.set(
        Toward::Server,
        Impairment {
            delay: Duration::from_millis(20),
            bytes_per_s: 500_000,
            queue_bytes: 30_000,
            ..Impairment::default()
        },
    );
    road.set(
        Toward::Client,
        Impairment {
            delay: Duration::from_millis(20),
            ..Impairment::default()
        },
    );
    let capture = need!(road.capture(Toward::Client));
    let mut told: Vec<(u64, u64)> = Vec::new();
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| {
            road.transfer(&road::Plan {
                bytes: 2_500_000,
                ..road::Plan::default()
            })
        });
        while !transfer.is_finished() {
            if let Some(bytes) = road.congestion_window() {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                told.push((now.as_nanos() as u64, bytes));
            }
            // The interval of the samples.
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let file = capture.stop();
    fs::copy(&file, folder.path("cwnd.pcap")).unwrap();
    let bytes = fs::read(&file).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
    let begin_ns = word(24) * 1_000_000_000 + word(28) * 1_000;
    let json = folder.json(&["cwnd.pcap"]);
    let estimates = json["directions"][0]["cwnd_estimates"].as_array().unwrap();
    let mut ratios: Vec<f64> = Vec::new();
    for (time_ns, cwnd) in &told {
        let since = time_ns.saturating_sub(begin_ns);
        let of = |one: &serde_json::Value, key: &str| one[key].as_u64().unwrap();
        let estimate = estimates
            .iter()
            .find(|one| (of(one, "time_ns")..of(one, "until_ns")).contains(&since));
        if let Some(estimate) = estimate {
            ratios.push(of(estimate, "bytes") as f64 / *cwnd as f64);
        }
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios.len() > 50, "{} of {} moments", ratios.len(), told.len());
    let [low, middle, high] = [10, 50, 90].map(|percent| ratios[ratios.len() * percent / 100]);
    eprintln!(
        "estimated to true: {low:.2} {middle:.2} {high:.2} of {}",
        ratios.len()
    );
    assert!(
        (0.9..=1.1).contains(&middle) && low > 0.75 && high < 1.25,
        "{ratios:?}"
    );
}

#[test]
fn the_connection_is_chosen() {
    let folder = need!(Folder::new());
    let number = |words: &[&str]| folder.json(words)["connection"]["number"].as_u64().unwrap();
    assert_eq!(number(&["a.pcap"]), 1);
    assert_eq!(number(&["a.pcap", "-c", "0"]), 0);
    assert_eq!(number(&["a.pcap", "-c", "2"]), 2);
    let small = folder.json(&["a.pcap", "-c", "0"]);
    let server = small["connection"]["server"].as_str().unwrap().to_owned();
    let port = server.rsplit_once(':').unwrap().1;
    assert_eq!(number(&["a.pcap", "dport", "=", &format!(":{port}")]), 0);
    assert_eq!(number(&["a.pcap", &format!("not dport = :{port}")]), 1);
    // Which direction, and whose data
    let name = |way: &str| {
        let json = folder.json(&["a.pcap", "--direction", way]);
        let ways = json["directions"].as_array().unwrap();
        ways.iter()
            .map(|way| way["direction"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(name("busier"), ["client_to_server"]);
    assert_eq!(name("server"), ["server_to_client"]);
    assert_eq!(name("both"), ["client_to_server", "server_to_client"]);
    // Panels, in their order
    let svg = folder.text(&["a.pcap", "--format", "svg", "--panels", "window,segment-size"]);
    let (window, size) = (svg.find(">receive window<"), svg.find(">segment size<"));
    assert!(
        window.is_some() && window < size && !svg.contains("sequence number"),
        "{size:?}"
    );
}

#[test]
fn what_cannot_be_drawn_is_told() {
    let folder = need!(Folder::new());
    let check = |words: &[&str], code: i32, expected: &str| {
        let out = folder.graph(words);
        let text = said(&out);
        assert_eq!(out.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
        assert!(out.stdout.is_empty(), "{words:?}");
    };
    check(
        &["a.pcap", "-c", "7"],
        1,
        "there is no connection 7: the capture has 3, 0 to 2",
    );
    check(
        &["a.pcap", "-c", "0", "dport = :1"],
        1,
        "connection 0 does not match the filter",
    );
    check(&["a.pcap", "dport = :1"], 1, "none of the 3 connections");
    check(&["missing.pcap"], 1, "missing.pcap");
    check(&["a.pcap", "-o", "out.gif"], 2, ".gif");
    check(&["a.pcap", "--panels", "cwnd"], 2, "sequence, in-flight, rtt");
    check(&["a.pcap", "a.pcap"], 2, "one capture");
    check(&["a.pcap", "state", "established"], 2, "no capture tells");
    check(&["dport", "=", ":443"], 2, "sockeye graph FILE");
    check(
        &["a.pcap", "-o", "a.pcap", "--format", "svg"],
        2,
        "the capture itself",
    );
    // A capture without any connection: its header
    let bytes = capture().unwrap();
    fs::write(folder.path("none.pcap"), &bytes[..24]).unwrap();
    check(&["none.pcap"], 1, "no segment of TCP");
    check(&["none.pcap", "-c", "0"], 1, "the capture has none");
    fs::write(folder.path("text.pcap"), "no capture at all").unwrap();
    check(&["text.pcap"], 1, "no capture");
}

#[test]
fn a_broken_capture_is_drawn_as_far_as_it_goes() {
    let folder = need!(Folder::new());
    let bytes = capture().unwrap();
    let half = &bytes[..bytes.len() / 2];
    fs::write(folder.path("half.pcap"), half).unwrap();
    let out = folder.graph(&["half.pcap", "--format", "json"]);
    assert!(out.status.success());
    assert!(
        said(&out).contains("ends in the middle of a packet"),
        "{}",
        said(&out)
    );
    let whole = folder.json(&["a.pcap"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let segments = |json: &serde_json::Value| json["directions"][0]["segments"].as_array().unwrap().clone();
    let (drawn, all) = (segments(&json), segments(&whole));
    assert!(drawn.len() > 100 && drawn.len() < all.len());
    assert_eq!(drawn[..], all[..drawn.len()]);
}

#[test]
fn it_reads_pipes_and_packed_files() {
    let folder = need!(Folder::new());
    let expected = folder.json(&["a.pcap"]);
    let bytes = capture().unwrap();
    let same = |text: &str| {
        let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
        value["source"] = expected["source"].clone();
        assert!(value == expected, "another graph");
    };
    let (code, out, error) = road::piped(&["graph", "-", "--format", "json"], bytes);
    assert_eq!(code, Some(0), "{error}");
    same(&out);
    let gzip = need!(program("gzip"));
    let packed = Command::new(gzip)
        .args(["-c", "a.pcap"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    fs::write(folder.path("a.pcap.gz"), packed.stdout).unwrap();
    same(&folder.text(&["a.pcap.gz", "--format", "json"]));
}

#[test]
fn files_appear_as_a_whole_or_not_at_all() {
    let folder = need!(Folder::new());
    let read = |name: &str| fs::read_to_string(folder.path(name)).unwrap();
    let draw = |words: &[&str]| {
        let out = folder.graph(words);
        (out.status.code(), said(&out))
    };
    assert_eq!(draw(&["a.pcap", "-o", "a.svg"]), (Some(0), String::new()));
    assert!(read("a.svg").ends_with("</svg>\n"));
    assert_eq!(folder.others(), ["a.svg"]);

    // What stood there is replaced, keeps its mode, and a link to it stays one.
    fs::write(folder.path("old.svg"), "old").unwrap();
    fs::set_permissions(folder.path("old.svg"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("old.svg", folder.path("link.svg")).unwrap();
    assert_eq!(draw(&["a.pcap", "-o", "link.svg"]).0, Some(0));
    assert!(folder.path("link.svg").is_symlink());
    assert!(read("old.svg").ends_with("</svg>\n"));
    let mode = fs::metadata(folder.path("old.svg")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);

    // Nobody but us may know of a picture that could not be finished.
    for (limit, name) in [("1000", "old.svg"), ("1000", "new.json")] {
        let before = fs::read(folder.path(name)).ok();
        let others = folder.others();
        let status = Command::new("prlimit")
            .arg(format!("--fsize={limit}"))
            .args([env!("CARGO_BIN_EXE_sockeye"), "graph", "a.pcap", "-o", name])
            .current_dir(&folder.0)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{name}");
        assert_eq!(fs::read(folder.path(name)).ok(), before, "{name}");
        assert_eq!(folder.others(), others, "{name}");
    }
    let (code, error) = draw(&["a.pcap", "-o", "nowhere/a.svg"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("there is no directory \"nowhere\""), "{error}");
    let (code, error) = draw(&["a.pcap", "-o", "/dev/full", "--format", "svg"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("write \"/dev/full\": No space left"), "{error}");
    let (code, error) = draw(&["a.pcap", "-o", ".", "--format", "svg"]);
    assert_eq!(
        (code, error.contains("Is a directory")),
        (Some(1), true),
        "{error}"
    );
}

/// A disk that fills up in the middle.
#[test]
fn a_full_disk_leaves_what_was_there() {
    let folder = need!(Folder::new());
    fs::create_dir(folder.path("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs disk && echo old > disk/a.json && \
         ! {} graph a.pcap -o disk/a.json && cat disk/a.json && ls -A disk",
        env!("CARGO_BIN_EXE_sockeye")
    );
    let out = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "old\na.json\n");
    assert!(said(&out).contains("No space left on device"), "{}", said(&out));
}

#[test]
fn special_files_take_it_as_it_comes() {
    let folder = need!(Folder::new());
    let expected = folder.text(&["a.pcap", "--format", "svg"]);
    // `/dev/stdout` that is a pipe, and one that is a file
    let piped = folder.text(&["a.pcap", "--format", "svg", "-o", "/dev/stdout"]);
    assert!(piped == expected);
    fs::write(folder.path("stdout.svg"), "before\n").unwrap();
    let file = File::options()
        .append(true)
        .open(folder.path("stdout.svg"))
        .unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["graph", "a.pcap", "--format", "svg", "-o", "/dev/stdout"])
        .current_dir(&folder.0)
        .stdout(file)
        .status()
        .unwrap();
    assert!(status.success());
    assert!(fs::read_to_string(folder.path("stdout.svg")).unwrap() == format!("before\n{expected}"));
    // A FIFO
    let fifo = folder.path("fifo.svg");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["graph", "a.pcap", "-o", "fifo.svg"])
        .current_dir(&folder.0)
        .spawn()
        .unwrap();
    let read = fs::read_to_string(&fifo).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(read == expected);
    // Whoever read has had enough.
    let mut child = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["graph", "a.pcap", "--format", "json"])
        .current_dir(&folder.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), said(&out)), (Some(0), String::new()));
}

#[test]
fn names_of_files_stay_names() {
    let folder = need!(Folder::new());
    let name = "<script>alert(1)<img src=x>&\"\x1b]0;owned\x07.pcap".replace('/', "_");
    fs::copy(folder.path("a.pcap"), folder.path(&name)).unwrap();
    for format in ["svg", "html", "text", "xpl"] {
        let out = folder.text(&[&name, "--format", format]);
        assert!(!out.contains('\x1b') && !out.contains('\x07'), "{format}");
        assert!(
            !out.contains("<script>alert") && !out.contains("<img"),
            "{format}"
        );
    }
    let json = folder.json(&[&name]);
    assert_eq!(json["source"].as_str(), Some(name.as_str()));
    assert!(
        folder
            .text(&[&name, "--format", "svg"])
            .contains("&lt;script&gt;alert(1)&lt;img src=x&gt;&amp;&quot;")
    );
}

#[test]
fn it_fits_into_any_terminal() {
    let folder = need!(Folder::new());
    for (columns, rows) in [(40, 26), (80, 24), (200, 60)] {
        let text = on_terminal(&folder, columns, rows);
        let plain = without_colors(&text);
        assert!(text.contains("\x1b["), "no colours");
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
        let seen = panels.iter().filter(|panel| plain.contains(**panel)).count();
        assert!(seen == 4 || rows < 60, "{plain}");
    }
    let piped = folder.text(&["a.pcap"]);
    assert!(!piped.contains('\x1b') && piped.lines().all(|line| line.chars().count() <= 100));
    for panel in ["in flight", "round trip", "throughput"] {
        assert!(piped.contains(panel), "{piped}");
    }
    let narrow = folder.text(&["a.pcap", "--width", "40"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
}

/// A terminal that takes pixels gets them, as many as it has.
#[test]
fn terminals_that_take_pixels_get_them() {
    let folder = need!(Folder::new());
    let size = Winsize {
        ws_row: 50,
        ws_col: 100,
        ws_xpixel: 900,
        ws_ypixel: 1000,
    };
    let kitty = terminal_gets(&folder, size, "xterm-kitty");
    assert!(kitty.starts_with("\x1b_Ga=T"), "{kitty:.100}");
    let sixel = terminal_gets(&folder, size, "foot");
    assert!(sixel.starts_with("\x1bPq\"1;1;900;960#"), "{sixel:.100}");
    // Not inside another one, nor where nobody knows how many.
    let inside = terminal_gets(&folder, size, "tmux-256color");
    assert!(inside.contains('┤'), "{inside:.100}");
    let unknown = Winsize {
        ws_xpixel: 0,
        ws_ypixel: 0,
        ..size
    };
    assert!(terminal_gets(&folder, unknown, "xterm-kitty").contains('┤'));
}

/// What a terminal of this size gets.
fn on_terminal(folder: &Folder, columns: u16, rows: u16) -> String {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    terminal_gets(folder, size, "xterm")
}

fn terminal_gets(folder: &Folder, size: Winsize, term: &str) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = File::options().read(true).write(true).open(name).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["graph", "a.pcap"])
        .current_dir(&folder.0)
        .env("TERM", term)
        .env_remove("NO_COLOR")
        .env_remove("TERM_PROGRAM")
        .stdout(slave)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = Vec::new();
    // EIO: everyone has closed it.
    drop(File::from(master).read_to_end(&mut text));
    assert!(child.wait().unwrap().success());
    String::from_utf8(text).unwrap().replace("\r\n", "\n")
}

fn without_colors(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap().to_owned();
    first
        + &parts
            .map(|part| part.split_once('m').unwrap().1)
            .collect::<String>()
}
