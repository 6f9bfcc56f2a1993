//! Operations that create and remove thousands of named network namespaces: preparation and cleanup are
//! untimed.
//!
//! They run in the empty folder of [`Names`](crate::namespaces::Names), in rounds, as the commands of
//! [`run`](crate::run). Before each, the kernel must have freed the namespaces of the one before: it does so
//! on another thread, long after the names are removed, and under the same locks that creation needs.

use crate::entry::{Entry, Phase, Program, Target};
use crate::measure::{Output, measure};
use crate::namespaces::{FOLDER, make_named};
use crate::programs::on_path;
use crate::run::{Absence, Figures, Installed};
use crate::statistics::median;
use crate::suite::FLOOR;
use anyhow::{Context, Result, anyhow};
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A command, and the number of names before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetnsOperation {
    /// The command and its targets.
    pub entry: Entry,
    /// Number of namespaces before it.
    pub before: usize,
    /// Number of namespaces after it: another number is a failure.
    pub after: usize,
    /// It runs in every n-th round: some take seconds.
    pub every: usize,
    /// Whether the memory of its namespaces is measured.
    pub measures_memory: bool,
}

/// The results of an operation.
#[derive(Clone, Debug)]
pub struct OperationFigures {
    /// Figures as of any command.
    pub figures: Figures,
    /// Number of namespaces after it.
    pub after: usize,
    /// Growth of the kernel's allocators per namespace, since the beginning.
    pub bytes_per_namespace: Option<u64>,
}

/// Commands that create `count` at once, by each program's own method.
pub fn making(count: usize) -> Vec<NetnsOperation> {
    let operation = |name, program, arguments, targets| NetnsOperation {
        entry: entry(name, program, arguments, targets),
        before: 0,
        after: count,
        every: 1,
        measures_memory: false,
    };
    let add = |threads| {
        words(&[
            "ns",
            "add",
            "--prefix",
            PREFIX,
            "--count",
            &count.to_string(),
            "-j",
            threads,
        ])
    };
    let last = count.saturating_sub(1);
    vec![
        operation(
            FLOOR,
            Program::Floor,
            words(&["--make-namespaces", PREFIX, &count.to_string()]),
            &[],
        ),
        operation("ns add, one thread", Program::Sockeye, add("1"), ONE_THREAD),
        operation("ns add, two threads", Program::Sockeye, add("2"), TWO_THREADS),
        operation(IP_BATCH, Program::Peer("sh"), batch("add", last), &[]),
        NetnsOperation {
            every: 2,
            ..operation(
                IP_LOOP,
                Program::Peer("sh"),
                shell(format!(
                    "for n in $(seq 0 {last}); do ip netns add {PREFIX}$n || exit 1; done"
                )),
                &[],
            )
        },
    ]
}

/// Creates half of `count`, with no others and with twice `count` others.
pub fn flat(count: usize) -> Vec<NetnsOperation> {
    let each = count / 2;
    let operation = |name, before: usize, targets| NetnsOperation {
        entry: entry(
            name,
            Program::Sockeye,
            words(&[
                "ns",
                "add",
                "--prefix",
                PREFIX,
                "--start",
                &before.to_string(),
                "--count",
                &each.to_string(),
            ]),
            targets,
        ),
        before,
        after: before + each,
        every: 1,
        measures_memory: true,
    };
    vec![
        operation(FIRST, 0, &[]),
        operation("the last", 2 * count, FLAT_TARGETS),
    ]
}

/// Commands that remove `count` at once.
pub fn removing(count: usize) -> Vec<NetnsOperation> {
    let operation = |name, program, arguments, targets| NetnsOperation {
        entry: entry(name, program, arguments, targets),
        before: count,
        after: 0,
        every: 1,
        measures_memory: false,
    };
    let del = ["ns", "del", "--prefix", PREFIX, "--yes", "--wait"];
    vec![
        operation("ns del", Program::Sockeye, words(&del[..5]), REMOVE),
        operation(
            IP_BATCH,
            Program::Peer("sh"),
            batch("del", count.saturating_sub(1)),
            &[],
        ),
        operation("ns del, until really gone", Program::Sockeye, words(&del), &[]),
    ]
}

/// Runs the operations in alternating order.
pub fn interleaved(
    operations: &[NetnsOperation],
    installed: &Installed,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<OperationFigures>> {
    let mut runners: Vec<Runner> = operations
        .iter()
        .map(|operation| Runner::new(*operation, installed))
        .collect();
    progress("preparing");
    warm_up(operations, installed)?;
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let count = runners.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            let runner = &mut runners[turn];
            if runner.figures.absence.is_none() && round.is_multiple_of(runner.operation.every) {
                runner.run()?;
                settle(installed)?;
            }
        }
    }
    Ok(runners.into_iter().map(Runner::ended).collect())
}

