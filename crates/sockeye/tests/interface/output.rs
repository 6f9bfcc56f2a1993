//! Closed, full and slow outputs.

use crate::fixtures::binary::{self, SOCKEYE, clean, command, ended, words, words_in};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use sockeye_lab::{Lab, MountNamespace, Namespace, Skip, need, wait_for, wait_until};
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

#[test]
fn closed_output_before_the_first_byte_exits_0() {
    for line in EVERYTHING {
        let (reader, writer) = io::pipe().expect("pipe");
        drop(reader);
        let outcome = ended(
            command()
                .args(line.split_whitespace())
                .stdout(writer)
                .stderr(Stdio::piped())
                .spawn()
                .expect("start"),
        );
        assert_eq!(outcome.quiet(), "", "{line}");
    }
}

#[test]
fn output_closed_in_the_middle_exits_0() {
    let lab = need!(Lab::new("closedpipe"));
    let here = lab.namespace("here");
    let _many = many(&here);
    for line in BIG {
        let (reader, child) = piped(&here, line);
        // Like `| head -1`.
        let mut reader = BufReader::with_capacity(64, reader);
        let mut first = String::new();
        reader.read_line(&mut first).expect("a line");
        assert!(first.len() > 1, "{line}");
        drop(reader);
        let outcome = ended(child);
        assert_eq!(outcome.quiet(), "", "{line}");
    }
}

#[test]
fn full_disk_is_a_named_error() {
    for line in EVERYTHING {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let outcome = ended(
            command()
                .args(line.split_whitespace())
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .expect("start"),
        );
        assert_eq!(
            outcome.failed(1),
            "sockeye: write to standard output: No space left on device (os error 28)\n",
            "{line}: {outcome}"
        );
    }
    // A usage error does not depend on stdout.
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let outcome = ended(
        command()
            .arg("--nonsense")
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .expect("start"),
    );
    assert_eq!(outcome.code, Some(2), "{outcome}");
}

#[test]
fn message_of_a_full_disk_has_the_bytes_that_are_in_the_file() {
    let site = need!(MountNamespace::new("size=16k"));
    let written = |line: &str| {
        let script =
            format!("{SOCKEYE} {line} >/run/file; status=$?; wc -c </run/file; rm /run/file; exit $status");
        let outcome = binary::run(&mut site.command("sh", &["-c", &script]));
        assert_eq!(outcome.code, Some(1), "{line}: {outcome}");
        let bytes = String::from_utf8_lossy(&outcome.stdout).trim().to_owned();
        let expected = format!(
            "sockeye: write to standard output: No space left on device (os error 28); the output is cut off after {bytes} bytes\n"
        );
        assert_eq!(outcome.error(), expected, "{line}");
        bytes.parse::<u64>().expect("a number")
    };
    for line in ["completions bash", "completions zsh"] {
        let bytes = written(line);
        assert!((1..=16 << 10).contains(&bytes), "{line}: {bytes}");
    }
}

#[test]
fn protocol_that_cannot_be_listed_is_a_failure() {
    let lab = need!(Lab::new("unlisted"));
    let here = lab.namespace("here");
    let doctor = words_in(&here, "doctor --format json").json();
    let sources = doctor["sources"].as_array().expect("sources");
    let missing: Vec<&str> = sources
        .iter()
        .filter(|one| one["source"] == "diag-v2" && one["works"] != "yes")
        .filter_map(|one| one["sockets"].as_str())
        // Kernels may lack these.
        .filter(|what| ["netlink", "packet", "unix", "raw", "udp", "tcp"].contains(what))
        .collect();
    if missing.is_empty() {
        return Skip::new("this kernel has all modules of sock_diag").print();
    }
    let outcome = words_in(&here, "sockets -an --source diag");
    assert_eq!(outcome.code, Some(1), "{outcome}");
    for what in missing {
        assert!(
            outcome
                .error()
                .contains(&format!("{what} sockets could not be listed")),
            "{outcome}"
        );
    }
    // Those that could be are there.
    assert!(outcome.stdout.starts_with(b"Netid"), "{outcome}");
    assert_eq!(
        words_in(&here, "sockets -tuan --source diag")
            .ok()
            .lines()
            .count(),
        1
    );
}

#[test]
fn disk_filled_in_the_middle_is_an_error() {
    let lab = need!(Lab::new("fulldisk"));
    let here = lab.namespace("here");
    let _many = many(&here);
    for line in BIG {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let mut command = command();
        command
            .args(line.split_whitespace())
            .stdout(full)
            .stderr(Stdio::piped());
        let outcome = ended(here.run(|| command.spawn()).expect("start"));
        assert!(
            outcome.failed(1).contains("No space left on device"),
            "{line}: {outcome}"
        );
    }
}

