//! Compares calls of functions with programs that count them. The programs must not be disturbed.
use crate::functions::{FunctionCounts, FunctionFilter, Functions, startup_files};
use crate::{Scope, Symbols, Unavailable};
use sockeye_lab::{DEADLINE, Skip, holds_within, need};
use sockeye_profile::Function;
use sockeye_source::BpfEngine;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const NESTED: &str = r#"
#include <stdio.h>
#include <unistd.h>
#define FN __attribute__((noinline, noclone))
FN int leaf(int x) { __asm__ volatile(""); return x + 1; }
FN int mid(int x) { int r = 0; for (int i = 0; i < 10; i++) r += leaf(i + x); return r; }
FN int fact(int x) { int r = x < 2 ? 1 : x * fact(x - 1); __asm__ volatile("" : "+r"(r)); return r; }
FN int odd(int x);
FN int even(int x) { int r = x == 0 ? 1 : odd(x - 1); __asm__ volatile("" : "+r"(r)); return r; }
FN int odd(int x) { int r = x == 0 ? 0 : even(x - 1); __asm__ volatile("" : "+r"(r)); return r; }
FN void nap(void) { usleep(20000); __asm__ volatile(""); }
FN int jumps(int x) { return mid(x); }
int main(void) {
	int t = 0;
	for (int i = 0; i < 200; i++) t += mid(i);
	for (int i = 0; i < 50; i++) t += fact(8);
	for (int i = 0; i < 50; i++) t += even(9);
	for (int i = 0; i < 3; i++) nap();
	for (int i = 0; i < 7; i++) t += jumps(i);
	t += fact(100);
	printf("%d\n", t);
	return 7;
}
"#;

#[test]
fn nested_recursive_and_tail_calls_are_counted_and_timed() {
    let folder = need!(Folder::new("nested"));
    for flag in ["-fno-optimize-sibling-calls", "-foptimize-sibling-calls"] {
        let program = folder.compile("nested", NESTED, &["-O2", "-fno-ipa-icf", flag]);
        let seen = need!(watch(&program, "*", Some("nested")));
        assert_eq!(seen.status.code(), Some(7));
        let calls = |name| seen.one(name).calls;
        assert_eq!((calls("leaf"), calls("mid"), calls("jumps")), (2070, 207, 7));
        assert_eq!((calls("fact"), calls("even"), calls("odd")), (500, 250, 250));
        assert_eq!((calls("nap"), calls("main")), (3, 1));
        let total = |name| seen.one(name).total_ns.unwrap();
        let own = |name| seen.one(name).self_ns.unwrap();
        // The time of mid without leaf is its own time, to the nanosecond.
        assert_eq!(total("mid"), own("mid") + total("leaf"));
        // In a recursion only the outermost call counts.
        assert_eq!(total("fact"), own("fact"));
        assert_eq!(total("even"), own("even") + own("odd"));
        assert!(total("odd") < total("even") && own("jumps") < total("jumps"));
        assert!(total("nap") >= 60_000_000 && seen.one("nap").max_ns.unwrap() >= 20_000_000);
        assert!(total("main") >= total("nap") + total("even") + total("fact") + total("jumps"));
        // The kernel watches 64 nested returns, of which main is one.
        assert_eq!((seen.one("fact").missed_returns, seen.counts.lost), (37, 37));
        for name in ["leaf", "mid", "even", "odd", "nap", "jumps", "main"] {
            let function = seen.one(name);
            assert_eq!((function.missed_returns, function.unfinished), (0, 0), "{name}");
        }
        assert!(
            seen.counts
                .functions
                .overhead_ns_per_call
                .is_some_and(|ns| ns > 100.0)
        );
    }
}

