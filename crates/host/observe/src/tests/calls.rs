//! Compares system calls and waits with strace, and with programs that wait for known times.

use crate::Scope;
use crate::calls::{CallOptions, Calls, RawCalls, RawSyscall, State, errno_name};
use sockeye_lab::{Skip, need};
use sockeye_source::BpfEngine;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn counts_match_strace() {
    let folder = Folder::new("counts");
    let program = folder.compile(COUNTED);
    if Command::new("strace").arg("-V").output().is_err() {
        Skip::new("no strace (Debian: strace)").print();
        return;
    }
    let mut process = Process::waiting(&program, &[]);
    let mut calls = need!(start(&Scope::Processes(vec![process.pid()])));
    process.go();
    process.end();
    let seen = calls.read().unwrap();
    assert_eq!(seen.losses, Default::default());
    let ours = by_name(&seen);
    let log = folder.path.join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o"]).arg(&log).arg(&program);
    let mut traced = strace
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    traced.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(traced.wait().unwrap().success());
    let truth = read_strace(&fs::read_to_string(&log).unwrap());
    // Other calls depend on the order of threads: futex, and those of malloc.
    let names = "read write openat close getppid clone clone3 wait4 execve rt_sigaction rt_sigreturn pause setitimer \
                 pipe2 clock_nanosleep sched_setaffinity exit_group";
    for name in names.split_whitespace() {
        let (ours, truth) = (ours.get(name), truth.get(name));
        assert_eq!(ours, truth, "{name}");
    }
    assert_eq!(ours["getppid"].0, 1000 + 4 * 500 + 3 * 100 + 50);
    assert_eq!(ours["openat"].1.get("ENOENT"), Some(&7));
    assert!(
        ours["pause"].1.contains_key("ERESTARTNOHAND"),
        "{:?}",
        ours["pause"]
    );
}

#[test]
fn calls_of_other_processes_are_not_counted() {
    let folder = Folder::new("others");
    let program = folder.compile(COUNTED);
    let mut one = Process::waiting(&program, &["child"]);
    let mut other = Process::waiting(&program, &["child"]);
    let mut calls = need!(start(&Scope::Processes(vec![one.pid()])));
    one.go();
    other.go();
    let pid = one.pid();
    one.end();
    other.end();
    let syscalls = calls.read().unwrap().syscalls.unwrap();
    assert!(syscalls.iter().all(|call| call.pid == pid), "{syscalls:?}");
    let getppid = find(&syscalls, "getppid");
    assert_eq!((getppid.calls, getppid.errors, getppid.unfinished), (50, 0, 0));
    assert!(getppid.timed > 0 && getppid.max_ns > 0, "{getppid:?}");
    // It began before the observation: its duration is unknown.
    let read = find(&syscalls, "read");
    assert!(read.timed < read.calls, "{read:?}");
}

#[test]
fn waits_have_planned_durations() {
    let folder = Folder::new("waits");
    let program = folder.compile(WAITING);
    let mut process = Process::waiting(&program, &[]);
    let pid = process.pid();
    let mut calls = need!(start(&Scope::Processes(vec![pid])));
    process.go();
    // Each waiting call, with its planned minimum and its measured maximum.
    let mut planned = Vec::new();
    loop {
        let line = process.line();
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["end"] => break,
            [name, least, most] => planned.push((
                name.to_owned(),
                least.parse::<u64>().unwrap(),
                most.parse::<u64>().unwrap(),
            )),
            _ => panic!("{line:?}"),
        }
    }
    assert_eq!(planned.len(), 6, "{planned:?}");
    let waits = calls.read().unwrap().waits.unwrap();
    let of = |name: &str| -> Vec<_> {
        waits
            .iter()
            .filter(|wait| wait.process.pid == pid && wait.state == State::Sleeping)
            .filter(|wait| wait.call.is_some_and(|call| call.name() == name))
            .collect()
    };
    for (name, least, most) in planned {
        // Waits for its input (fd 0) are not planned.
        let of_name: Vec<_> = of(&name)
            .into_iter()
            .filter(|wait| wait.unfinished == 0)
            .filter(|wait| wait.argument != Some(0) || name == "wait4")
            .collect();
        let total: u64 = of_name.iter().map(|wait| wait.total_ns).sum();
        assert!(
            (least..=most).contains(&total),
            "{name}: {total}, not {least} to {most}: {of_name:#?}"
        );
        for wait in of_name {
            assert!(!wait.stack.kernel.is_empty() && !wait.stack.user.is_empty());
        }
    }
    let object = |name: &str| of(name).iter().find_map(|wait| wait.object.clone()).unwrap();
    assert!(object("recvfrom").contains(" unix"), "{}", object("recvfrom"));
    assert!(object("futex").starts_with("futex 0x"), "{}", object("futex"));
    process.go();
    process.end();
}

