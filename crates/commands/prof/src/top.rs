//! `--top`: again and again what happened since the last look.

use super::{ProfArgs, layout, view};
use crate::output::push_profile;
use sockeye_console::stdout;
use sockeye_output::{Format, push_report};
use sockeye_profile::{Profile, ReportOptions};
use std::time::Duration;

/// Shows, every interval, what happened in it, and hands back the last look. A terminal is drawn anew each time; elsewhere
/// block follows block, and of JSON document follows document.
///
/// `look` is cumulative. `pause` waits, and tells whether to go on: nobody interrupted it, somebody still reads, the time is
/// not over, and those who are looked at still live.
pub(super) fn run(
    args: &ProfArgs,
    look: &mut dyn FnMut() -> anyhow::Result<Profile>,
    pause: &mut dyn FnMut(Duration) -> bool,
) -> anyhow::Result<Profile> {
    // Nothing: what a command did before the first look belongs to the first block.
    let mut before = Profile::default();
    let mut shown = 0_u64;
    loop {
        let goes_on = pause(args.interval);
        let now = look()?;
        // What is left when it ends is shown too, if there was any time for it.
        if goes_on || now.duration_ns > before.duration_ns {
            let height = stdout::size().and_then(|size| size.rows);
            stdout::write(&block(args, &now.since(&before), shown, height))?;
            shown += 1;
        }
        before = now;
        if !goes_on {
            return Ok(before);
        }
    }
}

/// What is written for one look: of CSV only the first one has headings.
fn block(args: &ProfArgs, profile: &Profile, shown: u64, height: Option<usize>) -> Vec<u8> {
    let mut layout = layout(args);
    let mut view = ReportOptions {
        rows: args.top.unwrap_or(ReportOptions::ROWS),
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
    // As many rows as there is room for: what they mean stands below them, and is to be seen as well.
    let room = height.saturating_sub(1).max(1);
    loop {
        let mut report = profile.report(&view);
        // Rows are left out on purpose, and all the time.
        report
            .sentences
            .retain(|sentence| sentence.code != "rows-left-out");
        report.sentences.truncate(SENTENCES_MAX);
        // The summary is a table like the others here: of a whole system it would leave no room for them.
        for table in report.tables.iter_mut().filter(|table| table.name == "time") {
            table.rows.truncate(view.rows.max(1));
        }
        text.clear();
        push_report(&mut text, &report, layout);
        if lines(&text, layout.width) <= room || view.rows <= 1 {
            break;
        }
        view.rows = view.rows.min(room).saturating_sub(1).max(1);
    }
    screen(&text, room, shown == 0)
}

/// A text over the whole terminal, as many lines as it has.
fn screen(text: &[u8], room: usize, is_first: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 256);
    out.extend_from_slice(if is_first { b"\x1b[2J\x1b[H" } else { b"\x1b[H" });
    for line in text.split(|&byte| byte == b'\n').take(room) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\x1b[0m\x1b[K\n");
    }
    out.extend_from_slice(b"\x1b[J");
    out
}

/// How many lines of a terminal it takes, colours not counted.
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

/// A screen has no room for all
const SENTENCES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use sockeye_profile::Syscall;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        args: ProfArgs,
    }

    fn typed(words: &str) -> ProfArgs {
        Typed::parse_from(std::iter::once("prof").chain(words.split_whitespace())).args
    }

    fn look(nth: u64) -> Profile {
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
    fn each_block_is_of_the_time_since() {
        let args = typed("-p 7 --top 3 --color never");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let first = text(block(&args, &look(3).since(&look(1)), 0, None));
        assert!(first.starts_with("prof: pid 7, for 2s"), "{first}");
        assert!(first.contains("max of run"), "{first}");
        assert!(first.contains("call_29     60 "), "{first}");
        assert!(!first.contains("call_26"), "{first}");
        let second = text(block(&args, &look(3), 1, None));
        assert!(second.starts_with("\nprof"), "{second}");
        let csv = typed("-p 7 --top 3 --format csv");
        let all = [0, 1].map(|nth| text(block(&csv, &look(1), nth, None)));
        assert_eq!(all.concat().matches("call,calls").count(), 1);
    }

    #[test]
    fn a_terminal_is_never_scrolled() {
        let args = typed("-p 7 --top 30 --color always");
        for height in 1..60 {
            let text = String::from_utf8(block(&args, &look(1), 1, Some(height))).unwrap();
            assert!(text.starts_with("\x1b[H") && text.ends_with("\x1b[J"), "{text:?}");
            assert!(text.matches('\n').count() < height.max(2), "{height}: {text}");
        }
        assert_eq!(lines(b"\x1b[2mab\x1b[0mcde\n\n12345", Some(5)), 3);
        assert_eq!(lines(b"123456", Some(5)), 2);
    }

    #[test]
    fn it_ends_with_the_last_look() {
        let args = typed("-p 7 --top 1 --format json");
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            Ok(Profile {
                duration_ns: 5,
                ..Profile::default()
            })
        };
        let last = run(&args, &mut look, &mut |_| false).unwrap();
        assert_eq!((last.duration_ns, looks), (5, 1));
    }
}
