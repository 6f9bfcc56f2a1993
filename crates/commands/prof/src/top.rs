//! `--watch`: reports every interval what happened in it.

use crate::args::ProfArgs;
use crate::layout::{layout, view};
use crate::output::push_profile;
use sockeye_console::{envelope, live, locale, stdout};
use sockeye_output::{Format, push_report};
use sockeye_profile::{Profile, ReportOptions};
use std::time::Duration;

/// Prints a report every interval and returns the last snapshot. A terminal is redrawn each time; any other output gets one
/// block (or JSON document) after the other.
///
/// `has_keys` says that `q` ends it. `snapshot` returns the cumulative profile. `pause` waits and returns whether to go on: false after a signal, at the end
/// of the time, or when all observed processes have ended.
pub(super) fn run(
    args: &ProfArgs,
    interval: Duration,
    has_keys: bool,
    snapshot: &mut dyn FnMut() -> anyhow::Result<Profile>,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> anyhow::Result<Profile> {
    // Empty: what a command did before the first snapshot belongs to the first block.
    let mut before = Profile::default();
    let mut shown = 0_u64;
    // What was not drawn, because we were in the background.
    let mut undrawn = None;
    loop {
        let goes_on = pause(interval);
        let now = snapshot()?;
        // The last, shorter interval is shown too, unless it is empty.
        if goes_on || now.duration_ns > before.duration_ns {
            let height = stdout::size().and_then(|size| size.rows);
            let height = height.filter(|_| live::has_screen());
            let seconds = now.duration_ns / 1_000_000_000;
            let title = live::title(&envelope::now(), interval, &format!("observed for {seconds} s"));
            let title = if has_keys {
                &title
            } else {
                title.trim_end_matches(live::END_HINT)
            };
            let profile = now.since(&before);
            undrawn = if height.is_some() && live::is_in_background() {
                Some(block(args, &profile, 0, title, None))
            } else {
                stdout::write(&block(args, &profile, shown, title, height))?;
                None
            };
            shown += 1;
        }
        before = now;
        if !goes_on || args.count.is_some_and(|count| shown >= count) {
            // It ends in the background, as any other command there: with its result.
            if let Some(text) = undrawn {
                stdout::write(&text)?;
            }
            return Ok(before);
        }
    }
}

/// Returns the text of one report; only the first CSV block has headings. `title` is the first line of a screen.
fn block(args: &ProfArgs, profile: &Profile, shown: u64, title: &str, height: Option<usize>) -> Vec<u8> {
    let mut layout = layout(args);
    layout.sample = Some(shown + 1);
    let mut view = ReportOptions {
        is_part: true,
        ..view(args)
    };
    let mut text = Vec::new();
    let Some(height) = height.filter(|_| layout.format == Format::Table) else {
        layout.no_header |= layout.format == Format::Csv && shown > 0;
        if layout.format == Format::Table && shown > 0 {
            text.push(b'\n');
        }
        push_profile(&mut text, profile, &view, layout);
        return text;
    };
    // As many rows as fit: the sentences below the tables must stay visible too.
    let height = height.saturating_sub(2).max(1);
    if view.rows == 0 {
        view.rows = height;
    }
    loop {
        let mut report = profile.report(&view);
        // Rows are left out on purpose in every block: that sentence would only take space.
        report
            .sentences
            .retain(|sentence| sentence.code != "rows-left-out");
        report.sentences.truncate(SENTENCES_MAX);
        // The summary of a whole system would fill the screen: it is cut like the other tables.
        for table in report.tables.iter_mut().filter(|table| table.name == "time") {
            table.rows.truncate(view.rows.max(1));
        }
        text.clear();
        push_report(&mut text, &report, layout);
        if lines(&text, layout.width) <= height || view.rows <= 1 {
            break;
        }
        view.rows = view.rows.min(height).saturating_sub(1).max(1);
    }
    let columns = layout.width.unwrap_or(usize::MAX);
    let title = live::fit_title(title, columns, locale::has_unicode());
    let title: String = title.chars().take(columns).collect();
    let text = [title.as_bytes(), b"\n", &text].concat();
    screen(&text, height + 1, shown == 0)
}

/// Returns the escape sequences that redraw the terminal with the first `height` lines of a text.
fn screen(text: &[u8], height: usize, is_first: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 256);
    out.extend_from_slice(if is_first { b"\x1b[2J\x1b[H" } else { b"\x1b[H" });
    for line in text.split(|&byte| byte == b'\n').take(height) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\x1b[0m\x1b[K\n");
    }
    out.extend_from_slice(b"\x1b[J");
    out
}

/// Returns how many lines of a terminal `width` columns wide the text takes, without its colours.
fn lines(text: &[u8], width: Option<usize>) -> usize {
    let width = width.unwrap_or(usize::MAX).max(1);
    let text = String::from_utf8_lossy(text);
    let columns = |line: &str| {
        let (mut columns, mut in_color) = (0_usize, false);
        for character in line.chars() {
            match (in_color, character) {
                (false, '\x1b') => in_color = true,
                (true, 'm') => in_color = false,
                (true, _) => {}
                (false, _) => columns += 1,
            }
        }
        columns
    };
    text.lines()
        .map(|line| columns(line).div_ceil(width).max(1))
        .sum()
}

/// The most sentences below the tables: a screen is small.
const SENTENCES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use sockeye_profile::Syscall;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ProfArgs,
    }

    fn parsed(words: &str) -> ProfArgs {
        Line::parse_from(std::iter::once("prof").chain(words.split_whitespace())).args
    }

    fn snapshot(nth: u64) -> Profile {
        let call = |name: &str, calls: u64| Syscall {
            pid: 7,
            name: name.to_owned(),
            calls,
            total_ns: calls * 1_000,
            max_ns: 5_000,
            ..Syscall::default()
        };
        Profile {
            target: "pid 7".to_owned(),
            duration_ns: nth * 1_000_000_000,
            syscalls: Some(
                (0..30)
                    .map(|one| call(&format!("call_{one}"), nth * (one + 1)))
                    .collect(),
            ),
            ..Profile::default()
        }
    }

    #[test]
    fn block_covers_one_interval() {
        let args = parsed("-p 7 -w 1 --top 3 --color never");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let first = text(block(&args, &snapshot(3).since(&snapshot(1)), 0, "", None));
        assert!(first.starts_with("prof: pid 7, for 2s"), "{first}");
        assert!(first.contains("max of run"), "{first}");
        assert!(first.contains("call_29     60 "), "{first}");
        assert!(!first.contains("call_26"), "{first}");
        let second = text(block(&args, &snapshot(3), 1, "", None));
        assert!(second.starts_with("\nprof"), "{second}");
        let csv = parsed("-p 7 -w 1 --top 3 --format csv");
        let all = [0, 1].map(|nth| text(block(&csv, &snapshot(1), nth, "", None)));
        assert_eq!(all.concat().matches("call,calls").count(), 1);
        let lines: Vec<&str> = all.iter().flat_map(|text| text.lines()).collect();
        assert!(
            lines[0].starts_with("time,sample,") || lines[0].starts_with("time,host,sample,"),
            "{lines:?}"
        );
        for (format, first) in [("json", "\"type\":\"prof\""), ("jsonl", "\"type\":\"prof_row\"")] {
            let args = parsed(&format!("-p 7 -w 1 --format {format}"));
            for nth in [0, 1] {
                let text = text(block(&args, &snapshot(1), nth, "", None));
                let sample = format!("\"sample\":{},", nth + 1);
                assert!(
                    text.contains(first) && text.lines().all(|line| line.contains(&sample)),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn block_never_exceeds_terminal_height() {
        let args = parsed("-p 7 -w 1 --top 30 --color always");
        for height in 1..60 {
            let text = String::from_utf8(block(
                &args,
                &snapshot(1),
                1,
                "12:00:00  web  every 1 s",
                Some(height),
            ))
            .unwrap();
            assert!(
                text.starts_with("\x1b[H12:00:00  web  every 1 s\x1b") && text.ends_with("\x1b[J"),
                "{text:?}"
            );
            assert!(text.matches('\n').count() < height.max(3), "{height}: {text}");
        }
        assert_eq!(lines(b"\x1b[2mab\x1b[0mcde\n\n12345", Some(5)), 3);
        assert_eq!(lines(b"123456", Some(5)), 2);
    }

    #[test]
    fn run_returns_last_snapshot() {
        let args = parsed("-p 7 -w 1 --format json");
        let mut snapshots = 0;
        let mut take = || {
            snapshots += 1;
            Ok(Profile {
                duration_ns: 5,
                ..Profile::default()
            })
        };
        let last = run(&args, Duration::from_secs(1), false, &mut take, &mut |_| false).unwrap();
        assert_eq!((last.duration_ns, snapshots), (5, 1));
    }
}
