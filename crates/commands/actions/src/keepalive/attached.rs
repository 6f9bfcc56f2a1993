//! `sockeye keepalive attached`: which cgroups give keepalive to their new connections.

use anyhow::bail;
use clap::{Args, ValueEnum};
use sockeye_act::{Keepalive, KeepaliveProgram, KeepaliveProgramError};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_output::{JsonObject, SCHEMA_VERSION};
use sockeye_query::cgroup::Cgroup;
use sockeye_wire::keepalive_program::Counts;
use std::os::fd::AsFd;

/// Which cgroups give keepalive to their new connections, and to how many they did
///
/// Counted when a connection is there, at the end of its handshake. Given: it has all of these times then, which its
/// application may replace later. Other: it has another time then, which was set before: by its application, inherited from
/// its listener, or given by a cgroup below that has times of its own attached. Refused: options that the kernel would not
/// set. What connections have by now is told by `sockeye keepalive list`.
#[derive(Debug, Args)]
pub(crate) struct AttachedArgs {
    /// In which form
    #[arg(long, value_enum, default_value_t = AttachedFormat::Table)]
    format: AttachedFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AttachedFormat {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// One object a line
    Jsonl,
}

/// A program of ours, and where.
struct Row {
    cgroup: Cgroup,
    keepalive: Keepalive,
    counts: Counts,
}

pub(super) fn run(args: &AttachedArgs) -> anyhow::Result<()> {
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
    for (path, failure) in failures.iter().take(TOLD_MAX) {
        notes::say(&format!("sockeye: cgroup {path}: {failure}\n"));
    }
    if failures.len() > TOLD_MAX {
        notes::say(&format!(
            "sockeye: and {} cgroups more could not be asked\n",
            failures.len() - TOLD_MAX
        ));
    }
    if is_cut {
        notes::say("sockeye: there are more cgroups than were looked at: some may be missing\n");
    }
    match args.format {
        AttachedFormat::Table if rows.is_empty() => {
            notes::say("sockeye: nothing of sockeye's is attached to any cgroup\n");
            Ok(())
        }
        AttachedFormat::Table => stdout::write_lines(table(&rows)),
        AttachedFormat::Json => {
            let mut out = Vec::new();
            let mut document = JsonObject::begin(&mut out);
            document.number("schema_version", Some(SCHEMA_VERSION));
            let list = document.key("attached");
            list.push(b'[');
            for (nth, row) in rows.iter().enumerate() {
                if nth > 0 {
                    list.push(b',');
                }
                object(row, list);
            }
            list.push(b']');
            document.end();
            out.push(b'\n');
            stdout::write(&out)
        }
        AttachedFormat::Jsonl => {
            let mut out = Vec::new();
            for row in &rows {
                object(row, &mut out);
                out.push(b'\n');
            }
            stdout::write(&out)
        }
    }
}

fn of_one(ours: &[KeepaliveProgram]) -> Result<Option<(Keepalive, Counts)>, KeepaliveProgramError> {
    let Some(keeper) = ours.last() else {
        return Ok(None);
    };
    Ok(Some((keeper.keepalive()?, keeper.counts()?)))
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

fn object(row: &Row, out: &mut Vec<u8>) {
    let mut fields = JsonObject::begin(out);
    fields.bytes("cgroup", Some(row.cgroup.path_bytes()));
    fields.number("time_s", Some(row.keepalive.time_s));
    fields.number("interval_s", Some(row.keepalive.interval_s));
    fields.number("probes", Some(row.keepalive.probes));
    fields.number("user_timeout_ms", row.keepalive.user_timeout_ms);
    fields.number("given", Some(row.counts.given));
    fields.number("other", Some(row.counts.other));
    fields.number("refused", Some(row.counts.refused));
    fields.end();
}

/// So many cgroups that could not be asked are named.
const TOLD_MAX: usize = 5;
