//! Walks combinations on two threads, compares, and reports.

use super::EXPLAINED;
use super::mask::difference;
use super::run::{Case, Programs};
use super::socket_set::SocketSet;
use sockeye_lab::Namespace;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

/// Compares the two programs on every case; panics with the first differences.
#[track_caller]
pub(crate) fn walk(socket_set: &SocketSet, programs: &Programs, cases: Vec<Case>, title: &str) {
    let cases = wanted(cases);
    let walk = Walk {
        socket_set,
        programs,
        next: AtomicUsize::new(0),
        moved: AtomicUsize::new(0),
        failures: Mutex::default(),
        turn: RwLock::new(()),
        renewed: Mutex::new(Instant::now()),
    };
    let started = Instant::now();
    for there in [false, true] {
        let cases: Vec<&Case> = cases.iter().filter(|case| case.there == there).collect();
        let namespace = if there {
            &socket_set.there
        } else {
            &socket_set.here
        };
        walk.next.store(0, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| walk.work(namespace, &cases));
            }
        });
    }
    let mut failures = walk.failures.into_inner().unwrap();
    let differ = failures.len();
    failures.retain(|failure| !failure.explained);
    failures.sort_by_key(|failure| failure.index);
    let outcome = format!(
        "{title}: compared {} combinations, {} retried, {} explained, {} differ; {:.1?}\n",
        cases.len(),
        walk.moved.into_inner(),
        differ - failures.len(),
        failures.len(),
        started.elapsed(),
    );
    // Past the test runner's capture: the log of a passing test shows it too.
    let _ = std::io::stderr().write_all(outcome.as_bytes());
    if failures.is_empty() {
        return;
    }
    let texts: Vec<String> = failures.into_iter().map(|failure| failure.text).collect();
    let name: String = title.chars().filter(|c| !c.is_whitespace()).collect();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
    let _ = std::fs::write(&file, texts.concat());
    let mut shown = texts.iter().take(SHOWN).cloned().collect::<String>();
    let _ = write!(shown, "{outcome}all of them: {}", file.display());
    panic!("\n{shown}");
}

struct Failure {
    /// Where in the matrix: the simplest combinations come first.
    index: usize,
    text: String,
    explained: bool,
}

struct Walk<'a> {
    socket_set: &'a SocketSet,
    programs: &'a Programs,
    next: AtomicUsize,
    moved: AtomicUsize,
    failures: Mutex<Vec<Failure>>,
    turn: RwLock<()>,
    renewed: Mutex<Instant>,
}

impl Walk<'_> {
    fn work(&self, namespace: &Namespace, cases: &[&Case]) {
        namespace.run(|| {
            loop {
                let index = self.next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(index) else {
                    return;
                };
                self.renew();
                let (times, difference) = if case.is_alone() {
                    let _turn = self.turn.write().unwrap();
                    repeat(self.socket_set, self.programs, case, self.tries())
                } else {
                    let _turn = self.turn.read().unwrap();
                    repeat(self.socket_set, self.programs, case, self.tries())
                };
                if times > 1 && difference.is_none() {
                    self.moved.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(difference) = difference {
                    let command = case.to_string();
                    let failure = Failure {
                        index,
                        explained: is_explained(&command, &difference),
                        text: format!("{command}\n{difference}\n"),
                    };
                    self.failures.lock().unwrap().push(failure);
                }
            }
        });
    }

    /// Number of attempts for a case: one, if many cases have failed already.
    fn tries(&self) -> u32 {
        if self.failures.lock().unwrap().len() > DESPAIR {
            1
        } else {
            TRIES
        }
    }

    fn renew(&self) {
        let mut renewed = self.renewed.lock().unwrap();
        if renewed.elapsed() > RENEWAL {
            let _turn = self.turn.write().unwrap();
            self.socket_set.renew();
            *renewed = Instant::now();
        }
    }
}

fn is_explained(command: &str, difference: &str) -> bool {
    // Data that BPF programs keep with sockets are not shown (docs/dropins/ss.md). Programs of other tests may have such data on all of them.
    let is_of_bpf = command.contains("--bpf-map") && difference.contains("map_id:");
    is_of_bpf || EXPLAINED.iter().any(|(known, _)| *known == command)
}

/// Runs both until they agree, at most `most` times; returns how often, and the difference.
fn repeat(socket_set: &SocketSet, programs: &Programs, case: &Case, tries_max: u32) -> (u32, Option<String>) {
    let mut tries = 0;
    loop {
        let ours = case.run(&programs.ours, &socket_set.directory);
        let real = case.run(&programs.real, &socket_set.directory);
        let difference = difference(case, &ours, &real);
        tries += 1;
        if difference.is_none() || tries == tries_max || ours.hangs() {
            return (tries, difference);
        }
        // What the other worker's programs have open for a moment is seen by one and not by the other.
        std::thread::sleep(PAUSE * tries);
    }
}

fn wanted(cases: Vec<Case>) -> Vec<Case> {
    match std::env::var("SOCKEYE_SS_ONLY") {
        Ok(words) => cases
            .into_iter()
            .filter(|case| case.to_string().contains(&words))
            .collect(),
        Err(_) => cases,
    }
}

const WORKERS: usize = 2;
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(30);
const DESPAIR: usize = 100;
const SHOWN: usize = 12;
/// TIME_WAIT lasts 60 seconds.
const RENEWAL: Duration = Duration::from_secs(40);
