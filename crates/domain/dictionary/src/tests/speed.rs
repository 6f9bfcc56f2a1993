//! Speed of the whole, for a release build: `cargo test --release -p sockeye-dictionary -- --ignored --nocapture speed`.

use sockeye_dictionary::Dictionary;
use std::fs;
use std::time::{Duration, Instant};

/// 100 MB in 1.5 s and 20 MB of memory, and 10 ms to begin.
#[test]
#[ignore = "a figure of release builds"]
fn speed_of_a_large_log_is_within_its_limits() {
    let begun = Instant::now();
    let dictionary = Dictionary::new();
    let parsed = begun.elapsed();
    let mut log = dictionary.log();
    let ready = begun.elapsed();
    let mut lines = Vec::new();
    for nth in 0..10_000 {
        let line = match nth % 10 {
            0 => format!(
                "[{nth}.500000] TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies."
            ),
            1 => format!(
                "[{nth}.500000] audit: type=1400 audit(1700000000.{nth}:17): apparmor=\"ALLOWED\" operation=\"open\" profile=\"x\""
            ),
            2 => format!(
                "[{nth}.500000] e1000e 0000:00:1f.6 eth{}: NIC Link is Down",
                nth % 7
            ),
            3 => format!("Nov 20 12:00:00 web-1 systemd[1]: Started session {nth} of user root."),
            4 => format!(
                "Nov 20 12:00:00 web-1 kernel: [{nth}.500000] usb 1-4: new high-speed USB device number 5 using xhci_hcd"
            ),
            5 => format!(
                "2026-11-20T12:00:00.123456+00:00 web-1 sshd[812]: Accepted publickey for root from 192.0.2.1 port {nth} ssh2"
            ),
            6 => format!("[{nth}.500000] br0: port 2(veth{nth}) entered forwarding state"),
            7 => format!(
                "[{nth}.500000] Memory cgroup out of memory: Killed process {nth} (java) total-vm:1234kB, anon-rss:999kB"
            ),
            8 => format!(
                "[{nth}.500000] ata1.00: exception Emask 0x0 SAct 0x{nth:x} SErr 0x0 action 0x6 frozen"
            ),
            _ => format!(
                "[{nth}.500000] IPv4: martian source 10.0.0.{} from 192.0.2.1, on dev eth0",
                nth % 250
            ),
        };
        lines.push(line.into_bytes());
    }
    let before = peak_kb();
    let begun = Instant::now();
    let mut bytes = 0;
    while bytes < 100_000_000 {
        for line in &lines {
            log.line(line);
            bytes += line.len() + 1;
        }
    }
    log.finish();
    let took = begun.elapsed();
    let memory = peak_kb();
    println!(
        "parsed in {parsed:?}, ready in {ready:?}; {} lines, {bytes} bytes in {took:?}; {memory} kB, {before} kB before; {:?}",
        log.count().lines,
        log.count()
    );
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    assert!(ready < Duration::from_millis(10), "{ready:?}");
    assert!(memory < 20_000, "{memory} kB");
}

/// The most memory that this process had.
fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
