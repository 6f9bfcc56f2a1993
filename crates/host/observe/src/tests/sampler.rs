//! Compares samples and events with what test programs do.
use crate::{
    FileNumber, Incarnation, Launch, Launched, Mapping, Processes, Sampler, Scope, Unavailable, Unwind,
};
use object::{Object, ObjectSegment, ObjectSymbol};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use sockeye_lab::{DEADLINE, Skip, holds_within, need, wait_within};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn shares_match_work_and_include_threads() {
    let program = need!(Program::new("shares"));
    let child = program.start(&["thread", "700"]);
    let mut watch = need!(Watch::start(&Scope::Processes(vec![child.pid()]), Some(997)));
    watch.until("the end of the program", |watch| watch.processes.all_ended());
    watch.finish();

    let cpu = watch.sampler.counts();
    assert!(!cpu.user_only);
    assert_eq!(cpu.samples_per_s, 997);
    let shares = watch.shares(&program);
    let share = |name: &str| shares.get(name).copied().unwrap_or(0) as f64;
    let (light, heavy, other) = (share("light"), share("heavy"), share("other"));
    // Three times the work, in the same loop.
    assert!((1.8..5.0).contains(&(heavy / light)), "{shares:?}");
    // Each thread has computed for as long.
    assert!((0.6..1.6).contains(&(other / (light + heavy))), "{shares:?}");
    let all: u64 = shares.values().sum();
    assert!(other + light + heavy > 0.9 * all as f64, "{shares:?}");
    // Callers are known: the program has frame pointers.
    assert!(cpu.cut_stacks * 20 <= cpu.samples, "{cpu:?}");
    let callers = watch.callers(&program, "heavy");
    let most = callers.iter().max_by_key(|(_, count)| **count);
    assert_eq!(most.map(|(name, _)| name.as_str()), Some("run"), "{callers:?}");

    let all = watch.processes.all();
    assert_eq!(all.len(), 1);
    assert_eq!(
        (all[0].name.as_str(), all[0].began, all[0].ended),
        ("work", false, true)
    );
    assert_eq!(cpu.broken, 0);
}

#[test]
fn command_is_observed_from_start_through_fork_and_exec() {
    let program = need!(Program::new("family"));
    let words: Vec<OsString> = vec![program.file.clone().into(), "family".into(), "250".into()];
    let launch = Launch::prepare(&words, None).unwrap();
    let first = launch.pid();
    let mut watch = need!(Watch::start(&Scope::Processes(vec![first]), Some(997)));
    let mut launched = launch.resume().unwrap();
    watch.until("the end of the command", |_| {
        launched.try_wait().unwrap().is_some()
    });
    watch.finish();
    assert_eq!(Launched::exit_code(launched.wait().unwrap()), 0);

    let all = watch.processes.all();
    let names: Vec<_> = all.iter().map(|it| (it.name.as_str(), it.ended)).collect();
    assert_eq!(all.len(), 3, "{names:?}");
    assert!(
        names.iter().all(|(name, ended)| *name == "work" && *ended),
        "{names:?}"
    );
    // One child computes only in `light` without an exec; the other one in `heavy` after an exec.
    let mut by_execs: HashMap<(bool, u32), BTreeMap<String, u64>> = HashMap::new();
    for (process, stack, count) in watch.sampler.stacks() {
        let name = watch.function(&program, process, stack.user.first());
        let functions = by_execs.entry((process.pid == first, process.execs)).or_default();
        *functions.entry(name).or_default() += count;
    }
    let count = |is_first, execs, name: &str| {
        let functions = by_execs.get(&(is_first, execs));
        functions
            .and_then(|functions| functions.get(name))
            .copied()
            .unwrap_or(0)
    };
    assert!(count(false, 0, "light") > 50, "{by_execs:?}");
    assert!(count(false, 1, "heavy") > 50, "{by_execs:?}");
    assert_eq!(count(false, 0, "heavy"), 0, "{by_execs:?}");
    assert!(!by_execs[&(false, 1)].contains_key("light"), "{by_execs:?}");
}

#[test]
fn short_processes_are_known_with_mappings() {
    let program = need!(Program::new("short"));
    let script = format!(
        "i=0; while [ $i -lt 40 ]; do {:?} light 15; i=$((i+1)); done",
        program.file
    );
    let words: Vec<OsString> = vec!["sh".into(), "-c".into(), script.into()];
    let launch = Launch::prepare(&words, None).unwrap();
    let mut watch = need!(Watch::start(&Scope::Processes(vec![launch.pid()]), Some(997)));
    let mut launched = launch.resume().unwrap();
    watch.until("the end of the command", |_| {
        launched.try_wait().unwrap().is_some()
    });
    watch.finish();

    let all = watch.processes.all();
    let short: Vec<_> = all.iter().filter(|it| it.name == "work").collect();
    assert_eq!(short.len(), 40, "{all:?}");
    assert!(short.iter().all(|it| it.began && it.ended));
    let shares = watch.shares(&program);
    assert!(shares.get("light").copied().unwrap_or(0) > 200, "{shares:?}");
    // Every sample has a mapping.
    assert_eq!(shares.get("nowhere"), None, "{shares:?}");
}

