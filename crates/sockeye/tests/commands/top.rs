//! `sockeye top` on a pseudo-terminal, and without one.

mod replay;

use crate::fixtures::binary::{SOCKEYE, clean, words, words_in};
use crate::fixtures::processes::holder;
use crate::fixtures::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::Termios;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Pair, need, wait_for};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The last bytes of a screen that is left.
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

#[test]
fn views_filter_and_details_follow_keys() {
    let lab = need!(Lab::new("topkeys"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let (client, server) = (pair.client.port(), pair.server.port());
    let mut top = Top::start(&here, 120, 24, "top -n -w 0.25");
    top.wait_for(&format!("--> 127.0.0.1:{server}"));
    top.press_for(b"2", "ESTAB");
    top.wait_for(&format!("127.0.0.1:{client}"));
    top.press_for(b"3", "UDP-sent/s");
    top.press_for(b"5", &format!("127.0.0.1:{server}"));
    top.press_for(b"2/sport = \r", "found the end of the expression");
    top.press_for(format!(":{client}\r").as_bytes(), "  1 socket  /sport = ");
    top.press_for(b"\r", "snd_cwnd");
    top.wait_for("held back by");
    top.press_for(b"\x1b", "Retrans/s");
    top.press_for(b"?", "double or halve");
    top.press_for(b"q", "q: end");
    top.press_for(b"p", "PAUSED");
    top.press(b"q");
    assert!(top.wait().success());
    top.assert_restored();
}

#[test]
fn closing_asks_and_closes_the_selected_connection_only() {
    let lab = need!(Lab::new("topkill"));
    let here = lab.namespace("here");
    // Not ours: the connections of this session are left out.
    let (holder, other) = (holder(&lab, &here), holder(&lab, &here));
    let line = format!("top -n -w 0.25 --view sockets pid = {} and rtt > 0", holder.pid());
    let mut top = Top::start(&here, 120, 24, &line);
    top.wait_for("ESTAB");
    top.press_for(b"k", "Close 127.0.0.1:");
    top.press_for(b"n", "nothing was changed");
    top.press_for(b"k", "Close 127.0.0.1:");
    // The title says "0 closed", too.
    top.press_for(b"y", "1 connection closed");
    top.press(b"q");
    assert!(top.wait().success());
    let connections = |pid: u32| {
        let listed = words_in(&here, &format!("sockets -tnH pid = {pid}"));
        listed.ok().lines().count()
    };
    assert_eq!((connections(holder.pid()), connections(other.pid())), (0, 2));
}

#[test]
fn keepalive_is_turned_on_for_the_selected_connection() {
    let lab = need!(Lab::new("topalive"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let filter = format!("sport = :{}", pair.client.port());
    let mut top = Top::start(&here, 120, 24, &format!("top -n -w 0.25 --view sockets {filter}"));
    top.wait_for("ESTAB");
    top.press_for(b"K", "Turn on keepalive for 127.0.0.1:");
    top.press_for(b"y", "1 connection");
    top.press(b"q");
    assert!(top.wait().success());
    let listed = words_in(&here, &format!("sockets -tnoH {filter}"));
    assert!(listed.ok().contains("keepalive"), "{listed}");
}

#[test]
fn signals_restore_the_terminal_and_end_the_program() {
    let lab = need!(Lab::new("topsignal"));
    let here = lab.namespace("here");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut top = Top::start(&here, 80, 24, "top -n");
        top.wait_for("q: end");
        let pid = Pid::from_child(&top.child);
        kill_process(pid, signal).expect("send a signal");
        assert_eq!(top.wait().signal(), Some(signal.as_raw()));
        top.assert_restored();
    }
    // The key sends no signal.
    let mut top = Top::start(&here, 80, 24, "top -n");
    top.wait_for("q: end");
    top.press(b"\x03");
    assert!(top.wait().success());
    top.assert_restored();
}

#[test]
fn resizes_and_pressed_keys_without_a_pause_end_in_the_right_screen() {
    let lab = need!(Lab::new("topstorm"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let mut top = Top::start(&here, 80, 24, "top -n -w 0.25");
    top.wait_for("q: end");
    for nth in 0..300_u16 {
        top.terminal.resize(1 + nth % 200, 1 + nth % 50);
        top.terminal.press(b"\x1b[B\x1b[A\t");
        if nth % 20 == 0 {
            top.terminal.read_some(&mut top.written);
        }
    }
    top.terminal.resize(40, 20);
    top.press_for(b"5", "5 li");
    // No key was lost: the last one, after 900 others, is acted upon.
    top.press(b"q");
    assert!(top.wait().success());
    top.assert_restored();
}

/// A terminal that shows nothing does not keep keys from being read.
#[test]
fn terminal_that_is_not_read_does_not_block_keys() {
    let lab = need!(Lab::new("topslow"));
    let here = lab.namespace("here");
    let _pairs: Vec<Pair> = (0..40).map(|_| here.loopback().established()).collect();
    let mut top = Top::start(&here, 200, 50, "top -n -w 0.25 --view sockets");
    // Frames fill the terminal's buffer; nothing is read.
    for _ in 0..200 {
        top.terminal.resize(199, 50);
        top.terminal.press(b"r");
        top.terminal.resize(200, 50);
    }
    top.terminal.press(b"q");
    let status = wait_for("the end of the program", || top.child.try_wait().expect("wait"));
    assert!(status.success(), "{status}");
}

#[test]
fn once_prints_rates_and_jsonl_follows_the_listings() {
    let lab = need!(Lab::new("toponce"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let server = pair.server.port();
    let outcome = words_in(&here, "top -n --once -w 0.1");
    let text = outcome.ok();
    assert!(
        text.contains("Sent/s") && text.contains(&format!("127.0.0.1:{server}")),
        "{text}"
    );
    let outcome = words_in(&here, "top -n --view sockets --format jsonl -c 2 -w 0.1");
    let lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let ends: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "sockets_summary")
        .collect();
    assert_eq!(ends.len(), 2, "{outcome}");
    let of_client = |line: &&Value| line["local"]["port"] == pair.client.port() && line["sample"] == 2;
    let row = lines.iter().find(of_client).expect("the client's socket");
    assert_eq!(row["rates"]["sent_bytes_per_s"], 0.0, "{row}");
}

/// The header of CSV does not depend on what is there.
#[test]
fn csv_has_all_columns() {
    let lab = need!(Lab::new("topcsv"));
    let here = lab.namespace("here");
    for (view, column) in [
        ("flows", "sent_bytes_per_s"),
        ("processes", "udp_sent_bytes_per_s"),
        ("listeners", "accept_backlog"),
        ("devices", "received_bytes_per_s"),
    ] {
        let header = |rows: &str| {
            let line = format!("top -n -w 0.1 --once --format csv --view {view}{rows}");
            let listed = words_in(&here, &line);
            listed.ok().lines().next().expect("a header").to_owned()
        };
        let empty = header("");
        assert!(empty.split(',').any(|name| name == column), "{empty}");
        let _pair = here.loopback().established();
        assert_eq!(header(""), empty);
        // Bytes of UDP are not known with a filter.
        assert_eq!(header(" dport = :443"), empty);
    }
    let devices = words_in(&here, "top -n -w 0.1 --once --view devices dport = :443");
    assert!(
        devices.to_string().contains("devices are not filtered"),
        "{devices}"
    );
}

#[test]
fn peers_have_the_places_of_a_database() {
    let lab = need!(Lab::new("topmmdb"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let _pair = lab.link(&client, &server).net_path().established();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/mmdb/lab.mmdb");
    let line = format!("top -n --once -w 0.1 --mmdb {file}");
    let table = words_in(&client, &line);
    assert!(
        table.ok().contains("Peer Place") && table.ok().contains("DE AS64512"),
        "{table}"
    );
    for (view, rows) in [("flows", "flows"), ("sockets", "sockets")] {
        let document = words_in(&client, &format!("{line} --view {view} --format json")).json();
        let peer = &document[rows][0]["peer"];
        assert_eq!(
            (&peer["country"], &peer["as_number"]),
            (&"DE".into(), &64512.into()),
            "{document:#}"
        );
    }
    let wrong = words_in(&client, "top --once --mmdb /proc/version");
    assert!(wrong.failed(1).contains("/proc/version is no MMDB"), "{wrong}");
}

#[test]
fn processes_have_their_bytes_of_udp() {
    let lab = need!(Lab::new("topudp"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let (receiving, sending, _connection) = here.run(|| {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (bind(), bind(), (listener.accept().unwrap(), client))
    });
    sending.connect(receiving.local_addr().unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    let outcomes = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                sending.send(&[7; 1000]).unwrap();
                assert_eq!(receiving.recv(&mut [0; 2000]).unwrap(), 1000);
            }
        });
        // Regression: in a namespace that was named, bytes of UDP had a row of their own.
        let named = format!("-N {}", here.name());
        let outcomes = ["", &named].map(|netns| {
            words_in(
                &here,
                &format!("top -n --view processes --once --format json -w 0.3 {netns}"),
            )
        });
        stop.store(true, Ordering::Relaxed);
        outcomes
    });
    for outcome in outcomes {
        let document = outcome.json();
        let rows = document["top_processes"].as_array().unwrap().iter();
        let mut ours = rows.filter(|row| row["process"]["pid"] == std::process::id());
        let (Some(row), None) = (ours.next(), ours.next()) else {
            panic!("{document:#}");
        };
        let rate = |key: &str| row[key].as_f64().unwrap();
        let (sent, received) = (rate("udp_sent_bytes_per_s"), rate("udp_received_bytes_per_s"));
        assert!(sent >= 1000.0, "{document:#}");
        assert!((0.9..1.1).contains(&(sent / received)), "{document:#}");
        assert!(row["connections"].as_u64() >= Some(2), "{document:#}");
    }
    // With a filter they are not known, and that is said.
    let outcome = words_in(&here, "top -n --view processes --once -w 0.05 dport = :1");
    assert!(outcome.error().contains("no bytes of UDP"), "{outcome}");
}

#[test]
fn names_are_observed_in_answers_of_dns_and_beginnings_of_tls() {
    let lab = need!(Lab::new("topdns"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    let (server, client) = here.run(|| {
        let bind = |address| UdpSocket::bind(address).unwrap();
        (bind("127.0.0.1:53"), bind("127.0.0.1:0"))
    });
    let mut top = Top::start(&here, 160, 24, "top -w 0.25 --view sockets");
    top.wait_for("ESTAB");
    // web.example has the address 127.0.0.1.
    let mut answer = vec![0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    answer.extend(b"\x03web\x07example\x00\x00\x01\x00\x01");
    answer.extend(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01");
    server.send_to(&answer, client.local_addr().unwrap()).unwrap();
    top.wait_for("dns:web.example:");
    let listener = here.run(|| TcpListener::bind("127.0.0.2:443").unwrap());
    let mut stream = here.run(|| TcpStream::connect("127.0.0.2:443").unwrap());
    stream.write_all(&client_hello("tls.example")).unwrap();
    top.wait_for("sni:tls.example:");
    drop((listener, stream));
    top.press(b"q");
    assert!(top.wait().success());
}

/// A ClientHello of TLS with the name of a server, and nothing else that is not needed.
fn client_hello(name: &str) -> Vec<u8> {
    let length = name.len() as u8;
    let mut extensions = vec![0, 0, 0, length + 5, 0, length + 3, 0, 0, length];
    extensions.extend(name.as_bytes());
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0, 0, extensions.len() as u8]);
    body.extend(&extensions);
    let mut record = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    record.extend(&body);
    record
}

#[test]
fn without_a_terminal_it_says_what_to_type() {
    let outcome = words("top");
    assert!(outcome.failed(2).contains("--once"), "{outcome}");
    let outcome = words("top --once dport = ");
    outcome.failed(2);
}

#[test]
fn colours_are_left_out_on_request() {
    let lab = need!(Lab::new("topcolor"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for (line, has_color) in [
        ("top -n --view sockets", true),
        ("top -n --view sockets --color never", false),
    ] {
        let mut top = Top::start(&here, 200, 24, line);
        top.wait_for("ESTAB");
        top.wait_for("RTT trend");
        top.press(b"q");
        top.wait();
        let text = top.text();
        // crossterm writes the colours of a terminal as 38;5;N.
        assert_eq!(text.contains("\x1b[38;5;"), has_color, "{line}: {text:?}");
    }
}

/// What is unknown is not taken; what can only be found out later never has the rows of another filter under its heading.
#[test]
fn filter_with_an_unknown_name_is_refused_or_has_no_rows() {
    let lab = need!(Lab::new("topnames"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let port = pair.client.port();
    let mut top = Top::start(&here, 120, 24, "top -n -w 0.25 --view sockets");
    top.wait_for(&format!("127.0.0.1:{port}"));
    for (typed, error) in [
        (
            "dport = :htttp",
            "^ expected a port number or the name of a known service after '=', found ':htttp'",
        ),
        ("uid = nosuchuser", "found 'nosuchuser'"),
        ("dev nosuchdev", "found 'nosuchdev'"),
    ] {
        top.press_for(format!("/{typed}").as_bytes(), error);
        // Still typing: Enter does not take it, and the rows are those without a filter.
        top.press_for(b"\r ", error);
        top.wait_for(&format!("127.0.0.1:{port}"));
        top.press_for(b"\x1b", "q: end");
    }
    top.press_for(b"/dst nosuch.invalid\r", "      ^^^^^^");
    let text = shown(&top.text());
    assert!(
        text.contains("/dst nosuch.invalid") && !text.contains("\\x0a"),
        "{text}"
    );
    assert!(!text.contains("127.0.0.1:"), "{text}");
    top.press_for(b"\x1b", &format!("127.0.0.1:{port}"));
    top.press(b"q");
    assert!(top.wait().success());
}

/// The finding that is listed is shown, with its evidence over the interval, and not all that its rule finds since the start.
#[test]
fn enter_on_a_finding_shows_the_evidence_with_which_it_is_listed() {
    let lab = need!(Lab::new("topfinding"));
    let here = lab.namespace("here");
    let ends = Arc::new(AtomicBool::new(false));
    let closed = here.run(|| UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()));
    let closed = closed.expect("find a port");
    let sender = std::thread::spawn({
        let (ends, socket) = (
            Arc::clone(&ends),
            here.run(|| UdpSocket::bind("127.0.0.1:0")).expect("bind"),
        );
        move || {
            while !ends.load(Ordering::Relaxed) {
                let _ = socket.send_to(b"x", closed);
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    });
    let mut top = Top::start(&here, 120, 24, "top -n -w 1 --view findings");
    top.wait_for("Datagrams came in for ports without a listener");
    top.press_for(b"\r", "UdpNoPorts");
    top.wait_for("since the last sample");
    let text = shown(&top.text());
    assert!(!text.contains("since the start"), "{text}");
    assert_eq!(text.matches("NOTICE").count(), 1, "{text}");
    top.press_for(b"\x1b", "for ports without a listener");
    top.press_for(b"e", "UdpNoPorts");
    ends.store(true, Ordering::Relaxed);
    sender.join().expect("send");
    top.press(b"\x1bq");
    assert!(top.wait().success());
}

/// Returns the lines that a screen of 200 x 50 characters shows after this was written.
fn shown(written: &str) -> String {
    let mut lines = vec![vec![' '; 200]; 50];
    let (mut row, mut column) = (0, 0);
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        if character != '\x1b' {
            if let Some(place) = lines
                .get_mut(row)
                .and_then(|line: &mut Vec<char>| line.get_mut(column))
            {
                *place = character;
            }
            column += 1;
            continue;
        }
        characters.next();
        let mut parameters = String::new();
        let last = characters.by_ref().find(|next| {
            let ends = next.is_ascii_alphabetic();
            if !ends {
                parameters.push(*next);
            }
            ends
        });
        let mut numbers = parameters
            .split(';')
            .map(|number| number.parse::<usize>().unwrap_or(1) - 1);
        match last {
            Some('H') => (row, column) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)),
            Some('J') => lines.iter_mut().for_each(|line| line.fill(' ')),
            _ => {}
        }
    }
    let lines = lines
        .iter()
        .map(|line| line.iter().collect::<String>().trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// The program on a terminal of its own.
struct Top {
    terminal: Terminal,
    child: Child,
    before: Termios,
    written: Vec<u8>,
}

impl Top {
    fn start(namespace: &Namespace, columns: u16, rows: u16, line: &str) -> Self {
        let terminal = Terminal::new(columns);
        terminal.resize(columns, rows);
        let mut command = Command::new("setsid");
        clean(&mut command);
        command
            .args(["--ctty", SOCKEYE])
            .args(line.split_whitespace())
            .env("LC_ALL", "C.UTF-8")
            .stdin(terminal.stdio())
            .stdout(terminal.stdio())
            .stderr(terminal.stdio());
        let before = terminal.modes();
        let child = namespace.run(|| command.spawn()).expect("start");
        Self {
            terminal,
            child,
            before,
            written: Vec::new(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written).into_owned()
    }

    /// Waits until the screen shows a text.
    fn wait_for(&mut self, text: &str) {
        wait_for(format!("{text:?}"), || {
            self.terminal.read_some(&mut self.written);
            shown(&self.text()).contains(text).then_some(())
        });
    }

    fn press(&self, keys: &[u8]) {
        self.terminal.press(keys);
    }

    /// Presses keys, and waits for what they make the screen show.
    fn press_for(&mut self, keys: &[u8], text: &str) {
        self.press(keys);
        self.wait_for(text);
    }

    fn wait(&mut self) -> ExitStatus {
        let status = wait_for("the end of the program", || {
            self.terminal.read_some(&mut self.written);
            self.child.try_wait().expect("wait")
        });
        let mut before = usize::MAX;
        while before != self.written.len() {
            before = self.written.len();
            self.terminal.read_some(&mut self.written);
        }
        status
    }

    /// The terminal has its modes, and what it showed before.
    fn assert_restored(&self) {
        let (now, before) = (self.terminal.modes(), &self.before);
        assert_eq!(
            (now.local_modes, now.input_modes),
            (before.local_modes, before.input_modes)
        );
        let text = self.text();
        assert!(text.ends_with(LEAVE), "{text:?}");
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
