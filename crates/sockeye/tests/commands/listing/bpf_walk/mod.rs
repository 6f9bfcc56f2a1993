//! Listings by the BPF walk over the kernel's tables and by netlink, compared field by field.

use serde_json::Value;
use sockeye_lab::{DEADLINE, Namespace, Skip, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

pub(crate) const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");

/// The walk as a kernel before Linux 6.2 gets it: for the functions of this module, a source like `bpf`.
pub(crate) const BPF_OF_OLDER_KERNELS: &str = "bpf, by copying";

/// Fields that change between two listings of idle sockets: path, whether it rises, the largest difference of two readings
/// at one time (jiffies tick at 100 Hz or faster), and the reason.
const MOVES: [Moves; 8] = [
    ("/timer/expires_ms", false, 10, "the clock runs on"),
    ("/tcp_info/last_data_sent_ms", true, 10, "the clock runs on"),
    ("/tcp_info/last_data_recv_ms", true, 10, "the clock runs on"),
    ("/tcp_info/last_ack_recv_ms", true, 10, "the clock runs on"),
    (
        "/tcp_info/total_rto_time_ms",
        true,
        10,
        "it sends again and again",
    ),
    (
        "/tcp_info/busy_time_us",
        true,
        10_000,
        "it waits for acknowledgements",
    ),
    (
        "/tcp_info/rwnd_limited_us",
        true,
        10_000,
        "it waits for the window",
    ),
    (
        "/tcp_info/sndbuf_limited_us",
        true,
        10_000,
        "it waits for its buffer",
    ),
];

type Moves = (&'static str, bool, u64, &'static str);

/// Skips where no BPF program of ours can run for a reason that is none of ours.
pub(crate) fn can_walk() -> Result<(), Skip> {
    let output = run(Command::new(SOCKEYE).args(["sockets", "-tan", "--source", "bpf"]));
    let outcome = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(());
    }
    let lacking = [
        "Operation not permitted",
        "No such file or directory",
        "this kernel has no bpf_rdonly_cast",
    ];
    if lacking.iter().any(|words| outcome.contains(words)) {
        return Err(Skip::new(format!(
            "no BPF program can be run here: {}",
            outcome.trim()
        )));
    }
    panic!("the walk does not work: {outcome}");
}

/// Runs a command to its end, with nothing to read.
pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Adds the option of the source.
pub(crate) fn with_source<'a>(command: &'a mut Command, source: &str) -> &'a mut Command {
    if source == BPF_OF_OLDER_KERNELS {
        command.env("SOCKEYE_BPF", "5.10").args(["--source", "bpf"])
    } else {
        command.args(["--source", source])
    }
}

/// What `sockets --format json` says.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// By what names a socket: family, addresses, namespace, interface, inode.
    pub(crate) rows: BTreeMap<String, Value>,
    pub(crate) summary: Value,
}

impl Listed {
    /// Lists with these words inside the namespace; nothing may be listed twice.
    #[track_caller]
    pub(crate) fn inside(namespace: &Namespace, source: &str, words: &[&str]) -> Self {
        let fixed = ["sockets", "--format", "json"];
        let mut command = namespace.command(SOCKEYE, &[&fixed, words].concat());
        Self::read(&run(with_source(&mut command, source)))
    }

    /// Lists with these words where we are.
    #[track_caller]
    pub(crate) fn here(source: &str, words: &[&str]) -> Self {
        let mut command = Command::new(SOCKEYE);
        command.args(["sockets", "--format", "json"]).args(words);
        Self::read(&run(with_source(&mut command, source)))
    }

    #[track_caller]
    fn read(output: &Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {stderr}", output.status);
        assert!(!stderr.contains("panicked"), "{stderr}");
        let mut summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let Value::Array(all) = summary["sockets"].take() else {
            panic!("no sockets in {summary}");
        };
        let mut rows = BTreeMap::new();
        for row in all {
            if let Some(other) = rows.insert(name(&row), row) {
                panic!("listed twice: {other}");
            }
        }
        let listed = Self { rows, summary };
        for loss in ["broken_records", "unlisted_protocols", "incomplete_dumps"] {
            assert_eq!(listed.summary["losses"][loss], 0, "{}", listed.summary);
        }
        listed
    }

    pub(crate) fn source(&self) -> &str {
        self.summary["sources"][0]["source"].as_str().unwrap()
    }

    pub(crate) fn unsettled(&self) -> u64 {
        self.summary["losses"]["unsettled_chains"].as_u64().unwrap()
    }