#[test]
fn killed_process_ends_and_others_continue() {
    let program = need!(Program::new("killed"));
    let (one, other) = (
        program.start(&["light", "60000"]),
        program.start(&["heavy", "60000"]),
    );
    let scope = Scope::Processes(vec![one.pid(), other.pid()]);
    let mut watch = need!(Watch::start(&scope, Some(499)));
    watch.until("samples of both", |watch| {
        let shares = watch.shares(&program);
        shares.contains_key("light") && shares.contains_key("heavy")
    });
    let pid = one.pid();
    drop(one);
    watch.until("its end", |watch| {
        watch.processes.all().iter().any(|it| it.pid == pid && it.ended)
    });
    let before = watch.shares(&program)["heavy"];
    watch.until("further samples", |watch| {
        watch.shares(&program)["heavy"] > before
    });
    assert!(!watch.processes.all_ended());
}

#[test]
fn system_scope_reads_sampled_processes_and_excludes_own() {
    let program = need!(Program::new("system"));
    let child = program.start(&["light", "60000"]);
    let mut watch = need!(Watch::start(&Scope::System, Some(997)));
    let deadline = Instant::now() + PATIENCE;
    // Our own process computes too.
    while watch.shares(&program).get("light").copied().unwrap_or(0) < 20 {
        assert!(Instant::now() < deadline, "{:?}", watch.shares(&program));
        watch.drain();
    }
    let own = std::process::id();
    assert!(
        watch
            .sampler
            .stacks()
            .all(|(process, ..)| process.pid != own && process.pid != 0)
    );
    let all = watch.processes.all();
    assert!(all.iter().any(|it| it.pid == child.pid() && it.name == "work"));
    assert!(all.iter().all(|it| it.pid != own));
}

#[test]
fn process_events_work_without_samples() {
    let launch = Launch::prepare(&["true".into()], None).unwrap();
    let pid = launch.pid();
    let mut watch = need!(Watch::start(&Scope::Processes(vec![pid]), None));
    let mut launched = launch.resume().unwrap();
    watch.until("the end", |watch| watch.processes.all_ended());
    launched.wait().unwrap();
    watch.finish();
    let cpu = watch.sampler.counts();
    assert_eq!((cpu.samples, cpu.samples_per_s), (0, 0));
    assert_eq!(watch.processes.all()[0].name, "true");
    assert!(!watch.processes.files(pid).is_empty());
}

#[test]
fn cgroup_scope_excludes_others() {
    let program = need!(Program::new("cgroup"));
    let cgroup = need!(Cgroup::new());
    let below = cgroup.0.join("below");
    fs::create_dir(&below).unwrap();
    let (inside, outside) = (
        program.start(&["light", "60000"]),
        program.start(&["heavy", "60000"]),
    );
    fs::write(below.join("cgroup.procs"), inside.pid().to_string()).unwrap();
    let scope = Scope::Cgroup {
        folder: cgroup.0.clone(),
        id: fs::metadata(&cgroup.0).unwrap().ino(),
    };
    let mut watch = need!(Watch::start(&scope, Some(997)));
    watch.until("samples", |watch| {
        watch.shares(&program).get("light").copied().unwrap_or(0) > 50
    });
    // A process that joins later.
    fs::write(below.join("cgroup.procs"), outside.pid().to_string()).unwrap();
    assert_eq!(watch.shares(&program).get("heavy"), None);
    watch.until("samples of the other", |watch| {
        watch.shares(&program).contains_key("heavy")
    });
    let pids: Vec<u32> = watch.processes.all().iter().map(|it| it.pid).collect();
    let mut both = vec![inside.pid(), outside.pid()];
    both.sort_unstable();
    assert_eq!(pids, both);
    drop((inside, outside));
    watch.until("their ends", |watch| watch.processes.all_ended());
}