#[test]
fn wait_in_progress_is_counted() {
    let folder = Folder::new("hangs");
    let program = folder.compile(HANGING);
    let mut process = Process::start(&program, &[]);
    let ends = process.line();
    process.until_in("recvfrom");
    let before = Instant::now();
    let mut calls = need!(start(&Scope::Processes(vec![process.pid()])));
    let started = Instant::now();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(100));
        let least = started.elapsed();
        let seen = calls.read().unwrap();
        let most = before.elapsed();
        let waits = seen.waits.unwrap();
        assert_eq!(waits.len(), 1, "{waits:?}");
        let wait = &waits[0];
        assert_eq!(wait.call.unwrap().name(), "recvfrom");
        assert_eq!((wait.count, wait.unfinished, wait.state), (1, 1, State::Sleeping));
        let took = Duration::from_nanos(wait.total_ns);
        assert!(least <= took && took <= most, "{least:?} {took:?} {most:?}");
        assert!(
            wait.stack.kernel.len() > 2 && !wait.stack.user.is_empty(),
            "{:?}",
            wait.stack
        );
        let object = format!("fd 5 tcp {}", ends.trim());
        assert_eq!(wait.object.as_deref(), Some(object.as_str()));
        let syscalls = seen.syscalls.unwrap();
        let recvfrom = find(&syscalls, "recvfrom");
        assert_eq!((recvfrom.calls, recvfrom.unfinished), (0, 1));
    }
}

#[test]
fn counts_of_killed_process_remain() {
    let folder = Folder::new("dies");
    let program = folder.compile(COUNTED);
    let mut process = Process::waiting(&program, &["child", "stay"]);
    let mut calls = need!(start(&Scope::Processes(vec![process.pid()])));
    process.go();
    process.until_in("pause");
    let before = calls.read().unwrap().syscalls.unwrap();
    assert_eq!(find(&before, "pause").unfinished, 1);
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    // The parent learns of the end before the last moment on a processor is counted.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let after = calls.read().unwrap();
        let syscalls = after.syscalls.unwrap();
        assert_eq!(find(&syscalls, "getppid").calls, 50);
        let still: u64 = syscalls.iter().map(|call| call.unfinished).sum();
        let waits: u64 = after.waits.unwrap().iter().map(|wait| wait.unfinished).sum();
        if still + waits == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{syscalls:?}");
    }
}

#[test]
fn many_calls_are_counted_exactly_and_few_timed() {
    let folder = Folder::new("many");
    let program = folder.compile(MANY);
    let mut process = Process::waiting(&program, &[]);
    let mut calls = need!(start(&Scope::Processes(vec![process.pid()])));
    process.go();
    let took_ns: u64 = process.line().trim().parse().unwrap();
    let syscalls = calls.read().unwrap().syscalls.unwrap();
    let getppid = find(&syscalls, "getppid");
    assert_eq!(getppid.calls, 2_000_000);
    assert!(getppid.timed > 0, "{getppid:?}");
    // The time of the others is extrapolated; the error is bounded.
    assert!(
        getppid.total_ns > 0 && getppid.total_ns < 3 * took_ns,
        "{getppid:?} in {took_ns}"
    );
    process.go();
    process.end();
}

#[test]
fn system_and_cgroup_scopes_count_members() {
    let folder = Folder::new("scopes");
    let program = folder.compile(COUNTED);
    let mut process = Process::waiting(&program, &["child"]);
    let pid = process.pid();
    let mut all = vec![("system", need!(start(&Scope::System)))];
    let group = Cgroup::new(pid);
    match &group {
        Some(group) => {
            all.push(("cgroup", need!(start(&group.scope()))));
            group.take(pid);
        }
        None => Skip::new("cannot create a cgroup (v2)").print(),
    }
    process.go();
    process.end();
    for (name, mut calls) in all {
        let seen = calls.read().unwrap();
        let mut syscalls = seen.syscalls.unwrap();
        syscalls.retain(|call| call.pid == pid);
        assert_eq!(find(&syscalls, "getppid").calls, 50, "{name}");
        let own = std::process::id();
        let waits = seen.waits.unwrap();
        assert!(waits.iter().all(|wait| wait.process.pid != own), "{name}");
    }
}

