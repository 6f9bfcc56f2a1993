//! Acts that make and remove named network namespaces by the thousand: each is prepared and undone untimed.
//!
//! They run in the empty folder of [`Names`](crate::namespaces::Names), one after another, round after round, as the commands of
//! [`run`](crate::run) do. Before each the kernel has freed what the one before left: it does so on a thread of its own, long
//! after the names are gone, and under the same locks under which namespaces are made.

use crate::measure::{Output, measure};
use crate::namespaces::{FOLDER, make_named};
use crate::programs::on_path;
use crate::run::{Absence, Figures, Installed};
use crate::statistics::median;
use crate::suite::{ENTRY, Entry, FLOOR, Phase, Program, Target};
use anyhow::{Context, Result, anyhow};
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One command, and the names that are there before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Act {
    /// What runs, and what it has to reach.
    pub entry: Entry,
    /// So many namespaces are there when it begins.
    pub before: usize,
    /// So many when it has ended: other than that is a failure, however fast.
    pub after: usize,
    /// It takes part in every so-manieth round: some take seconds.
    pub every: usize,
    /// Whether the memory is looked at that the namespaces take.
    pub is_weighed: bool,
}

/// What was measured of an act.
#[derive(Clone, Debug)]
pub struct ActFigures {
    /// As of any command.
    pub figures: Figures,
    /// So many namespaces there were after it.
    pub after: usize,
    /// By how much more the kernel's allocators held after it than before anything was made, for each namespace there was.
    pub bytes_each: Option<u64>,
}