/// Figures of operations that cannot be measured here.
pub fn absent(operations: &[NetnsOperation], why: &str) -> Vec<OperationFigures> {
    let absent = |operation: &NetnsOperation| OperationFigures {
        figures: Figures::of(&operation.entry, Some(Absence::NotMeasured(why.to_owned()))),
        after: operation.after,
        bytes_per_namespace: None,
    };
    operations.iter().map(absent).collect()
}

/// Removes all names, and waits until the kernel has freed all unused namespaces, including earlier ones.
pub fn settle(installed: &Installed) -> Result<()> {
    // They are freed in the order of their ends: when this one is gone, so are the earlier ones.
    make(LAST, 0, 1)?;
    if let Some(sockeye) = installed.path(Program::Sockeye) {
        measure(
            &sockeye,
            &["ns", "del", "--all", "--yes", "--wait", "--timeout", "120"],
            Output::Discarded,
        )?;
    }
    // Also names that a failed command left.
    for name in names()? {
        let file = Path::new(FOLDER).join(name);
        let _ = umount2(&file, MntFlags::MNT_DETACH);
        fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    }
    // Time for the kernel's own work after that.
    std::thread::sleep(PAUSE);
    Ok(())
}

/// Whether there is enough memory for this many namespaces; if not, the reason.
pub fn check_memory(namespaces: usize) -> Result<(), String> {
    let needed = namespaces as u64 * MEMORY_EACH_BYTES;
    match available_bytes() {
        Some(available) if available < needed => Err(format!(
            "{} MB of memory available, {} needed for {namespaces} namespaces",
            available / 1_000_000,
            needed / 1_000_000
        )),
        _ => Ok(()),
    }
}

/// An operation and its results so far.
struct Runner {
    operation: NetnsOperation,
    path: Option<PathBuf>,
    figures: Figures,
    bytes_per_namespace: Vec<u64>,
}

impl Runner {
    fn new(operation: NetnsOperation, installed: &Installed) -> Self {
        let path = installed.path(operation.entry.program);
        // A shell is only used to run `ip`.
        let needs_ip = matches!(operation.entry.program, Program::Peer(_));
        let is_missing = path.is_none() || needs_ip && on_path("ip").is_none();
        Self {
            operation,
            path,
            figures: Figures::of(&operation.entry, is_missing.then_some(Absence::NotInstalled)),
            bytes_per_namespace: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let held_before = allocator_bytes();
        make(PREFIX, 0, self.operation.before)?;
        if self.operation.before > 0 {
            std::thread::sleep(PAUSE);
        }
        let outcome = measure(path, self.operation.entry.arguments, Output::Discarded)?;
        let there = names()?.len();
        if let Some(why) = outcome.failure {
            self.figures.fail(why);
        } else if there != self.operation.after {
            self.figures
                .fail(format!("left {there} names, not {}", self.operation.after));
        } else {
            self.figures.samples.push(outcome.sample);
            let held = allocator_bytes().filter(|_| self.operation.measures_memory);
            let more = held
                .zip(held_before)
                .and_then(|(now, before)| now.checked_sub(before));
            let each = more.and_then(|more| more.checked_div(there as u64));
            self.bytes_per_namespace.extend(each);
        }
        Ok(())
    }

    fn ended(self) -> OperationFigures {
        OperationFigures {
            figures: self.figures,
            after: self.operation.after,
            bytes_per_namespace: median(&self.bytes_per_namespace),
        }
    }
}

/// The first run of all lets the kernel's caches grow, and prepares the folder for `ip netns`, equally for
/// all.
fn warm_up(operations: &[NetnsOperation], installed: &Installed) -> Result<()> {
    settle(installed)?;
    if let Some(ip) = on_path("ip") {
        measure(&ip, &["netns", "add", LAST], Output::Discarded)?;
        settle(installed)?;
    }
    let most = operations
        .iter()
        .map(|operation| operation.before.max(operation.after))
        .max();
    make(PREFIX, 0, most.unwrap_or(0))?;
    settle(installed)
}

/// Creates namespaces with these numbers on a new thread, which ends in the last of them.
fn make(prefix: &'static str, from: usize, to: usize) -> Result<()> {
    let making = std::thread::spawn(move || {
        (from..to).try_for_each(|number| make_named(&format!("{prefix}{number}")))
    });
    making
        .join()
        .map_err(|_| anyhow!("the thread that makes namespaces panicked"))?
}

fn names() -> Result<Vec<std::ffi::OsString>> {
    fs::read_dir(FOLDER)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect())
        .with_context(|| format!("reading {FOLDER}"))
}