#[test]
fn unprivileged_user_samples_own_processes_only() {
    if !rustix::process::geteuid().is_root() {
        return Skip::new("only root can change to another user").print();
    }
    let program = need!(Program::new("unprivileged"));
    let mut command = program.command(&["family", "400"]);
    // It waits for a line, so that it still runs when we attach.
    let own = Running(command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID).spawn().unwrap());
    let foreign = program.start(&["light", "60000"]);
    // User ids of a thread are its own and end with it.
    let (own_pid, foreign_pid) = (own.pid(), foreign.pid());
    let seen = std::thread::spawn(move || {
        set_thread_res_gid(gid(), gid(), gid()).unwrap();
        set_thread_res_uid(uid(), uid(), uid()).unwrap();
        let refused = Watch::start_or_unavailable(&Scope::Processes(vec![foreign_pid]), Some(997));
        let refused = refused.map(drop).expect_err("a process of another user");
        let mut watch = match Watch::start_or_unavailable(&Scope::Processes(vec![own_pid]), Some(997)) {
            Ok(watch) => watch,
            Err(unavailable) => return Err(Skip::new(unavailable.to_string())),
        };
        watch.until("the end of the program", |watch| watch.processes.all_ended());
        watch.finish();
        Ok((refused, watch))
    });
    let (refused, watch) = need!(seen.join().unwrap());
    let text = refused.to_string();
    assert!(
        text.contains("EACCES") || text.contains("Permission denied"),
        "{text}"
    );
    assert!(text.contains("perf_event_paranoid"), "{text}");

    let cpu = watch.sampler.counts();
    assert!(cpu.samples > 100, "{cpu:?}");
    if cpu.user_only {
        assert_eq!(cpu.kernel_samples, 0);
        let parts: Vec<_> = watch.sampler.missing_parts().iter().map(|it| it.part).collect();
        assert_eq!(parts, ["kernel_samples"]);
    }
    let shares = watch.shares(&program);
    assert!(shares["light"] > 50 && shares["heavy"] > 50, "{shares:?}");
    assert_eq!(watch.processes.all().len(), 3, "{:?}", watch.processes.all());
}

/// A sampler with its processes; files are numbered in the order of their appearance.
struct Watch {
    sampler: Sampler,
    processes: Processes,
    paths: Vec<Vec<u8>>,
}

impl Watch {
    fn start(scope: &Scope, samples_per_s: Option<u32>) -> Result<Self, Skip> {
        Self::start_or_unavailable(scope, samples_per_s)
            .map_err(|unavailable| Skip::new(unavailable.to_string()))
    }

    fn start_or_unavailable(scope: &Scope, samples_per_s: Option<u32>) -> Result<Self, Unavailable> {
        let sampler = Sampler::start(scope, samples_per_s, Unwind::FramePointers, Instant::now())?;
        let mut paths = vec![];
        let mut processes = Processes::new(scope);
        processes.scan_existing(&mut |_, mapping| number(&mut paths, mapping));
        Ok(Self {
            sampler,
            processes,
            paths,
        })
    }

    fn drain(&mut self) {
        let paths = &mut self.paths;
        let mut on_mapping = |_: u32, mapping: &Mapping| number(paths, mapping);
        self.sampler.drain(&mut self.processes, &mut on_mapping);
    }

    fn finish(&mut self) {
        let paths = &mut self.paths;
        let mut on_mapping = |_: u32, mapping: &Mapping| number(paths, mapping);
        self.sampler.finish(&mut self.processes, &mut on_mapping);
    }

    /// Drains until the condition holds.
    fn until(&mut self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        wait_within(PATIENCE, what, || {
            let holds = condition(self);
            if !holds {
                self.drain();
            }
            holds.then_some(())
        });
    }

    /// Returns the samples of user code by function of the program; `elsewhere`: in other files.
    fn shares(&self, program: &Program) -> BTreeMap<String, u64> {
        let mut shares = BTreeMap::new();
        for (process, stack, count) in self.sampler.stacks() {
            if stack.kernel.is_empty() {
                let name = self.function(program, process, stack.user.first());
                *shares.entry(name).or_default() += count;
            }
        }
        shares
    }

    /// Returns the callers of a function of the program.
    fn callers(&self, program: &Program, of: &str) -> BTreeMap<String, u64> {
        let mut callers = BTreeMap::new();
        for (process, stack, count) in self.sampler.stacks() {
            if self.function(program, process, stack.user.first()) == of {
                let name = self.function(program, process, stack.user.get(1));
                *callers.entry(name).or_default() += count;
            }
        }
        callers
    }

    fn function(&self, program: &Program, process: Incarnation, address: Option<&u64>) -> String {
        let place = address.and_then(|&address| self.processes.locate(process, address));
        let Some((file, offset)) = place else {
            return "nowhere".to_owned();
        };
        if self.paths[file.0 as usize] != program.file.as_os_str().as_encoded_bytes() {
            return "elsewhere".to_owned();
        }
        let mut functions = program.functions.iter();
        functions
            .find(|(_, range)| range.contains(&offset))
            .map_or_else(|| format!("{offset:#x}"), |(name, _)| name.clone())
    }
}

fn number(paths: &mut Vec<Vec<u8>>, mapping: &Mapping) -> FileNumber {
    let known = paths.iter().position(|path| *path == mapping.path);
    let index = known.unwrap_or_else(|| {
        paths.push(mapping.path.clone());
        paths.len() - 1
    });
    FileNumber(index as u32)
}