/// Makes `count` at once, by each program's own way.
pub fn making(count: usize) -> Vec<Act> {
    let act = |name, program, arguments, targets| Act {
        entry: entry(name, program, arguments, targets),
        before: 0,
        after: count,
        every: 1,
        is_weighed: false,
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
        act(
            FLOOR,
            Program::Floor,
            words(&["--make-namespaces", PREFIX, &count.to_string()]),
            &[],
        ),
        act("ns add, one thread", Program::Sockeye, add("1"), ONE_THREAD),
        act("ns add, two threads", Program::Sockeye, add("2"), TWO_THREADS),
        act(IP_BATCH, Program::Peer("sh"), batch("add", last), &[]),
        Act {
            every: 2,
            ..act(
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

/// Makes half of `count` where there is none, and where there are twice as many as `count`.
pub fn flat(count: usize) -> Vec<Act> {
    let each = count / 2;
    let act = |name, before: usize, targets| Act {
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
        is_weighed: true,
    };
    vec![act(FIRST, 0, &[]), act("the last", 2 * count, FLAT)]
}

/// Removes `count` at once.
pub fn removing(count: usize) -> Vec<Act> {
    let act = |name, program, arguments, targets| Act {
        entry: entry(name, program, arguments, targets),
        before: count,
        after: 0,
        every: 1,
        is_weighed: false,
    };
    let del = ["ns", "del", "--prefix", PREFIX, "--yes", "--wait"];
    vec![
        act("ns del", Program::Sockeye, words(&del[..5]), REMOVE),
        act(
            IP_BATCH,
            Program::Peer("sh"),
            batch("del", count.saturating_sub(1)),
            &[],
        ),
        act("ns del, until really gone", Program::Sockeye, words(&del), &[]),
    ]
}

/// Runs the acts in turn, every second round backwards.
pub fn interleaved(
    acts: &[Act],
    installed: &Installed,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<ActFigures>> {
    let mut runners: Vec<Runner> = acts.iter().map(|act| Runner::new(*act, installed)).collect();
    progress("preparing");
    warm_up(acts, installed)?;
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        let count = runners.len();
        for turn in 0..count {
            let turn = if round % 2 == 0 { turn } else { count - 1 - turn };
            let runner = &mut runners[turn];
            if runner.figures.absence.is_none() && round.is_multiple_of(runner.act.every) {
                runner.run()?;
                settle(installed)?;
            }
        }
    }
    Ok(runners.into_iter().map(Runner::ended).collect())
}

/// Figures of acts that cannot be measured here.
pub fn absent(acts: &[Act], why: &str) -> Vec<ActFigures> {
    let absent = |act: &Act| ActFigures {
        figures: Figures::of(&act.entry, Some(Absence::NotMeasured(why.to_owned()))),
        after: act.after,
        bytes_each: None,
    };
    acts.iter().map(absent).collect()
}

/// Removes every name, and waits until the kernel has freed all namespaces that are to be freed, also those of before.
pub fn settle(installed: &Installed) -> Result<()> {
    // It frees them in the order in which they were left: when this one is gone, so are those before it.
    make(LAST, 0, 1)?;
    if let Some(sockeye) = installed.path(Program::Sockeye) {
        measure(
            &sockeye,
            &["ns", "del", "--all", "--yes", "--wait", "--timeout", "120"],
            Output::Discarded,
        )?;
    }
    // What it has left, if it is no good.
    for name in names()? {
        let file = Path::new(FOLDER).join(name);
        let _ = umount2(&file, MntFlags::MNT_DETACH);
        fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    }
    // What the kernel does after that, for itself.
    std::thread::sleep(PAUSE);
    Ok(())
}

/// Whether there is memory for so many namespaces, with the reason if not.
pub fn room(namespaces: usize) -> Result<(), String> {
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

/// An act and what it has brought so far.
struct Runner {
    act: Act,
    path: Option<PathBuf>,
    figures: Figures,
    bytes_each: Vec<u64>,
}

impl Runner {
    fn new(act: Act, installed: &Installed) -> Self {
        let path = installed.path(act.entry.program);
        // All that a shell is asked for here is `ip`.
        let needs_ip = matches!(act.entry.program, Program::Peer(_));
        let is_missing = path.is_none() || needs_ip && on_path("ip").is_none();
        Self {
            act,
            path,
            figures: Figures::of(&act.entry, is_missing.then_some(Absence::NotInstalled)),
            bytes_each: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let held_before = held_bytes();
        make(PREFIX, 0, self.act.before)?;
        if self.act.before > 0 {
            std::thread::sleep(PAUSE);
        }
        let outcome = measure(path, self.act.entry.arguments, Output::Discarded)?;
        let there = names()?.len();
        if let Some(why) = outcome.failure {
            self.figures.fail(why);
        } else if there != self.act.after {
            self.figures
                .fail(format!("left {there} names, not {}", self.act.after));
        } else {
            self.figures.samples.push(outcome.sample);
            let held = held_bytes().filter(|_| self.act.is_weighed);
            let more = held
                .zip(held_before)
                .and_then(|(now, before)| now.checked_sub(before));
            let each = more.and_then(|more| more.checked_div(there as u64));
            self.bytes_each.extend(each);
        }
        Ok(())
    }

    fn ended(self) -> ActFigures {
        ActFigures {
            figures: self.figures,
            after: self.act.after,
            bytes_each: median(&self.bytes_each),
        }
    }
}

/// The first of all makes the kernel's caches grow, and the folder what `ip netns` needs it to be, for all the same.
fn warm_up(acts: &[Act], installed: &Installed) -> Result<()> {
    settle(installed)?;
    if let Some(ip) = on_path("ip") {
        measure(&ip, &["netns", "add", LAST], Output::Discarded)?;
        settle(installed)?;
    }
    let most = acts.iter().map(|act| act.before.max(act.after)).max();
    make(PREFIX, 0, most.unwrap_or(0))?;
    settle(installed)
}

/// Makes namespaces with these numbers, on a thread of its own, which ends in the last of them.
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

/// What a namespace is made of: objects of the kernel, and counters for each processor. `MemAvailable` would count the
/// half of it that could be had back.
fn held_bytes() -> Option<u64> {
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
    Entry {
        name,
        phase: Phase::Acts,
        program,
        arguments,
        targets,
        ..ENTRY
    }
}

/// `ip` reads its batch through a pipe, so that there is no file to be left behind; `seq` writes it in 2 ms.
fn batch(verb: &str, last: usize) -> &'static [&'static str] {
    shell(format!("seq -f 'netns {verb} {PREFIX}%g' 0 {last} | ip -batch -"))
}

fn shell(script: String) -> &'static [&'static str] {
    words(&["-c", &script])
}

/// Arguments with numbers in them, for as long as the others, which are constants.
fn words(words: &[&str]) -> &'static [&'static str] {
    let words: Vec<&'static str> = words.iter().map(|word| &*word.to_string().leak()).collect();
    words.leak()
}

const PREFIX: &str = "w";
/// Of the name of the namespace that is left last.
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
const FLAT: &[Target] = &[Target::Wall {
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
    fn every_target_is_of_an_act_beside_it() {
        for acts in [making(2_000), flat(2_000), removing(2_000)] {
            for target in acts.iter().flat_map(|act| act.entry.targets) {
                let Target::Wall { of, .. } = target else {
                    panic!("{target:?}");
                };
                assert!(acts.iter().any(|act| act.entry.name == *of), "{of}");
            }
        }
    }

    #[test]
    fn commands_speak_of_as_many_as_are_counted() {
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
    fn memory_is_in_kibibytes() {
        let meminfo = "MemTotal:       24683520 kB\nMemAvailable:   23961600 kB\n";
        assert_eq!(parse_memory(meminfo, "MemAvailable:"), Some(23_961_600 * 1024));
        assert_eq!(parse_memory(meminfo, "Slab:"), None);
        assert!(held_bytes().is_some_and(|bytes| bytes > 0));
    }
}
