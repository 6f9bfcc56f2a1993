//! What a capture tells on stderr.

use super::session::Counts;
use super::target::Target;
use sockeye_console::notes;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The line that grows while packets come, on a terminal.
#[derive(Debug)]
pub(super) struct Line {
    next: Option<Instant>,
    is_shown: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self {
            next: std::io::stderr().is_terminal().then(Instant::now),
            is_shown: false,
        }
    }

    /// Says how it stands, once in a while.
    pub(super) fn show(&mut self, counts: &Counts, bytes: u64) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now >= next) {
            let Counts {
                captured, dropped, ..
            } = counts;
            let dropped = match dropped {
                0 => String::new(),
                dropped => format!(", {dropped} dropped"),
            };
            let text = format!("\r\x1b[Ksockeye: {captured} packets, {}{dropped}", size(bytes));
            let _ = std::io::stderr().write_all(text.as_bytes());
            self.next = Some(now + INTERVAL);
            self.is_shown = true;
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// The figures at the end.
pub(super) fn summary(counts: &Counts, target: &Target) {
    let Counts {
        captured,
        passed,
        dropped,
        unreadable,
        ..
    } = *counts;
    let mut text = format!(
        "sockeye: {}; {passed} received by filter; {dropped} dropped by kernel; {} in {target}\n",
        counted(captured, "packet captured", "packets captured"),
        size(target.written())
    );
    if dropped > 0 {
        text.push_str(&format!(
            "sockeye: the kernel dropped {} as they came faster than they could be written; a larger ring keeps more of a \
             burst (-B 128Mi), a smaller snaplen makes less of each (-s 100), a filter fewer of them\n",
            counted(dropped, "packet", "packets")
        ));
    }
    if unreadable > 0 {
        text.push_str(&format!(
            "sockeye: {} in the kernel's ring made no sense, and are missing\n",
            counted(unreadable, "packet", "packets")
        ));
    }
    notes::say(&text);
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    let unit = units.iter().find(|(scale, _)| bytes >= *scale);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(scale, name)| format!("{:.1} {name}", bytes as f64 / *scale as f64),
    )
}

const INTERVAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1000), "1.0 kB");
        assert_eq!(size(12_345_678), "12.3 MB");
    }
}
