//! The progress line of reading a capture.

use sockeye_console::progress::Progress;
use sockeye_output::unit::Unit;
use sockeye_source::capture::ReadPosition;
use std::time::{Duration, Instant};

/// How far a capture has been read, on a terminal's stderr.
#[derive(Debug)]
pub(super) struct ReadProgress {
    line: Progress,
    begin: Instant,
}

impl ReadProgress {
    pub(super) fn begin() -> Self {
        Self {
            line: Progress::without_total("packets"),
            begin: Instant::now(),
        }
    }

    /// Shows the position, if the line is due.
    pub(super) fn show(&mut self, position: ReadPosition) {
        let begin = self.begin;
        self.line.update(|| text(position, begin.elapsed()));
    }
}

/// The text of the line: `45 %, 2.3GB of 5.1GB, 13722710 packets, 2.1 M/s, 3 s left`. The share and the time left need the length of a file.
fn text(position: ReadPosition, elapsed: Duration) -> String {
    let mut text = String::new();
    let file_len = position.file_len.filter(|len| *len > 0);
    // A file may grow while it is read.
    let share = file_len.map(|len| (position.bytes as f64 / len as f64).min(1.0));
    if let Some(share) = share {
        text.push_str(&format!("{:.0} %, ", (share * 100.0).floor()));
    }
    text.push_str(&format!("{}, {} packets", bytes_of(position), position.packets));
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 {
        let rate = position.packets as f64 / seconds;
        text.push_str(&format!(", {}/s", count(rate)));
    }
    if let Some(share) = share.filter(|share| *share > 0.0) {
        let left_s = (seconds / share - seconds).ceil();
        text.push_str(&format!(", {} left", duration(left_s as u64)));
    }
    text
}

/// Returns the bytes that were read: `2.3GB of 10.7GB`.
pub(super) fn bytes_of(position: ReadPosition) -> String {
    let mut out = Vec::new();
    Unit::Bytes.push(&mut out, position.bytes);
    if let Some(file_len) = position.file_len {
        out.extend_from_slice(b" of ");
        Unit::Bytes.push(&mut out, file_len);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn count(rate: f64) -> String {
    match rate {
        _ if rate >= 1e6 => format!("{:.1} M", rate / 1e6),
        _ if rate >= 1e4 => format!("{:.0} k", rate / 1e3),
        _ => format!("{rate:.0} packets"),
    }
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3_600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u64, file_len: Option<u64>, millis: u64, expected: &str) {
        let position = ReadPosition {
            packets: bytes / 100,
            bytes,
            file_len,
        };
        assert_eq!(text(position, Duration::from_millis(millis)), expected);
    }

    #[test]
    fn share_and_time_left_need_the_length_of_the_file() {
        check(
            250_000_000,
            Some(1_000_000_000),
            2_000,
            "25 %, 250MB of 1.0GB, 2500000 packets, 1.2 M/s, 6 s left",
        );
        check(250_000_000, None, 2_000, "250MB, 2500000 packets, 1.2 M/s");
    }

    #[test]
    fn file_that_grows_is_not_read_beyond_its_end() {
        check(
            2_000_000,
            Some(1_000_000),
            1_000,
            "100 %, 2.0MB of 1.0MB, 20000 packets, 20 k/s, 0 s left",
        );
    }

    #[test]
    fn long_times_are_in_minutes_and_hours() {
        check(
            1_000,
            Some(1_000_000),
            1_000,
            "0 %, 1000B of 1.0MB, 10 packets, 10 packets/s, 17 min left",
        );
        assert_eq!(
            (duration(119), duration(120), duration(7_200)),
            ("119 s".to_owned(), "2 min".to_owned(), "2 h".to_owned())
        );
    }
}