fn start(scope: &Scope) -> Result<Calls, Skip> {
    let options = CallOptions {
        from_exec: false,
        syscalls: true,
        waits: true,
    };
    match Calls::start(Arc::new(BpfEngine::default()), scope, options) {
        Ok(calls) => {
            assert_eq!(calls.missing_parts(), []);
            Ok(calls)
        }
        Err(unavailable) if rustix::process::geteuid().is_root() => panic!("{unavailable}"),
        Err(unavailable) => Err(Skip::new(unavailable.to_string())),
    }
}

fn find<'a>(syscalls: &'a [RawSyscall], name: &str) -> &'a RawSyscall {
    let found = syscalls.iter().find(|call| call.call.name() == name);
    found.unwrap_or_else(|| panic!("no {name} in {syscalls:?}"))
}

/// By call: how often it returned, and its errors.
type Counts = BTreeMap<String, (u64, BTreeMap<String, u64>)>;

fn by_name(seen: &RawCalls) -> Counts {
    let mut counts = Counts::new();
    for call in seen.syscalls.iter().flatten().filter(|call| call.calls > 0) {
        let (count, errors) = counts.entry(call.call.name()).or_default();
        *count += call.calls;
        for (errno, times) in &call.errnos {
            *errors.entry(errno_name(*errno)).or_default() += times;
        }
        let of_errnos: u64 = call.errnos.iter().map(|(_, times)| times).sum();
        assert_eq!(call.errors, of_errnos);
    }
    counts
}