#[test]
fn longjmp_and_exit_are_missed_returns() {
    let folder = need!(Folder::new("left"));
    let program = folder.compile(
        "left",
        r#"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define FN __attribute__((noinline, noclone))
static jmp_buf b;
static int deeps, fines;
FN int deep(int n) { deeps++; if (n == 0) longjmp(b, 1); int r = deep(n - 1); __asm__ volatile(""); return r + 1; }
FN int fine(int n) { fines++; __asm__ volatile(""); return n; }
FN int outer(int n) { volatile int r = 0; if (!setjmp(b)) r = deep(n); r += fine(n); return r; }
FN void leaves(void) { printf("%d %d\n", deeps, fines); exit(9); }
int main(void) { int t = 0; for (int i = 0; i < 500; i++) t += outer(i % 7); leaves(); return t; }
"#,
        &["-O1"],
    );
    let seen = need!(watch(&program, "*", Some("left")));
    let (deep, fine, outer) = (seen.one("deep"), seen.one("fine"), seen.one("outer"));
    assert_eq!(
        (seen.status.code(), [deep.calls, fine.calls]),
        (Some(9), seen.numbers()[..2].try_into().unwrap())
    );
    assert_eq!(
        (deep.missed_returns, deep.total_ns, deep.max_ns),
        (deep.calls, Some(0), None)
    );
    assert_eq!(
        (fine.missed_returns, outer.missed_returns, outer.calls),
        (0, 0, 500)
    );
    // The time in abandoned calls belongs to their caller.
    assert_eq!(
        outer.total_ns,
        Some(outer.self_ns.unwrap() + fine.total_ns.unwrap())
    );
    for name in ["main", "leaves"] {
        let function = seen.one(name);
        assert_eq!(
            (function.calls, function.missed_returns, function.unfinished),
            (1, 1, 0),
            "{name}"
        );
    }
}

#[test]
fn threads_forks_and_execs_are_followed() {
    let folder = need!(Folder::new("threads"));
    let program = folder.compile(
        "threads",
        r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#define FN __attribute__((noinline, noclone))
FN int work(int x) { __asm__ volatile(""); return x; }
FN int forks(void) { int child = fork(); __asm__ volatile(""); return child; }
FN void becomes(char *self) { execl(self, self, "child", NULL); }
FN void *starts(void *x) { for (int i = 0; i < 1000; i++) work(i); if (x) pthread_exit(NULL); return NULL; }
int main(int argc, char **argv) {
	pthread_t threads[8];
	if (argc > 1) { for (int i = 0; i < 33; i++) work(i); return 0; }
	for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, starts, (void *)(i % 2));
	for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
	int child = forks();
	if (child == 0) { for (int i = 0; i < 17; i++) work(i); becomes(argv[0]); }
	waitpid(child, NULL, 0);
	printf("%d\n", child);
	return 0;
}
"#,
        &["-O1", "-pthread"],
    );
    let seen = need!(watch(&program, "*", Some("threads")));
    let (parent, child) = (seen.pid, u32::try_from(seen.numbers()[0]).unwrap());
    let of = |name: &str, pid| {
        let function = seen
            .of(name, pid)
            .unwrap_or_else(|| panic!("no {name} of {pid} in {seen:?}"));
        (function.calls, function.missed_returns)
    };
    assert_eq!((of("work", parent), of("work", child)), ((8000, 0), (50, 0)));
    assert_eq!(of("starts", parent), (8, 4));
    // The child returns from a call of its parent, which does not count.
    assert_eq!((of("forks", parent), seen.of("forks", child)), ((1, 0), None));
    assert_eq!(of("becomes", child), (1, 1));
    assert_eq!((of("main", child), of("main", parent)), ((1, 0), (1, 0)));
}

