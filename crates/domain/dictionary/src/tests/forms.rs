//! Every example of every message, in every form of a log: the form never costs a match.

use crate::files::examples;
use sockeye_dictionary::Dictionary;

/// What stands before a message, by the tool that writes it.
const PREFIXES: &[&str] = &[
    "",
    // dmesg: default, -T, --time-format iso, reltime, delta, raw, -x with each
    "[12345.678901] ",
    "[    5.678901] ",
    "[Fri Nov 20 12:00:00 2026] ",
    "[Fri Nov  6 12:00:00 2026] ",
    "2026-11-20T12:00:00,123456+00:00 ",
    "[Nov20 12:00] ",
    "[  +0.000012] ",
    "[  +0,000012] ",
    "[12345.678901 <    0.000012>] ",
    "[Fri Nov 20 12:00:00 2026 <    0.000012>] ",
    "[<    0.000012>] ",
    "[<    0,000012>] ",
    "[Mo Nov 20 12:00:00 2026] ",
    "[lun. nov. 20 12:00:00 2026] ",
    "[Пт ноя  6 12:00:00 2026] ",
    "[五 11月  6 12:00:00 2026] ",
    "<4>[12345.678901] ",
    "kern  :warn  : [12345.678901] ",
    "kern  :err   : [Fri Nov 20 12:00:00 2026] ",
    "kern  :info  : 2026-11-20T12:00:00,123456+00:00 ",
    "kern  :notice: [  +0.000012] ",
    "<4>[12345.678901] [ T1234] ",
    "[12345.678901][    C0] ",
    "\u{1b}[32m[12345.678901] \u{1b}[0m",
    "\u{1b}[32mkern  :warn  : \u{1b}[0m\u{1b}[32m[12345.678901] \u{1b}[0m",
    // /dev/kmsg and netconsole
    "4,1234,5678901,-;",
    "4,1234,5678901,-,caller=T1;",
    "4,1234,5678901,c;",
    "6.18.0,4,1234,5678901,-;",
    // journalctl
    "Nov 20 12:00:00 web-1 kernel: ",
    "Nov 20 12:00:00.123456 web-1 kernel: ",
    "2026-11-20T12:00:00+0000 web-1 kernel: ",
    "2026-11-20T12:00:00.123456+00:00 web-1 kernel: ",
    "Fri 2026-11-20 12:00:00 UTC web-1 kernel: ",
    "Fri 2026-11-20 12:00:00.123456 CEST web-1 kernel: ",
    "[12345.678901] web-1 kernel: ",
    "1700000000.123456 web-1 kernel: ",
    "MESSAGE=",
    "    MESSAGE=",
    // syslog
    "<4>Nov 20 12:00:00 web-1 kernel: ",
    "<4>Nov  3 12:00:00 web-1 kernel: [    5.678901] ",
    "Nov 20 12:00:00 kernel: ",
    "Nov 20 12:00:00 kernel: [12345.678901] ",
    "Nov 20 2026 12:00:00 web-1 kernel: ",
    "<4>1 2026-11-20T12:00:00Z web-1 kernel - - - ",
    "<4>1 2026-11-20T12:00:00.123456+01:00 web-1 kernel 0 - [a@1 b=\"c\"] \u{feff}",
    "1 2026-11-20T12:00:00Z web-1 kernel - - - [12345.678901] ",
    "kernel: ",
    "kernel:[12345.678901] ",
    "Nov 20 12:00:00 web-1 kernel:[12345.678901] ",
    "2026-11-20T12:00:00.123456+00:00 web-1 kernel:[12345.678901] ",
    "Nov 20 12:00:00 web-1 kern.warn kernel: [12345.678901] ",
    "Fri Nov 20 12:00:00 2026 kern.warn kernel: [12345.678901] ",
    "2026-11-20 12:00:00 web-1 kernel: ",
    "2026/11/20 12:00:00.123456 [12345.678901] ",
    // containers
    "10.5.0.2: kern: warning: [2026-11-20T12:00:00.123456789Z]: ",
    "10.5.0.2: kern:    info: [2026-11-20T12:00:00.123456789Z]: ",
    "2026-11-20T12:00:00.123456789Z ",
    "2026-11-20T12:00:00.123456789Z stdout F ",
    "2026-11-20T12:00:00.123456789Z stderr F [12345.678901] ",
    "[pod/monitor-x7/monitor] [12345.678901] ",
    "[pod/monitor-x7/monitor] I1120 12:00:00.123456       1 log_monitor.go:111] ",
    "web-1  | ",
    "web-1  | [12345.678901] ",
    // Android
    "11-20 12:00:00.123  1234  1234 W kernel  : ",
    "11-20 12:00:00.123     0     0 W         : ",
    "11-20 12:00:00.123  root     0     0 E kernel  : [12345.678901] ",
    "W/kernel  ( 1234): ",
    "W/        (    0): ",
    "11-20 12:00:00.123 W/kernel  (    0): ",
    "<6>[   12.345678]  [3:  kworker/3:1: 1234] ",
    "<6>[   12.345678] I[0:      swapper/0:    1] ",
    "<4>[   12.345678] (2)[1234:kworker/2:1]",
    "[   12.345678].(0)[7:kworker/u4:0]",
    "[   12.345678@2] ",
    "[   12.345678@0]- ",
    "[   12.345678,2] ",
    "[   12.345678] c2   1234 ",
    "[   12.345678] (CPU:2-pid:1234:kworker/2:1) ",
    "<4>[   12.345678] -(0)[0:swapper/0]",
    "<4>[   12.345678][pid:1234,cpu2,kworker/2:1,0]",
    "[   12.345678] [20261120_12:00:00.123456]@2 ",
    // mail, pages, consoles, grep
    "   12.345678] ",
    "Nov 20 12:00:00 web-1 kernel: 12.345678] ",
    "12:00:00 kernel: ",
    "12:00:00.123 web-1 kernel: [12345.678901] ",
    // dates of other languages
    "giu 13 12:00:00 web-1 kernel: ",
    "Mär  3 12:00:00 web-1 kernel: [    5.678901] ",
    "нояб. 20 12:00:00 web-1 kernel: ",
    "11月 20 12:00:00 web-1 kernel: ",
    "20 août 12:00:00 web-1 kernel: ",
    "> ",
    "> > [12345.678901] ",
    ">> Nov 20 12:00:00 web-1 kernel: ",
    "| [12345.678901] ",
    "web-1 login: [12345.678901] ",
    "[2026-11-20 12:00:00.123] [   12.345678] ",
    "[2026-11-20T12:00:00.123] [   12.345678] ",
    "Nov 20 12:00:00 [   12.345678] ",
    "/var/log/kern.log:Nov 20 12:00:00 web-1 kernel: ",
    "kern.log.1:1234:Nov 20 12:00:00 web-1 kernel: [12345.678901] ",
    "1234:[12345.678901] ",
    "&lt;4&gt;[12345.678901] ",
    "* [12345.678901] ",
    "Nov 20 12:00:00 web-1 klogd: ",
    "Nov 20 12:00:00 web-1 logger: [12345.678901] ",
    "Nov 20 12:00:00 web-1 syslog: kernel: ",
    "2026-11-20T12:00:00.1234567Z ",
    "^[[33m[12345.678901] ^[[0m",
    "- [12345.678901] ",
    "<code>[12345.678901] ",
    "Nov 20, 2026 @ 12:00:00.000 web-1 kernel: ",
    "Nov 20, 2026 @ 12:00:00.000 ",
    "2026-11-20T12:00:00.123456+00:00 web-1 kernel [12345.678901] ",
    "\u{feff}[12345.678901] ",
];