/// Parses the log of `strace -f` from the first `read(0`.
fn read_strace(log: &str) -> Counts {
    let mut counts = Counts::new();
    let first = log.lines().position(|line| line.contains("read(0,")).unwrap();
    for line in log.lines().skip(first) {
        let line = line.split_once(' ').unwrap().1.trim();
        let name = match line.strip_prefix("<... ") {
            Some(resumed) => resumed.split(' ').next().unwrap(),
            None => line.split('(').next().unwrap(),
        };
        let Some((_, result)) = line.rsplit_once(" = ") else {
            continue;
        };
        let mut words = result.split(' ');
        let value = words.next();
        let error = words.next().filter(|word| word.starts_with('E'));
        if value == Some("?") && error.is_none() {
            continue; // it never returned
        }
        let (count, errors) = counts.entry(name.to_owned()).or_default();
        *count += 1;
        if let Some(error) = error {
            *errors.entry(error.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// A program that reads a byte before it starts its work; killed on drop.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.env_remove("LD_LIBRARY_PATH");
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Starts it and waits until it reads its byte.
    fn waiting(program: &Path, args: &[&str]) -> Self {
        let process = Self::start(program, args);
        process.until_in("read");
        process
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn go(&mut self) {
        self.input.as_mut().unwrap().write_all(b"x").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Waits until it sleeps in this call; for `read`, of its input.
    fn until_in(&self, name: &str) {
        let number = match name {
            "read" => syscalls::Sysno::read as u32,
            "recvfrom" => syscalls::Sysno::recvfrom as u32,
            _ => syscalls::Sysno::pause as u32,
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            let text = fs::read_to_string(format!("/proc/{}/syscall", self.pid())).unwrap_or_default();
            let mut words = text.split(' ');
            let is_in_call = words.next() == Some(number.to_string().as_str());
            if is_in_call && (name != "read" || words.next() == Some("0x0")) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("{} never came to {name}", self.pid());
    }

    fn end(&mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        let _ = self.output.read_to_string(&mut rest);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cgroup, removed on drop.
struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    fn new(pid: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = PathBuf::from(mounts.find(|words| words.get(2) == Some(&"cgroup2"))?[1]);
        let path = root.join(format!("sockeye-test-calls-{pid}"));
        fs::create_dir(&path).ok()?;
        Some(Self { path })
    }

    fn take(&self, pid: u32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn scope(&self) -> Scope {
        use std::os::unix::fs::MetadataExt;
        Scope::Cgroup {
            folder: self.path.clone(),
            id: fs::metadata(&self.path).unwrap().ino(),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // An ended process may stay in it for a moment.
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.path).is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy)
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A temporary folder, removed on drop.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-calls-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    fn compile(&self, source: &str) -> PathBuf {
        let (file, program) = (self.path.join("program.c"), self.path.join("program"));
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-fno-omit-frame-pointer", "-pthread", "-o"]);
        let status = compiler.arg(&program).arg(&file).status().unwrap();
        assert!(status.success());
        program
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Threads that change processors, children (one executes the program again), and signals.
const COUNTED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void ask(int times) { while (times--) syscall(SYS_getppid); }
static void caught(int signal) {}

static void *thread(void *arg)
{
	for (int i = 0; i < 10; i++) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(i % 2, &set);
		syscall(SYS_sched_setaffinity, 0, sizeof(set), &set);
		ask(50);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	char byte;
	if (argc < 2 || strcmp(argv[1], "again"))
		if (read(0, &byte, 1) != 1)
			return 1;
	if (argc > 1) {
		ask(50);
		if (argc > 2)
			syscall(SYS_pause);
		return 0;
	}
	/* SIGCHLD is ignored, but interrupts calls under strace, which would count more. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	ask(1000);
	for (int i = 0; i < 7; i++)
		open("/nowhere/at/all", O_RDONLY);
	struct sigaction action = {.sa_handler = caught};
	sigaction(SIGALRM, &action, NULL);
	struct itimerval soon = {.it_value.tv_usec = 100000};
	setitimer(ITIMER_REAL, &soon, NULL);
	syscall(SYS_pause);

	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, thread, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);

	int ends[2];
	if (pipe2(ends, 0))
		return 1;
	for (int i = 0; i < 3; i++) {
		if (!fork()) {
			ask(100);
			if (i == 1)
				execl("/proc/self/exe", "program", "again", NULL);
			write(ends[1], "x", 1);
			_exit(0);
		}
	}
	read(ends[0], &byte, 1);
	read(ends[0], &byte, 1);
	for (int i = 0; i < 3; i++)
		wait(NULL);
	usleep(1000);
	return 0;
}
"#;

/// Waits, and prints for each call the planned and the measured time.
const WAITING: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void report(const char *name, long long least, long long most)
{
	printf("%s %lld %lld\n", name, least, most);
}
/* The child sleeps, and then writes. */
static void after(int fd, int usec)
{
	if (!fork()) {
		usleep(usec);
		write(fd, "x", 1);
		_exit(0);
	}
}

int main(void)
{
	char byte;
	long long begin, took;
	if (read(0, &byte, 1) != 1)
		return 1;

	begin = now();
	for (int i = 0; i < 3; i++)
		usleep(50000);
	report("clock_nanosleep", 3 * 50000000LL, now() - begin);

	int word = 0;
	struct timespec limit = {.tv_nsec = 60000000};
	begin = now();
	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &limit, NULL, 0);
	report("futex", 60000000LL, now() - begin);

	begin = now();
	poll(NULL, 0, 30);
	report("poll", 30000000LL, now() - begin);

	int ends[2], pair[2];
	pipe(ends);
	after(ends[1], 300000);
	begin = now();
	read(ends[0], &byte, 1);
	took = now() - begin;
	/* With a late start the wait is shorter. */
	report("read", took > 200000000 ? took - 200000000 : 0, took);

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	after(pair[1], 300000);
	begin = now();
	recv(pair[0], &byte, 1, 0);
	took = now() - begin;
	report("recvfrom", took > 200000000 ? took - 200000000 : 0, took);

	begin = now();
	while (wait(NULL) > 0)
		;
	report("wait4", 0, now() - begin);
	printf("end\n");
	fflush(stdout);
	read(0, &byte, 1);
	return 0;
}
"#;

/// Waits for data that never arrives.
const HANGING: &str = r#"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

__attribute__((noinline)) int hang(int fd) { char byte; int got = recv(fd, &byte, 1, 0); return got + 1; }

int main(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, own;
	socklen_t size = sizeof(at);
	bind(listener, (void *)&at, size);
	listen(listener, 1);
	getsockname(listener, (void *)&at, &size);
	connect(one, (void *)&at, size);
	getsockname(one, (void *)&own, &size);
	int other = accept(listener, NULL, NULL);
	printf("127.0.0.1:%d > 127.0.0.1:%d\n", ntohs(at.sin_port), ntohs(own.sin_port));
	fflush(stdout);
	return hang(other);
}
"#;

/// Makes more calls than are timed.
const MANY: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	char byte;
	struct timespec begin, end;
	if (read(0, &byte, 1) != 1)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < 2000000; i++)
		syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
	fflush(stdout);
	read(0, &byte, 1);
	return 0;
}
"#;