#[test]
fn alternate_stacks_do_not_break_the_program() {
    let folder = need!(Folder::new("stacks"));
    let program = folder.compile(
        "stacks",
        r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#define FN __attribute__((noinline, noclone))
static ucontext_t from, to;
static int handled, yields;
FN int in_handler(int x) { handled++; return x; }
static void handler(int s) { in_handler(s); }
FN int with_signal(int x) { raise(SIGUSR1); __asm__ volatile(""); return x; }
FN int yield_back(int x) { yields++; swapcontext(&to, &from); __asm__ volatile(""); return x; }
FN int yield(int x) { swapcontext(&from, &to); __asm__ volatile(""); return x; }
static void coroutine(void) { for (int i = 0;; i++) yield_back(i); }
static void *stack(size_t bytes) {
	char *all = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(all + 4096, bytes, PROT_READ | PROT_WRITE);
	return all + 4096;
}
int main(void) {
	stack_t other = {.ss_sp = stack(65536), .ss_size = 65536};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	int t = 0;
	sigaltstack(&other, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 100; i++) t += with_signal(i);
	getcontext(&to);
	to.uc_stack.ss_sp = stack(65536);
	to.uc_stack.ss_size = 65536;
	makecontext(&to, coroutine, 0);
	for (int i = 0; i < 100; i++) t += yield(i);
	printf("%d %d %d\n", handled, yields, t);
	return 0;
}
"#,
        &["-O1"],
    );
    let alone = run(&program);
    let seen = need!(watch(&program, "*", Some("stacks")));
    if seen.mechanism != "uprobe_session" {
        return Skip::new("before Linux 6.13 the kernel ends programs with several stacks").print();
    }
    assert_eq!((seen.status, &seen.output), (alone.0, &alone.1));
    for name in ["in_handler", "with_signal", "yield", "yield_back"] {
        assert_eq!(seen.one(name).calls, 100, "{name}");
    }
    for name in ["with_signal", "yield", "main"] {
        assert_eq!(seen.one(name).missed_returns, 0, "{name}");
    }
}

#[test]
fn exceptions_and_panics_are_missed_returns() {
    let folder = need!(Folder::new("exceptions"));
    let program = folder.compile(
        "exceptions.cpp",
        r#"
#include <cstdio>
#include <stdexcept>
#define FN __attribute__((noinline))
namespace deep {
int throws, returns;
FN int thrower(int n) { if (n == 0) { throws++; throw std::runtime_error("x"); } int r = n > 5 ? n : thrower(n - 1); __asm__ volatile("" : "+r"(r)); return r + 1; }
FN int catcher(int n) { try { int r = thrower(n); returns++; return r; } catch (const std::exception &) { return 1; } }
}
int main() { int t = 0; for (int i = 0; i < 900; i++) t += deep::catcher(i % 9); printf("%d %d %d\n", deep::throws, deep::returns, t); return 3; }
"#,
        &["-O2"],
    );
    let alone = run(&program);
    let seen = need!(watch(&program, "deep::*", None));
    assert_eq!((seen.status, &seen.output), (alone.0, &alone.1));
    let (catcher, thrower) = (seen.one("deep::catcher(int)"), seen.one("deep::thrower(int)"));
    assert_eq!((catcher.calls, catcher.missed_returns), (900, 0));
    // Of nine calls six throw, through one to six frames; three return.
    assert_eq!((thrower.calls, thrower.missed_returns), (2400, 2100));
    assert_eq!(seen.numbers()[..2], [600, 300]);
    assert!(catcher.total_ns > thrower.total_ns && thrower.total_ns > Some(0));

    let source = r#"
mod inner { #[inline(never)] pub fn work(n: u32) -> u32 { if n % 4 == 0 { panic!("no") } std::hint::black_box(n) } }
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let caught = (0..400).filter(|n| std::panic::catch_unwind(|| inner::work(*n)).is_err()).count();
    println!("{caught}");
}
"#;
    let program = need!(folder.build("panics", "panics.rs", source, &["rustc", "-O", "-o"]));
    let seen = need!(watch(&program, "panics::inner::*", None));
    assert_eq!((seen.output.trim(), seen.status.code()), ("100", Some(0)));
    let work = seen.one("panics::inner::work");
    assert_eq!((work.calls, work.missed_returns), (400, 100));
}

