//! Captures that are far longer than what they contain: sparse files, compression bombs, pipes without an end. Reading them
//! shows its progress on a terminal, and a signal ends it with what was read so far.

use super::analyze_files::Folder;
use crate::fixtures::binary::{self, wait_for_sigint_handler};
use crate::fixtures::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::wait_within;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LEN: u64 = 10 << 30;

/// Samples with one TCP connection, as pcap and as pcapng.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The text that a thread has read so far, and the thread.
struct Screen {
    text: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Screen {
    fn of(terminal: Terminal) -> Self {
        let (mut main, text) = (terminal.into_main(), Arc::new(Mutex::new(Vec::new())));
        let shared = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match main.read(&mut buffer) {
                    Ok(len @ 1..) => shared.lock().unwrap().extend_from_slice(&buffer[..len]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => return,
                }
            }
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    fn rest(self) -> String {
        self.reader.join().unwrap();
        String::from_utf8(Arc::into_inner(self.text).unwrap().into_inner().unwrap()).unwrap()
    }
}

/// Runs a command on a terminal, waits for its progress line, sends a signal, and returns its stdout and the text on the
/// terminal.
#[track_caller]
fn interrupted(command: &mut Command, progress: &str, signal: Signal) -> (String, String) {
    let terminal = Terminal::new(200);
    command.stdout(Stdio::piped()).stderr(terminal.stdio());
    let begun = Instant::now();
    let mut child: Child = command.spawn().unwrap();
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut stdout = child.stdout.take().unwrap();
    let reading = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).unwrap();
        text
    });
    let screen = Screen::of(terminal);
    wait_within(Duration::from_secs(60), "a progress line", || {
        let text = screen.text();
        (text.contains(progress) || child.try_wait().unwrap().is_some()).then_some(())
    });
    assert!(begun.elapsed() >= Duration::from_millis(900), "too early");
    kill_process(Pid::from_child(&child), signal).unwrap();
    let asked = Instant::now();
    let status = child.wait().unwrap();
    let took = asked.elapsed();
    let (stdout, stderr) = (reading.join().unwrap(), screen.rest());
    assert!(stderr.contains(progress), "{stderr}");
    assert_eq!(status.code(), Some(128 + signal.as_raw()), "{stderr}");
    // A pipe is read for another second.
    assert!(took < Duration::from_secs(20), "{took:?}");
    // The progress line is removed before the report.
    assert!(stderr.contains("\r\x1b[K"), "{stderr:?}");
    (stdout, stderr)
}

/// Whether the JSON of `analyze` says that it is incomplete, and has the connection that came before the endless part.
#[track_caller]
fn assert_incomplete(stdout: &str, packets_min: u64) {
    let document: Value = serde_json::from_str(stdout).unwrap();
    assert_eq!(document["is_interrupted"], true, "{document}");
    assert_eq!(
        document["connections"].as_array().map(Vec::len),
        Some(1),
        "{document}"
    );
    assert!(document["packets"].as_u64() >= Some(packets_min), "{document}");
}

fn analyze(path: &Path) -> Command {
    let mut command = binary::command();
    command.args(["analyze", "--format", "json"]).arg(path);
    command
}

/// A pcap file with the packets of a sample, without its end.
fn pcap_of_sample() -> Vec<u8> {
    use sockeye_wire::packet::pcap;
    let mut bytes = Vec::new();
    let mut capture = sockeye_source::capture::Capture::open(&sample("samples/slow.pcapng")).unwrap();
    while let Some(packet) = capture.next().unwrap() {
        if bytes.is_empty() {
            pcap::header(&mut bytes, packet.link_type, 0, pcap::Resolution::Nanoseconds);
        }
        pcap::packet(
            &mut bytes,
            pcap::Resolution::Nanoseconds,
            packet.time_ns,
            packet.captured,
            packet.original_len,
        );
    }
    bytes
}