type Change = fn(&str) -> String;

/// Changes of the message itself.
const CHANGES: &[(&str, Change)] = &[
    ("nothing", str::to_owned),
    ("carriage return", |body| format!("{body}\r")),
    ("last dot lost", |body| body.trim_end_matches('.').to_owned()),
    ("blanks collapsed", |body| {
        body.split_whitespace().collect::<Vec<_>>().join(" ")
    }),
    ("blanks doubled", |body| body.replace(' ', "  ")),
    ("typographic quotation marks", |body| {
        body.replace('\'', "\u{2019}")
            .replacen('"', "\u{201c}", 1)
            .replace('"', "\u{201d}")
            .replace(" -- ", " \u{2014} ")
    }),
    ("entities", |body| {
        body.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
    }),
    ("colours", |body| {
        let (head, rest) = body.split_at(body.find(": ").map_or(0, |at| at + 2));
        format!("\u{1b}[33m{head}\u{1b}[0m\u{1b}[1m{rest}\u{1b}[0m")
    }),
    ("fields of the device", |body| {
        format!("{body} SUBSYSTEM=pci DEVICE=+pci:0000:08:00.1")
    }),
    ("repeats", |body| format!("{body} (repeated 12 times)")),
    ("end of a line of a page", |body| format!("{body}<br />")),
    ("a mark where it was cut", |body| format!("{body} [...]")),
    ("rsyslog's repeats", |body| {
        format!("message repeated 12 times: [ {body}]")
    }),
];