#[test]
fn go_functions_are_counted_not_timed() {
    let folder = need!(Folder::new("go"));
    let source = r#"package main

import "fmt"

//go:noinline
func Work(n int) int { var room [4096]byte; room[n%4096] = 1; if n%100 == 0 { return deeper(n, 200) }; return int(room[0]) }

//go:noinline
func deeper(n, more int) int { var room [512]byte; room[n%512] = 1; if more == 0 { return n }; return deeper(n, more-1) + int(room[1]) }

func main() {
	done := make(chan int)
	for g := 0; g < 8; g++ { go func() { t := 0; for i := 0; i < 500; i++ { t += Work(i) }; done <- t }() }
	t := 0
	for g := 0; g < 8; g++ { t += <-done }
	fmt.Println(t)
}
"#;
    let program = need!(folder.build("gomain", "main.go", source, &["go", "build", "-o"]));
    let alone = run(&program);
    let seen = need!(watch(&program, "main.*", None));
    assert_eq!((seen.status, &seen.output), (alone.0, &alone.1));
    let work = seen.one("main.Work");
    assert_eq!(
        (work.calls, work.total_ns, work.self_ns, work.max_ns),
        (4000, None, None, None)
    );
    assert_eq!(seen.one("main.deeper").calls, 8 * 5 * 201);
    assert!(
        seen.missing_parts
            .iter()
            .any(|unavailable| unavailable.text.contains("Go")),
        "{:?}",
        seen.missing_parts
    );
}

#[test]
fn static_stripped_and_dlopened_files_are_watched() {
    let folder = need!(Folder::new("files"));
    let source = "__attribute__((noinline)) int work(int x) { __asm__ volatile(\"\"); return x; }\nint main(void) { int t = 0; for (int i = 0; i < 321; i++) t += work(i); return t & 7; }\n";
    let program = folder.compile("fixed", source, &["-O1", "-static"]);
    assert_eq!(need!(watch(&program, "work", None)).one("work").calls, 321);
    let program = folder.compile("stripped", source, &["-O1", "-rdynamic", "-s"]);
    assert_eq!(need!(watch(&program, "wo?k", None)).one("work").calls, 321);

    let library = folder.compile(
        "libwork.so",
        "int work(int x) { __asm__ volatile(\"\"); return x; }\nextern __typeof(work) other_name __attribute__((alias(\"work\")));\n",
        &["-O1", "-shared", "-fPIC"],
    );
    let program = folder.compile(
        "loads",
        &r#"
#include <dlfcn.h>
#include <stdio.h>
__attribute__((noinline)) static void say(const char *what) { puts(what); fflush(stdout); getchar(); }
int main(void) { int (*f)(int) = dlsym(dlopen("LIBRARY", RTLD_NOW), "work"); say("loaded"); for (int i = 0; i < 45; i++) f(i); say("called"); return 0; }
"#.replace("LIBRARY", library.to_str().unwrap()),
        &["-O1", "-ldl"],
    );
    let mut child = PausedProgram::start(&program);
    let mut symbols = Symbols::new();
    let mut functions = need!(start(&Scope::Processes(vec![child.pid()]), "*", Some("libwork")));
    add_files(&mut functions, &mut symbols, &program);
    assert!(functions.no_match(&mut symbols).unwrap().text.contains("libwork"));
    child.resume();
    child.wait_for("loaded");
    let file = symbols.add_path(&library).unwrap();
    assert!(functions.add_file(&mut symbols, file) >= 1);
    assert_eq!(functions.add_file(&mut symbols, file), 0);
    child.resume();
    child.wait_for("called");
    let calls = functions.read().unwrap().functions.calls;
    // Two names at one address are one function.
    let work: Vec<_> = calls.iter().filter(|function| function.calls == 45).collect();
    assert_eq!(
        (work.len(), &*work[0].name, &*work[0].module, work[0].pid),
        (1, "work", "libwork.so", child.pid())
    );
    child.resume();
    assert!(child.end().0.success());
}

