//! `sockeye keepalive attached`: lists the cgroups that give keepalive to their new connections.

use anyhow::bail;
use clap::{Args, ValueEnum};
use sockeye_act::{Keepalive, KeepaliveProgram, KeepaliveProgramError};
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_output::JsonObject;
use sockeye_query::cgroup::Cgroup;
use sockeye_wire::keepalive_program::Counts;
use std::os::fd::AsFd;

/// List the cgroups that give keepalive to their new connections, with counters
///
/// Connections are counted at the end of the handshake. Given: the connection had all of these times then; its
/// application may change them later. Other: it had another time then, which was set before: by its application, inherited
/// from its listener, or given by a program attached to a cgroup below. Refused: options that the kernel did not accept.
/// `sockeye keepalive list` shows what connections have now.
#[derive(Debug, Args)]
pub(crate) struct AttachedArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = AttachedFormat::Table)]
    format: AttachedFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AttachedFormat {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
}

/// A cgroup with our program.
struct Row {
    cgroup: Cgroup,
    keepalive: Keepalive,
    counts: Counts,
}

pub(super) fn run(args: &AttachedArgs) -> anyhow::Result<()> {
    let taken = envelope::now();
    let (cgroups, is_cut) = Cgroup::all()?;
    let mut rows = Vec::new();
    let mut failures: Vec<(String, KeepaliveProgramError)> = Vec::new();
    let asked = cgroups.len();
    for cgroup in cgroups {
        match KeepaliveProgram::attached(cgroup.as_fd()).and_then(|ours| of_one(&ours)) {
            Ok(Some((keepalive, counts))) => rows.push(Row {
                cgroup,
                keepalive,
                counts,
            }),
            Ok(None) => {}
            Err(failure) => failures.push((cgroup.path(), failure)),
        }
    }
    if let Some((path, failure)) = failures.first().filter(|_| failures.len() == asked) {
        bail!("cgroup {path}: {failure}");
    }
    for (path, failure) in failures.iter().take(NAMED_MAX) {
        notes::say(&format!("sockeye: cgroup {path}: {failure}\n"));
    }
    if failures.len() > NAMED_MAX {
        notes::say(&format!(
            "sockeye: and {} more cgroups could not be read\n",
            failures.len() - NAMED_MAX
        ));
    }
    if is_cut {
        notes::say("sockeye: there are too many cgroups to read all: some may be missing\n");
    }
    let unread = failures.len() as u64;
    match args.format {
        AttachedFormat::Table if rows.is_empty() => {
            notes::say("sockeye: nothing of sockeye's is attached to any cgroup\n");
            Ok(())
        }
        AttachedFormat::Table => stdout::write_lines(table(&rows)),
        AttachedFormat::Json => {
            let mut out = Vec::new();
            let mut document = JsonObject::begin(&mut out);
            taken.push(&mut document, "keepalive_attached");
            let list = document.key("attached");
            list.push(b'[');
            for (nth, row) in rows.iter().enumerate() {
                if nth > 0 {
                    list.push(b',');
                }
                let mut fields = JsonObject::begin(list);
                push_fields(row, &mut fields);
                fields.end();
            }
            list.push(b']');
            push_gaps(&mut document, unread, is_cut);
            document.end();
            out.push(b'\n');
            stdout::write(&out)
        }
        AttachedFormat::Jsonl => {
            let mut out = Vec::new();
            for row in &rows {
                let mut fields = JsonObject::begin(&mut out);
                taken.push(&mut fields, "keepalive_attachment");
                push_fields(row, &mut fields);
                fields.end();
                out.push(b'\n');
            }
            taken.push_summary_line(&mut out, "keepalive_attached", |summary| {
                push_gaps(summary, unread, is_cut);
            });
            stdout::write(&out)
        }
    }
}

fn of_one(ours: &[KeepaliveProgram]) -> Result<Option<(Keepalive, Counts)>, KeepaliveProgramError> {
    let Some(program) = ours.last() else {
        return Ok(None);
    };
    Ok(Some((program.keepalive()?, program.counts()?)))
}

fn table(rows: &[Row]) -> Vec<String> {
    let head = [
        "Cgroup",
        "Time",
        "Interval",
        "Probes",
        "User-Timeout",
        "Given",
        "Other",
        "Refused",
    ];
    let mut cells = vec![head.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let (keepalive, counts) = (&row.keepalive, &row.counts);
        [
            row.cgroup.path(),
            format!("{} s", keepalive.time_s),
            format!("{} s", keepalive.interval_s),
            keepalive.probes.to_string(),
            keepalive
                .user_timeout_ms
                .map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")),
            counts.given.to_string(),
            counts.other.to_string(),
            counts.refused.to_string(),
        ]
    }));
    let mut widths = [0; 8];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; 8]| {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
            if place == 0 {
                line.push_str(&format!("{cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        line
    };
    cells.iter().map(line).collect()
}

fn push_gaps(object: &mut JsonObject<'_>, unread: u64, is_cut: bool) {
    object.number("unreadable_cgroups", Some(unread));
    object.boolean("too_many_cgroups", Some(is_cut));
}

fn push_fields(row: &Row, fields: &mut JsonObject<'_>) {
    fields.bytes("cgroup", Some(row.cgroup.path_bytes()));
    fields.number("time_s", Some(row.keepalive.time_s));
    fields.number("interval_s", Some(row.keepalive.interval_s));
    fields.number("probes", Some(row.keepalive.probes));
    fields.number("user_timeout_ms", row.keepalive.user_timeout_ms);
    fields.number("given", Some(row.counts.given));
    fields.number("other", Some(row.counts.other));
    fields.number("refused", Some(row.counts.refused));
}

/// Number of cgroups that could not be read whose errors are shown.
const NAMED_MAX: usize = 5;