#[test]
fn sparse_capture_of_10_gb_can_be_interrupted() {
    let folder = Folder::new("an_sparse");
    let path = folder.join("sparse.pcap");
    let mut file = File::create(&path).unwrap();
    file.write_all(&pcap_of_sample()).unwrap();
    file.set_len(LEN).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (stdout, stderr) = interrupted(&mut analyze(&path), "B of 10.7GB, ", signal);
        assert_incomplete(&stdout, 700);
        assert!(stderr.contains("interrupted: only the first "), "{stderr}");
        assert!(stderr.contains("B of 10.7GB\r\n"), "{stderr}");
    }
    let picture = folder.join("sparse.svg");
    let mut command = binary::command();
    command.arg("graph").arg("-o").arg(&picture).arg(&path);
    let (_, stderr) = interrupted(&mut command, "B of 10.7GB, ", Signal::INT);
    assert!(stderr.contains("the part that was read is drawn"), "{stderr}");
    assert!(std::fs::read_to_string(&picture).unwrap().contains("</svg>"));
    // With two captures, the part that was read is compared.
    let mut command = analyze(&sample("samples/slow.pcapng"));
    command.arg(&path);
    let (stdout, _) = interrupted(&mut command, "B of 10.7GB, ", Signal::INT);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["captures"][0]["is_interrupted"], false, "{document}");
    assert_eq!(document["captures"][1]["is_interrupted"], true, "{document}");
}

/// Blocks that are no packets: nothing is counted, and still there is progress.
#[test]
fn pcapng_without_packets_can_be_interrupted() {
    let folder = Folder::new("an_blocks");
    let path = folder.join("blocks.pcapng");
    std::fs::copy(sample("samples/slow.pcapng"), &path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let mut offset = file.metadata().unwrap().len();
    while offset < LEN {
        let [kind, len] = [0x7777, BLOCK_LEN].map(u32::to_le_bytes);
        file.write_all_at(&[kind, len].concat(), offset).unwrap();
        offset += u64::from(BLOCK_LEN);
        file.write_all_at(&len, offset - 4).unwrap();
    }
    let (stdout, stderr) = interrupted(&mut analyze(&path), "B of 10.7GB, 706 packets", Signal::INT);
    assert_incomplete(&stdout, 706);
    assert!(stderr.contains("706 packets were read"), "{stderr}");
}

/// Length of a block of an unknown type, in bytes: nearly the longest that is accepted.
const BLOCK_LEN: u32 = 15 << 20;

#[test]
fn compression_bombs_can_be_interrupted() {
    let folder = Folder::new("an_bombs");
    for (program, arguments) in [("gzip", "-1"), ("zstd", "-q -1")] {
        if sockeye_lab::program(program).is_err() {
            eprintln!("not tested: {program}");
            continue;
        }
        let path = folder.join(program);
        let mut compressor = Command::new(program)
            .args(arguments.split(' '))
            .stdin(Stdio::piped())
            .stdout(File::create(&path).unwrap())
            .spawn()
            .unwrap();
        let mut input = compressor.stdin.take().unwrap();
        input.write_all(&pcap_of_sample()).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..1024 {
            input.write_all(&zeros).unwrap();
        }
        drop(input);
        assert!(compressor.wait().unwrap().success());
        let (stdout, stderr) = interrupted(&mut analyze(&path), " packets", Signal::INT);
        assert_incomplete(&stdout, 700);
        assert!(stderr.contains("interrupted: only the first "), "{stderr}");
    }
}

#[test]
fn endless_pipe_can_be_interrupted() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let writing = thread::spawn(move || {
        writer.write_all(&pcap_of_sample()).unwrap();
        let zeros = vec![0; 1 << 16];
        while writer.write_all(&zeros).is_ok() {}
    });
    let mut command = analyze("-".as_ref());
    command.stdin(reader);
    let (stdout, stderr) = interrupted(&mut command, " packets", Signal::TERM);
    drop(command);
    assert_incomplete(&stdout, 700);
    assert!(!stderr.contains(" of 10.7GB"), "{stderr}");
    writing.join().unwrap();
}

/// Until a FIFO has a writer, opening it waits.
#[test]
fn fifo_without_writer_can_be_interrupted() {
    let folder = Folder::new("an_fifo");
    let path = folder.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut child = analyze(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_sigint_handler(child.id());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("interrupted before anything came from"),
        "{stderr}"
    );
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let folder = Folder::new("an_quiet");
    let path = folder.join("sparse.pcap");
    let mut file = File::create(&path).unwrap();
    file.write_all(&pcap_of_sample()).unwrap();
    file.set_len(LEN).unwrap();
    let child = analyze(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_sigint_handler(child.id());
    // Longer than the time after which a terminal shows it.
    thread::sleep(Duration::from_millis(1500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        !stderr.contains('\r') && stderr.contains("interrupted"),
        "{stderr:?}"
    );
}