#[test]
fn watching_all_of_the_c_library_does_not_break_it() {
    let folder = need!(Folder::new("library"));
    // A copy: breakpoints in the shared one would slow all tests down.
    let library = need!(c_library());
    fs::copy(&library, folder.0.join("libc.so.6")).unwrap();
    let program = folder.compile(
        "library",
        r#"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static jmp_buf b;
static int order(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }
static void *thread(void *x) { free(malloc(100)); pthread_exit(x); }
static void handler(int s) { (void)s; }
int main(int argc, char **argv) {
	int n[100];
	pthread_t other;
	for (int i = 0; i < 100; i++) n[i] = i * 7919 % 101;
	qsort(n, 100, sizeof(int), order);
	if (!sigsetjmp(b, 1)) siglongjmp(b, 1);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
	if (system("true")) return 1;
	if (!fork()) _exit(0);
	wait(NULL);
	char *line = NULL;
	size_t room = 0;
	FILE *pipe = popen("echo hello", "r");
	if (getline(&line, &room, pipe) > 0) printf("%s", line);
	pclose(pipe);
	printf("%d %s %ld %zu\n", n[50], strdup("x"), strtol("77", NULL, 10), strlen(argv[argc - 1]));
	return strchr("abc%d", '%') == NULL;
}
"#,
        &["-O1", "-pthread", &format!("-Wl,-rpath,{}", folder.0.display())],
    );
    let alone = run(&program);
    assert!(alone.0.success());
    let seen = need!(watch(&program, "*", Some("libc")));
    assert_eq!((seen.status, &seen.output), (alone.0, &alone.1));
    assert!(seen.counts.functions.watched > 1000);
    assert_eq!((seen.one("qsort").calls, seen.one("getline").calls), (1, 1));
    // The loader selects which of them is called.
    assert!(
        seen.missing_parts
            .iter()
            .any(|unavailable| unavailable.text.contains("IFUNC")),
        "{:?}",
        seen.missing_parts
    );
}

#[test]
fn calls_in_progress_are_unfinished() {
    let folder = need!(Folder::new("last"));
    let program = folder.compile(
        "last",
        "#include <stdio.h>\n__attribute__((noinline)) void waits(void) { puts(\"in\"); fflush(stdout); getchar(); __asm__ volatile(\"\"); }\nint main(void) { waits(); return 0; }\n",
        &["-O1"],
    );
    let mut child = PausedProgram::start(&program);
    let mut symbols = Symbols::new();
    let mut functions = need!(start(&Scope::Processes(vec![child.pid()]), "waits", None));
    add_files(&mut functions, &mut symbols, &program);
    child.resume();
    child.wait_for("in");
    let counts = || {
        let function = functions.read().unwrap().functions.calls.remove(0);
        (
            function.calls,
            function.unfinished,
            function.missed_returns,
            function.max_ns.is_some(),
        )
    };
    assert_eq!(counts(), (1, 1, 0, false));
    child.resume();
    assert!(child.end().0.success());
    assert_eq!(counts(), (1, 0, 0, true));
}

#[test]
fn processes_out_of_scope_are_not_counted() {
    let folder = need!(Folder::new("scope"));
    let source = "__attribute__((noinline)) int work(int x) { __asm__ volatile(\"\"); return x; }\nint main(void) { for (int i = 0; i < 50; i++) work(i); return 0; }\n";
    let program = folder.compile("scope", source, &["-O1"]);
    let group = need!(Group::new());
    let (mut one, mut other) = (PausedProgram::start(&program), PausedProgram::start(&program));
    fs::write(group.0.join("below/cgroup.procs"), one.pid().to_string()).unwrap();
    let in_group = Scope::Cgroup {
        id: std::os::unix::fs::MetadataExt::ino(&fs::metadata(&group.0).unwrap()),
        folder: group.0.clone(),
    };
    let mut symbols = Symbols::new();
    let mut all = Vec::new();
    for scope in [Scope::Processes(vec![one.pid()]), Scope::System, in_group] {
        let mut functions = need!(start(&scope, "work", None));
        add_files(&mut functions, &mut symbols, &program);
        all.push(functions);
    }
    let (first, second) = (one.pid(), other.pid());
    for child in [&mut one, &mut other] {
        child.resume();
        assert!(child.end().0.success());
    }
    let seen = all.iter().map(|functions| {
        let calls = functions.read().unwrap().functions.calls;
        let mut calls: Vec<_> = calls
            .iter()
            .map(|function| (function.pid, function.calls))
            .collect();
        calls.sort_unstable();
        calls
    });
    let mut both = vec![(first, 50), (second, 50)];
    both.sort_unstable();
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [vec![(first, 50)], both, vec![(first, 50)]]
    );
}