/// A compiled program with known functions, in its own folder.
struct Program {
    folder: PathBuf,
    file: PathBuf,
    /// The file offsets of each function.
    functions: BTreeMap<String, Range<u64>>,
}

impl Program {
    fn new(test: &str) -> Result<Self, Skip> {
        let folder = std::env::temp_dir().join(format!("sockeye-sampler-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut program = Self {
            file: folder.join("work"),
            functions: BTreeMap::new(),
            folder,
        };
        let source = program.folder.join("work.c");
        fs::write(&source, SOURCE).unwrap();
        // With any optimisation gcc leaves the frame pointer out of functions that call nothing.
        let options = ["-O0", "-fno-omit-frame-pointer", "-pthread", "-o"];
        let compiled = Command::new("cc")
            .args(options)
            .arg(&program.file)
            .arg(&source)
            .status();
        match compiled {
            Ok(status) => assert!(status.success()),
            Err(error) => return Err(Skip::new(format!("no C compiler (cc): {error}"))),
        }
        program.functions = functions(&program.file);
        Ok(program)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.file);
        command.args(words).stdin(Stdio::null());
        command
    }

    fn start(&self, words: &[&str]) -> Running {
        let child = Running(self.command(words).spawn().unwrap());
        // Wait for its exec.
        let deadline = Instant::now() + PATIENCE;
        let link = format!("/proc/{}/exe", child.pid());
        while fs::read_link(&link).is_ok_and(|file| file != self.file) {
            assert!(Instant::now() < deadline);
        }
        child
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn functions(file: &Path) -> BTreeMap<String, Range<u64>> {
    let bytes = fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let offset = |address: u64| {
        elf.segments().find_map(|segment| {
            let (start, _) = segment.file_range();
            let below = address.checked_sub(segment.address())?;
            (below < segment.size()).then_some(start + below)
        })
    };
    let functions = elf.symbols().filter(|symbol| symbol.size() > 0);
    functions
        .filter_map(|symbol| {
            let start = offset(symbol.address())?;
            Some((symbol.name().ok()?.to_owned(), start..start + symbol.size()))
        })
        .collect()
}

/// A child process, killed on drop.
struct Running(Child);

impl Running {
    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// A cgroup (v2), removed on drop with its child `below`.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Result<Self, Skip> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let root = mounts.lines().find_map(|line| {
            let mut columns = line.split(' ').skip(1);
            let (folder, kind) = (columns.next()?, columns.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(folder))
        });
        let root = root.ok_or_else(|| Skip::new("no cgroup2 is mounted"))?;
        let folder = root.join(format!("sockeye-sampler-{}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => Ok(Self(folder)),
            Err(error) => Err(Skip::new(format!("cannot make {}: {error}", folder.display()))),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Killed processes may still be exiting.
        holds_within(DEADLINE, || {
            let _ = fs::remove_dir(self.0.join("below"));
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

fn uid() -> rustix::fs::Uid {
    rustix::fs::Uid::from_raw(UNPRIVILEGED_ID)
}

fn gid() -> rustix::fs::Gid {
    rustix::fs::Gid::from_raw(UNPRIVILEGED_ID)
}

const UNPRIVILEGED_ID: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(15);

/// Computes for a number of milliseconds of processor time; `heavy` does three times the work of `light`.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink, sink_of_thread;

static long used_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((noinline)) void light(void) { for (int i = 0; i < 100000; i++) sink += i; }
__attribute__((noinline)) void heavy(void) { for (int i = 0; i < 300000; i++) sink += i; }
__attribute__((noinline)) void other(void) { for (int i = 0; i < 200000; i++) sink_of_thread += i; }

__attribute__((noinline)) void run(long ms) { do { light(); heavy(); } while (used_ms() < ms); }

static void *thread(void *ms) { do other(); while (used_ms() < (long)ms); return 0; }

int main(int argc, char **argv)
{
    long ms = atol(argv[2]);
    if (!strcmp(argv[1], "light")) { do light(); while (used_ms() < ms); return 0; }
    if (!strcmp(argv[1], "heavy")) { do heavy(); while (used_ms() < ms); return 0; }
    if (!strcmp(argv[1], "thread")) {
        pthread_t other_one;
        pthread_create(&other_one, 0, thread, (void *)ms);
        run(ms);
        pthread_join(other_one, 0);
        return 0;
    }
    /* Time for the test to attach; then a fork, and an exec. */
    usleep(300000);
    if (!fork()) { do light(); while (used_ms() < ms); _exit(0); }
    if (!fork()) { execl(argv[0], argv[0], "heavy", argv[2], (char *)0); _exit(1); }
    while (wait(0) > 0) { }
    return 0;
}
"#;