fn available_bytes() -> Option<u64> {
    parse_memory(&meminfo()?, "MemAvailable:")
}

/// Memory of the kernel's allocators: namespaces consist of objects and of counters per processor.
/// `MemAvailable` would treat half of it as reclaimable.
fn allocator_bytes() -> Option<u64> {
    let meminfo = meminfo()?;
    let held = |what| parse_memory(&meminfo, what);
    Some(held("Slab:")? + held("Percpu:")?)
}

fn meminfo() -> Option<String> {
    fs::read_to_string("/proc/meminfo").ok()
}

/// `MemAvailable:   23961600 kB`.
fn parse_memory(meminfo: &str, what: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(what))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(1024 * kilobytes)
}

fn entry(
    name: &'static str,
    program: Program,
    arguments: &'static [&'static str],
    targets: &'static [Target],
) -> Entry {
    Entry::new(program, name, arguments)
        .during(Phase::NetnsOperations)
        .targets(targets)
}

/// `ip` reads its batch through a pipe, so that no file is left behind; `seq` writes it in 2 ms.
fn batch(verb: &str, last: usize) -> &'static [&'static str] {
    shell(format!("seq -f 'netns {verb} {PREFIX}%g' 0 {last} | ip -batch -"))
}

fn shell(script: String) -> &'static [&'static str] {
    words(&["-c", &script])
}

/// Arguments with numbers, with the same lifetime as the constant ones.
fn words(words: &[&str]) -> &'static [&'static str] {
    let words: Vec<&'static str> = words.iter().map(|word| &*word.to_string().leak()).collect();
    words.leak()
}

const PREFIX: &str = "w";
/// Name of the namespace that ends last.
const LAST: &str = "last";
const IP_BATCH: &str = "ip -batch";
const IP_LOOP: &str = "ip netns add, one by one";
const FIRST: &str = "the first";
const PAUSE: Duration = Duration::from_millis(300);
/// More than the kernel needs for a namespace, its mount and its name.
const MEMORY_EACH_BYTES: u64 = 500_000;

const ONE_THREAD: &[Target] = &[Target::Wall {
    of: FLOOR,
    at_most: 1.10,
    wording: "1.10 x floor",
}];
const TWO_THREADS: &[Target] = &[
    Target::Wall {
        of: FLOOR,
        at_most: 0.65,
        wording: "0.65 x floor",
    },
    Target::Wall {
        of: IP_BATCH,
        at_most: 0.60,
        wording: "0.60 x ip -batch",
    },
    Target::Wall {
        of: IP_LOOP,
        at_most: 1.0 / 5.0,
        wording: "1/5 of ip netns add, one by one",
    },
];
const FLAT_TARGETS: &[Target] = &[Target::Wall {
    of: FIRST,
    at_most: 1.15,
    wording: "1.15 x the first",
}];
const REMOVE: &[Target] = &[Target::Wall {
    of: IP_BATCH,
    at_most: 1.0,
    wording: "1.0 x ip -batch",
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_refers_to_an_operation() {
        for operations in [making(2_000), flat(2_000), removing(2_000)] {
            for target in operations.iter().flat_map(|operation| operation.entry.targets) {
                let Target::Wall { of, .. } = target else {
                    panic!("{target:?}");
                };
                assert!(
                    operations.iter().any(|operation| operation.entry.name == *of),
                    "{of}"
                );
            }
        }
    }

    #[test]
    fn commands_use_the_expected_counts() {
        let making = making(20);
        assert_eq!(making[0].entry.command(), "bench-floor --make-namespaces w 20");
        assert_eq!(
            making[2].entry.command(),
            "sockeye ns add --prefix w --count 20 -j 2"
        );
        assert_eq!(
            making[3].entry.command(),
            "sh -c seq -f 'netns add w%g' 0 19 | ip -batch -"
        );
        let last = flat(2_000)[1];
        assert_eq!(
            last.entry.command(),
            "sockeye ns add --prefix w --start 4000 --count 1000"
        );
        assert_eq!((last.before, last.after), (4_000, 5_000));
        let gone = removing(20)[2];
        assert_eq!(gone.entry.command(), "sockeye ns del --prefix w --yes --wait");
    }

    #[test]
    fn meminfo_is_in_kibibytes() {
        let meminfo = "MemTotal:       24683520 kB\nMemAvailable:   23961600 kB\n";
        assert_eq!(parse_memory(meminfo, "MemAvailable:"), Some(23_961_600 * 1024));
        assert_eq!(parse_memory(meminfo, "Slab:"), None);
        assert!(allocator_bytes().is_some_and(|bytes| bytes > 0));
    }
}