#[test]
fn unknown_name_reports_similar_ones() {
    let folder = need!(Folder::new("names"));
    let program = folder.compile("names", NESTED, &["-O1"]);
    let mut symbols = Symbols::new();
    let mut functions = need!(start(&Scope::System, "facct", Some("names")));
    add_files(&mut functions, &mut symbols, &program);
    let unavailable = functions.no_match(&mut symbols).unwrap();
    assert!(unavailable.text.contains("facct"), "{unavailable}");
    assert!(
        unavailable
            .remedy
            .is_some_and(|remedy| remedy.contains("similar: fact")),
        "{}",
        unavailable.text
    );
}

#[test]
fn missing_rights_are_reported() {
    let refused = std::thread::spawn(|| {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective = rustix::thread::CapabilitySet::empty();
        rustix::thread::set_capabilities(None, sets).unwrap();
        Functions::start(&BpfEngine::default(), &Scope::System, &FunctionFilter::default()).map(drop)
    });
    let unavailable = refused.join().unwrap().unwrap_err();
    assert_eq!(unavailable.part, "functions");
    let text = unavailable.to_string();
    assert!(text.contains("CAP_BPF"), "{text}");
}

#[test]
fn kernel_functions_are_counted_or_refused_with_remedy() {
    static ENGINE: OnceLock<BpfEngine> = OnceLock::new();
    let engine = ENGINE.get_or_init(BpfEngine::default);
    match Functions::start_kernel(engine, &Scope::Processes(vec![std::process::id()]), "ksys_rea?") {
        Ok(mut functions) => {
            functions.begin().unwrap();
            for _ in 0..10 {
                fs::read("/proc/self/stat").unwrap();
            }
            let calls = functions.read().unwrap().functions.calls;
            let read = calls
                .iter()
                .find(|function| function.name == "ksys_read")
                .unwrap();
            assert!(
                read.calls >= 10 && read.total_ns > Some(0) && read.module == "kernel",
                "{calls:?}"
            );
        }
        // Where it is forbidden, the report must say so, and what still works.
        Err(unavailable) => {
            assert_eq!(unavailable.part, "kernel_functions");
            assert!(unavailable.remedy.is_some(), "{unavailable}");
            Skip::new(unavailable.to_string()).print();
        }
    }
}

/// A program's own result and the counts of its functions.
#[derive(Debug)]
struct Watched {
    pid: u32,
    status: ExitStatus,
    output: String,
    counts: FunctionCounts,
    missing_parts: Vec<Unavailable>,
    mechanism: &'static str,
}