    /// What became other from here to a later listing.
    fn changes(&self, later: &Self) -> String {
        let (before, after) = (self.still(), later.still());
        let names = before.keys().chain(after.keys());
        let mut all: Vec<_> = names
            .filter_map(|name| match (before.get(name), after.get(name)) {
                (Some(before), Some(after)) if before == after => None,
                (Some(before), Some(after)) => Some(format!("{name}: {}", difference(before, after))),
                (Some(_), None) => Some(format!("{name}: gone")),
                _ => Some(format!("{name}: new")),
            })
            .collect();
        all.dedup();
        all.join("\n")
    }

    fn still(&self) -> BTreeMap<&String, Value> {
        let still = |row: &Value| {
            let mut row = row.clone();
            for (place, ..) in MOVES {
                if let Some(value) = row.pointer_mut(place) {
                    *value = Value::Null;
                }
            }
            row
        };
        self.rows.iter().map(|(name, row)| (name, still(row))).collect()
    }
}

fn name(row: &Value) -> String {
    [
        "netns_inode",
        "netid",
        "family",
        "local",
        "peer",
        "interface",
        "inode",
    ]
    .map(|key| row[key].to_string())
    .join(" ")
}

/// What is asked in front of the walk, asked of the walk, and asked again behind it, must be the same: each listing
/// is taken by `take`, once for each source. Gives the walk's, when nothing happened meanwhile. The walk of older kernels is
/// asked as well.
///
/// Netlink comes first, so that every socket has its cookie: the kernel makes them when they are asked for.
#[track_caller]
pub(crate) fn compare(what: &str, mut take: impl FnMut(&str) -> Listed) -> Listed {
    compare_with(BPF_OF_OLDER_KERNELS, what, &mut take);
    compare_with("bpf", what, &mut take)
}

/// As [`compare`], of one of both walks.
#[track_caller]
pub(crate) fn compare_with(walk: &str, what: &str, take: &mut dyn FnMut(&str) -> Listed) -> Listed {
    let what = &format!("{what}, {walk}");
    let mut restless = String::new();
    let moment = quiet(what, || {
        let (before, walked, after) = (take("diag"), take(walk), take("diag"));
        assert_eq!(walked.source(), "bpf", "{what}");
        assert!(["one-pass", "diag-v2"].contains(&before.source()), "{what}");
        if before.still() != after.still() {
            restless = before.changes(&after);
            return None;
        }
        // 1. What stands still.
        let (expected, found) = (before.still(), walked.still());
        for (name, row) in &expected {
            let Some(walked) = found.get(name) else {
                panic!("{what}: the walk does not list {row}\namong {:#?}", walked.rows);
            };
            assert_eq!(
                walked,
                row,
                "{what}: the walk, then netlink; {}",
                difference(walked, row)
            );
        }
        for (name, row) in &found {
            assert!(expected.contains_key(name), "{what}: only the walk lists {row}");
        }
        assert_eq!(walked.unsettled(), 0, "{what}");
        // 2. What moves.
        let mut is_quiet = true;
        for (place, rises, apart, why) in MOVES {
            for (name, row) in &before.rows {
                let values = [&before, &walked, &after]
                    .map(|listed| listed.rows[name].pointer(place).and_then(Value::as_u64));
                let [Some(first), Some(between), Some(last)] = values else {
                    assert_eq!(values, [None; 3], "{what}: {place} of {row}");
                    continue;
                };
                let (low, high) = (first.min(last), first.max(last));
                if first != last && rises != (first < last) {
                    is_quiet = false; // it was started anew, before the walk or after
                } else {
                    assert!(
                        (low.saturating_sub(apart)..=high + apart).contains(&between),
                        "{what}: {place} is {between}, not within {low} and {high} ({why}): {row}"
                    );
                }
            }
        }
        is_quiet.then_some(walked)
    });
    moment.unwrap_or_else(|| panic!("{what}: never a quiet moment; in the last two listings: {restless}"))
}

/// Tries until it gives something, within the time of a wait.
fn quiet<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    wait_for(format!("a quiet moment for {what}"), || {
        attempt()
            .map(Some)
            .or((started.elapsed() > DEADLINE / 2).then_some(None))
    })
}

/// The fields that differ.
fn difference(walked: &Value, expected: &Value) -> String {
    let (Some(walked), Some(expected)) = (walked.as_object(), expected.as_object()) else {
        return format!("{walked} is not {expected}");
    };
    let names: BTreeSet<_> = walked.keys().chain(expected.keys()).collect();
    let differ = names.into_iter().filter_map(|name| {
        let [walked, expected] = [walked, expected].map(|row| row.get(name).unwrap_or(&Value::Null));
        (walked != expected).then(|| format!("{name}: {}", difference(walked, expected)))
    });
    differ.collect::<Vec<_>>().join("; ")
}