#[test]
fn closed_stdout_is_an_error_and_other_closed_descriptors_are_survived() {
    let others = [
        "check",
        "explain 'neighbour table overflow'",
        "analyze testdata/captures/fast_open.pcap",
        "graph testdata/captures/fast_open.pcap",
        "capture -i lo -d 0.05 -o -",
        "capture -i lo -d 0.05 -o /nonexistent/c.pcapng",
        "graph testdata/captures/fast_open.pcap -o /nonexistent/g.svg",
        "kill --yes 'dport = :9'",
        "kill --dry-run 'dport = :9'",
        "keepalive set --yes 'dport = :9'",
        "keepalive unset --yes 'dport = :9'",
        "keepalive attached",
        "keepalive attach --dry-run /",
        "keepalive detach --dry-run /",
        "keepalive run -- true",
        "ns add sockeye-never-created",
        "ns del sockeye-never-created",
        "ns set sockeye-never-created 7",
        "ns exec sockeye-never-created true",
        "ns pids sockeye-never-created",
        "ns list -1",
        "ns identify",
        "ns monitor",
        "check --list",
        "man /nonexistent",
        "bench serve --help",
        "bench rr 127.0.0.1",
        "prof --help",
        "lstf",
        "lstf --version",
        "ss -s",
        "ss -tan -D /nonexistent/d",
        "netstat -i",
        "netstat -s",
        "netstat --version",
        "bench memory --sizes 64 --methods memset --repeats 1 -d 0.05",
        "bench sources --sockets 10 --repeats 1",
        "prof -d 0.05 -p 1",
        "ns list",
        "keepalive list",
        "ss -t",
        "ss --help",
        "netstat -t",
    ];
    for line in EVERYTHING.iter().chain(&others) {
        let mut shell = std::process::Command::new("sh");
        binary::clean(&mut shell);
        shell.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        shell.args(["-c", &format!("exec \"$0\" {line} >&-"), binary::SOCKEYE]);
        let outcome = binary::run(&mut shell);
        assert!(
            outcome
                .failed(1)
                .contains("write to standard output: Bad file descriptor"),
            "{line}: {outcome}"
        );
    }
    // Nothing was begun.
    assert!(!std::path::Path::new("/run/netns/sockeye-never-created").exists());
    for redirection in ["<&-", "2>&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"] {
        for line in EVERYTHING {
            let mut shell = std::process::Command::new("sh");
            binary::clean(&mut shell);
            shell.args([
                "-c",
                &format!("exec \"$0\" {line} {redirection}"),
                binary::SOCKEYE,
            ]);
            let outcome = binary::run(&mut shell);
            if redirection.contains(">&- 2>&-") {
                assert_eq!(outcome.failed(1), "", "{line} {redirection}: {outcome}");
            } else if redirection.contains(" >") {
                outcome.failed(1);
            } else {
                assert!(!outcome.ok().is_empty(), "{line} {redirection}: {outcome}");
            }
        }
    }
}

#[test]
fn stderr_may_be_full_or_closed() {
    for line in ["flows -v", "sockets -v -t", "sockets -v --format json"] {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = command()
            .args(line.split_whitespace())
            .stderr(full)
            .output()
            .expect("start");
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(!output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn non_blocking_pipe_gets_all_output() {
    let lab = need!(Lab::new("nonblocking"));
    let here = lab.namespace("here");
    let _many = many(&here);
    for line in BIG {
        let expected = words_in(&here, line);
        let (mut reader, writer) = io::pipe().expect("pipe");
        let flags = rustix::fs::fcntl_getfl(&writer).expect("flags");
        rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).expect("flags");
        let full = writer.try_clone().expect("dup");
        let mut command = command();
        command
            .args(line.split_whitespace())
            .stdout(writer)
            .stderr(Stdio::piped());
        let mut child = here.run(|| command.spawn()).expect("start");
        drop(command);
        // Only after the pipe is full.
        wait_until("a full pipe", || {
            let mut polled = [rustix::event::PollFd::new(&full, rustix::event::PollFlags::OUT)];
            let writable = rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default()));
            writable == Ok(0) || child.try_wait().expect("wait").is_some()
        });
        drop(full);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).expect("read");
        let outcome = ended(child);
        assert_eq!(outcome.quiet(), "");
        assert_eq!(text.len(), expected.stdout.len(), "{line}");
    }
}