impl Watched {
    fn one(&self, name: &str) -> &Function {
        self.of(name, self.pid)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    fn of(&self, name: &str, pid: u32) -> Option<&Function> {
        self.counts
            .functions
            .calls
            .iter()
            .find(|function| function.name == name && function.pid == pid)
    }

    /// Returns the numbers that the program printed.
    fn numbers(&self) -> Vec<u64> {
        let words = self.output.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    }
}

/// Runs a program to its end and watches its functions.
fn watch(program: &Path, pattern: &str, library: Option<&str>) -> Result<Watched, Skip> {
    let mut child = PausedProgram::start(program);
    let mut symbols = Symbols::new();
    let mut functions = start(&Scope::Processes(vec![child.pid()]), pattern, library)?;
    add_files(&mut functions, &mut symbols, program);
    assert!(functions.watched() > 0, "{:?}", functions.no_match(&mut symbols));
    child.resume();
    let (status, output) = child.end();
    Ok(Watched {
        pid: child.pid(),
        status,
        output,
        counts: functions.read().unwrap(),
        missing_parts: functions.missing_parts(),
        mechanism: functions.mechanism(),
    })
}

fn start(scope: &Scope, pattern: &str, library: Option<&str>) -> Result<Functions, Skip> {
    static ENGINE: OnceLock<BpfEngine> = OnceLock::new();
    let filter = FunctionFilter {
        pattern: pattern.to_owned(),
        library: library.map(str::to_owned),
    };
    let mut functions = Functions::start(ENGINE.get_or_init(BpfEngine::default), scope, &filter)
        .map_err(|unavailable| Skip::new(unavailable.to_string()))?;
    functions.begin().unwrap();
    Ok(functions)
}

/// Adds the files that a program maps at its start.
fn add_files(functions: &mut Functions, symbols: &mut Symbols, program: &Path) {
    for file in startup_files(program) {
        let number = symbols.add_path(&file).unwrap();
        functions.add_file(symbols, number);
    }
}

fn run(program: &Path) -> (ExitStatus, String) {
    let mut child = PausedProgram::start(program);
    child.resume();
    child.end()
}

/// Returns the C library of the system.
fn c_library() -> Result<PathBuf, Skip> {
    startup_files(Path::new("/bin/sh"))
        .into_iter()
        .find(|file| file.ends_with("libc.so.6"))
        .ok_or_else(|| Skip::new("the C library is not glibc"))
}

/// A program that waits until it is resumed; killed on drop.
struct PausedProgram {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl PausedProgram {
    fn start(program: &Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", "read line && exec \"$1\"", "sh"])
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn resume(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn wait_for(&mut self, expected: &str) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    fn end(&mut self) -> (ExitStatus, String) {
        let mut output = String::new();
        self.output.read_to_string(&mut output).unwrap();
        (self.child.wait().unwrap(), output)
    }
}

impl Drop for PausedProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cgroup with the child `below`, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new() -> Result<Self, Skip> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|words| words.get(2) == Some(&"cgroup2"))
            .map(|words| words[1].to_owned())
            .ok_or_else(|| Skip::new("no cgroup2 is mounted"))?;
        let folder = Path::new(&root).join(format!("sockeye-functions-{}", std::process::id()));
        match fs::create_dir_all(folder.join("below")) {
            Ok(()) if folder.join("cgroup.procs").exists() => Ok(Self(folder)),
            _ => Err(Skip::new("no cgroup of cgroup2 can be made")),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may still be exiting.
        holds_within(DEADLINE, || {
            let _ = fs::remove_dir(self.0.join("below"));
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, Skip> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        for compiler in ["cc", "c++"] {
            let version = Command::new(compiler).arg("--version").output();
            version.map_err(|_| Skip::new(format!("no {compiler} (Debian: gcc g++)")))?;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sockeye-functions-{}-{number}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Ok(Self(folder))
    }

    /// Compiles C, or C++ if the name ends in `.cpp`.
    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (compiler, name) = match name.strip_suffix(".cpp") {
            Some(name) => ("c++", name),
            None => ("cc", name),
        };
        let (file, program) = (self.0.join("source"), self.0.join(name));
        fs::write(&file, source).unwrap();
        let language = if compiler == "cc" { "c" } else { "c++" };
        let output = Command::new(compiler)
            .args(["-x", language])
            .arg(&file)
            .args(["-x", "none", "-o"])
            .arg(&program)
            .args(flags)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        program
    }

    /// Builds with another compiler; skips the test if there is none.
    fn build(&self, name: &str, file: &str, source: &str, command: &[&str]) -> Result<PathBuf, Skip> {
        let (file, program) = (self.0.join(file), self.0.join(name));
        fs::write(&file, source).unwrap();
        let output = Command::new(command[0])
            .args(&command[1..])
            .args([&program, &file])
            .env("GO111MODULE", "off")
            .output()
            .map_err(|_| Skip::new(format!("no {}", command[0])))?;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(program)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
