//! Progress and summary of a capture on stderr.

use super::counts::Counts;
use super::target::Target;
use sockeye_console::notes;
use sockeye_model::counted;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// A status line on a terminal.
#[derive(Debug)]
pub(super) struct ProgressLine {
    next: Option<Instant>,
    is_shown: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            next: std::io::stderr().is_terminal().then(Instant::now),
            is_shown: false,
        }
    }

    /// Shows the counts, at most twice a second.
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
            let text = format!(
                "\r\x1b[Ksockeye: {}, {}{dropped}",
                counted(*captured, "packet"),
                size(bytes)
            );
            let _ = std::io::stderr().write_all(text.as_bytes());
            self.next = Some(now + INTERVAL);
            self.is_shown = true;
        }
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// Writes the counts at the end of a capture; if it ended because the file is full, only losses, since the error has the
/// other counts.
pub(super) fn summary(counts: &Counts, target: &Target, is_full: bool) {
    let Counts {
        written,
        passed,
        dropped,
        unreadable,
        ..
    } = *counts;
    let mut text = String::new();
    if !is_full {
        text.push_str(&format!(
            "sockeye: {} captured; {passed} received by filter; {dropped} dropped by kernel; {} in {target}\n",
            counted(written, "packet"),
            size(target.written())
        ));
    }
    if dropped > 0 {
        text.push_str(&format!(
            "sockeye: the kernel dropped {} because they arrived faster than they were written; a larger ring keeps more of a \
             burst (-B 128Mi), a smaller snaplen makes them shorter (-s 100), a filter reduces their number\n",
            counted(dropped, "packet")
        ));
    }
    if unreadable > 0 {
        text.push_str(&format!(
            "sockeye: {} in the kernel's ring could not be read, and are missing\n",
            counted(unreadable, "packet")
        ));
    }
    notes::say(&text);
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
    fn sizes_have_decimal_units() {
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1000), "1.0 kB");
        assert_eq!(size(12_345_678), "12.3 MB");
    }
}