/// The examples in each of these lines; returns those whose entry is not found.
fn unmatched(lines_of: impl Fn(&str, usize) -> Vec<(String, Vec<u8>)>) -> Vec<String> {
    let dictionary = Dictionary::new();
    let empty = dictionary.log();
    let mut wrong = Vec::new();
    let examples =
        examples().flat_map(|(entry, examples)| examples.iter().map(move |example| (entry, example)));
    let mut count = 0;
    for (nth, (entry, example)) in examples.enumerate() {
        for (name, lines) in lines_of(example, nth) {
            count += 1;
            let mut log = empty.clone();
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                log.line(line);
            }
            log.finish();
            let met = log.met();
            if !met.iter().any(|met| met.entry.name == entry.name) {
                let names: Vec<_> = met.iter().map(|met| met.entry.name.as_ref()).collect();
                wrong.push(format!("{}: {name}: {example:?} is {names:?}", entry.name));
            }
        }
    }
    assert!(count > 1_000, "{count}");
    wrong
}

#[track_caller]
fn check(lines_of: impl Fn(&str, usize) -> Vec<(String, Vec<u8>)>) {
    let wrong = unmatched(lines_of);
    let shown = wrong.len().min(40);
    assert!(
        wrong.is_empty(),
        "{} lines:\n{}",
        wrong.len(),
        wrong[..shown].join("\n")
    );
}

#[test]
fn every_example_is_found_behind_every_prefix() {
    check(|body, _| {
        let lines = PREFIXES.iter();
        lines
            .map(|prefix| (format!("{prefix:?}"), format!("{prefix}{body}\n").into_bytes()))
            .collect()
    });
}

#[test]
fn every_example_is_found_with_every_change() {
    check(|body, nth| {
        let changes = CHANGES.iter().enumerate();
        changes
            .map(|(shift, (name, change))| {
                // Another prefix for each: in total each prefix with each change.
                let prefix = PREFIXES[(nth + shift * 7) % PREFIXES.len()];
                let line = format!("{prefix}{}\n", change(body));
                (format!("{prefix:?}, {name}"), line.into_bytes())
            })
            .collect()
    });
}

#[test]
fn every_example_is_found_with_bad_bytes_at_its_ends() {
    check(|body, _| {
        let mut line = b"\xff\xfe[12345.678901] ".to_vec();
        line.extend_from_slice(body.as_bytes());
        line.extend_from_slice(b"\xff\xc3\0\n");
        vec![("bad bytes".to_owned(), line)]
    });
}

