//! The line on stderr that shows the progress of a transfer.

use crate::output::figures::bits;
use sockeye_load::stream::{Plan, Progress, Until};
use std::io::{IsTerminal, Write};

/// Progress of a transfer, on stderr if that is a terminal.
pub(super) struct ProgressLine {
    title: String,
    is_watched: bool,
    is_shown: bool,
}

impl ProgressLine {
    pub(super) fn new(plan: &Plan, number: u64, repeats: u64) -> Self {
        let amount = match plan.until {
            Until::Time(time) => format!(" of {} s", (time + plan.omit).as_secs_f64()),
            Until::Bytes(_) => " s".to_owned(),
        };
        let which = if repeats > 1 {
            format!(" ({number} of {repeats})")
        } else {
            String::new()
        };
        Self {
            title: format!("{amount}{which}"),
            is_watched: std::io::stderr().is_terminal(),
            is_shown: false,
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if !self.is_watched {
            return;
        }
        let mut text = format!(
            "\r\x1b[Ksockeye: {:.0}{}",
            progress.elapsed.as_secs_f64(),
            self.title
        );
        for (way, rate) in [
            ("sent", progress.sent_bytes_per_s),
            ("received", progress.received_bytes_per_s),
        ] {
            if let Some(rate) = rate {
                text.push_str(&format!(", {way} {}", bits(rate)));
            }
        }
        if let Some(segments) = progress.retransmitted_segs.filter(|&segments| segments > 0) {
            text.push_str(&format!(", {segments} retransmitted"));
        }
        self.is_shown = true;
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