#[test]
fn watch_ends_as_soon_as_its_reader_does() {
    for line in [
        "flows -n -w 1000000",
        "-n -w 1000000 --format json",
        "-n -w 1000000 --format csv",
    ] {
        let (reader, child) = piped_here(line);
        let mut reader = BufReader::new(reader);
        let mut first = String::new();
        reader.read_line(&mut first).expect("a line");
        assert!(!first.is_empty());
        drop(reader);
        let mut child = child;
        wait_for("its end", || child.try_wait().expect("wait"));
        assert_eq!(ended(child).quiet(), "", "{line}");
    }
}

#[test]
fn watch_ends_after_count_samples() {
    let outcome = words("flows -n -w 0.01 --count 3");
    let headers = outcome
        .quiet()
        .lines()
        .filter(|line| line.starts_with("Local Address:Port"))
        .count();
    assert_eq!(headers, 3, "{outcome}");
}

#[test]
fn interrupted_watch_ends_at_once_with_complete_output() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (reader, mut child) = piped_here("flows -n -w 1000000 --format json");
        let mut reader = BufReader::new(reader);
        let mut text = String::new();
        // The first sample is complete with its document.
        while !text.ends_with("}\n") {
            assert!(reader.read_line(&mut text).expect("a line") > 0, "{text}");
        }
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).expect("signal");
        let status = wait_for("its end", || child.try_wait().expect("wait"));
        assert_eq!(status.signal(), Some(signal.as_raw()));
        reader.read_to_string(&mut text).expect("read");
        serde_json::from_str::<serde_json::Value>(&text).expect("one whole document");
        assert_eq!(ended(child).error(), "");
    }
}

#[test]
fn colours_are_only_for_terminals_and_change_no_text() {
    let lab = need!(Lab::new("colours"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for line in ["sockets -tan", "sockets -tanemoi", "flows -n", "flows -nis"] {
        let plain = words_in(&here, line);
        assert!(!plain.stdout.contains(&0x1b), "{plain}");
        let never = words_in(&here, &format!("{line} --color never"));
        assert_eq!(blurred(never.quiet()), blurred(plain.quiet()));
        let colored = words_in(&here, &format!("{line} --color always"));
        assert!(colored.stdout.contains(&0x1b), "{colored}");
        assert_eq!(blurred(&without_colors(colored.quiet())), blurred(plain.quiet()));
        // `--color always` also holds for files.
        let mut command = command();
        command
            .env("NO_COLOR", "1")
            .args(line.split_whitespace())
            .args(["--color", "always"]);
        assert!(here.run(|| binary::run(&mut command)).stdout.contains(&0x1b));
        for format in ["json", "jsonl", "csv"] {
            let outcome = words_in(&here, &format!("{line} --color always --format {format}"));
            assert!(!outcome.stdout.contains(&0x1b), "{outcome}");
        }
    }
}

/// Command lines of all commands that write to stdout.
const EVERYTHING: [&str; 14] = [
    "",
    "flows -n",
    "flows -n --format json",
    "flows -n --format csv",
    "sockets -an",
    "sockets -an --format json",
    "sockets -an --format csv",
    "sockets --columns help",
    "flows --columns help",
    "doctor",
    "completions bash",
    "--help",
    "help sockets",
    "--version",
];

/// Listings that do not fit into a pipe, of [`many`] sockets.
const BIG: [&str; 5] = [
    "sockets -uanem",
    "sockets -uanem --sort local",
    "sockets -uanem --format json",
    "sockets -uanem --format jsonl",
    "sockets -uanem --format csv",
];

/// More sockets than fit into the buffer of a pipe.
fn many(namespace: &Namespace) -> Vec<UdpSocket> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("raise the limit of open files");
    let open = || {
        (0..800)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("bind"))
            .collect()
    };
    namespace.run(open)
}

fn piped(namespace: &Namespace, line: &str) -> (PipeReader, Child) {
    namespace.run(|| piped_here(line))
}

fn piped_here(line: &str) -> (PipeReader, Child) {
    let (reader, writer) = io::pipe().expect("pipe");
    // Tests that run in the background may ignore ^C, and children inherit that.
    let mut command = Command::new("env");
    clean(&mut command);
    command
        .args(["--default-signal=HUP,INT,TERM", SOCKEYE])
        .args(line.split_whitespace())
        .stdin(Stdio::null())
        .stdout(writer.as_fd().try_clone_to_owned().expect("dup"))
        .stderr(Stdio::piped());
    (reader, command.spawn().expect("start"))
}

/// Without `ESC [ ... m`.
fn without_colors(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (_, rest) = piece.split_once('m').expect("a colour");
        plain.push_str(rest);
    }
    plain
}

/// Removes lines with times (details), and repeated blanks.
fn blurred(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| !line.starts_with("    "));
    let mut rows: Vec<_> = rows
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    rows.sort();
    rows
}