#[test]
fn every_example_is_found_in_json() {
    let quoted = |body: &str| body.replace('\\', "\\\\").replace('"', "\\\"");
    check(|body, _| {
        let text = quoted(body);
        let bytes: Vec<String> = body.bytes().map(|byte| byte.to_string()).collect();
        let bytes = bytes.join(",");
        [
            format!(r#"{{"PRIORITY":"4","_TRANSPORT":"kernel","MESSAGE":"{text}","SYSLOG_IDENTIFIER":"kernel"}}"#),
            format!(r#"{{ "MESSAGE" : "{text}", "__REALTIME_TIMESTAMP" : "17" }}"#),
            format!(r#"{{"MESSAGE":[{bytes}],"SYSLOG_IDENTIFIER":"kernel"}}"#),
            format!("{{\n\t\"SYSLOG_IDENTIFIER\" : \"kernel\",\n\t\"MESSAGE\" : \"{text}\",\n}}\n"),
            format!(
                "{{\n   \"dmesg\": [\n      {{\n         \"pri\": 4,\n         \"time\":    12.345678,\n         \"msg\": \"{text}\"\n      }}\n   ]\n}}\n"
            ),
            format!(r#"{{"log":"[12345.678901] {text}\n","stream":"stdout","time":"2026-11-20T12:00:00.1Z"}}"#),
        ]
        .into_iter()
        .map(|line| (format!("{line:.40}"), line.into_bytes()))
        .collect()
    });
}

/// A line that is broken at one of its blanks, where its first half has no entry of its own.
#[test]
fn every_example_is_found_when_it_is_wrapped() {
    let dictionary = Dictionary::new();
    check(|body, nth| {
        let prefix = PREFIXES[nth % PREFIXES.len()];
        // A quotation mark or a table is on each of the lines.
        let next = if prefix.starts_with('>') { "> " } else { "" };
        let breaks = body.match_indices(' ').map(|(at, _)| at);
        let mut lines = Vec::new();
        // `| text |` is a whole row of a table.
        let is_row = |head: &str| prefix.starts_with('|') && head.ends_with('|');
        for at in breaks
            .filter(|&at| at > body.len() / 3 && !is_row(&body[..at]))
            .take(2)
        {
            let (head, rest) = (&body[..at], &body[at + 1..]);
            let mut log = dictionary.log();
            log.line(head.as_bytes());
            log.line(rest.as_bytes());
            let is_one = log.count().known != 1;
            if is_one && !rest.trim().is_empty() {
                let text = format!("{prefix}{head}\n{next}{rest}\n");
                lines.push((format!("{prefix:?}, wrapped at {at}"), text.into_bytes()));
            }
        }
        lines
    });
}

#[test]
fn message_is_found_when_its_end_is_cut_off() {
    let dictionary = Dictionary::new();
    for (line, entry) in [
        (
            "NETDEV WATCHDOG: enP64p1s0f3 (tg3): transmit queue 0 timed o>",
            "netdev-watchdog",
        ),
        (
            "NETDEV WATCHDOG: eth0 (r8169): transmit queue 0 timed\u{2026}",
            "netdev-watchdog",
        ),
        (
            "page_pool_release_retry() stalled pool shutdown: id 523, 1 infl",
            "page-pool-stalled",
        ),
        // Too little is left.
        ("NETDEV WATCHDOG: eth0 (r>", ""),
        ("NETDEV WATCHDOG: eth0 (r8169): transmit queue 0", ""),
        (
            "EXT4-fs warning (device sdc): htree_dirblock_to_tree:994: inode #2: lblock 0: comm ls",
            "",
        ),
    ] {
        let mut log = dictionary.log();
        log.line(format!("[   12.345678] {line}").as_bytes());
        log.finish();
        let met = log.met();
        let name = met.first().map_or("", |met| met.entry.name.as_ref());
        assert_eq!(name, entry, "{line}");
    }
}

#[test]
fn time_of_dmesg_json_is_that_of_its_message() {
    let dictionary = Dictionary::new();
    let mut log = dictionary.log();
    for line in [
        "{",
        "\"dmesg\": [",
        "{",
        "\"pri\": 4,",
        "\"time\":    12.345678,",
        "\"msg\": \"TCP: out of memory -- consider tuning tcp_mem\"",
        "},{",
    ] {
        log.line(line.as_bytes());
    }
    assert_eq!(log.met()[0].first.as_deref(), Some("12.345678"));
    assert_eq!(log.count().empty, 6);
}
