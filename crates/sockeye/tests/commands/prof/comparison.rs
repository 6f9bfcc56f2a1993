//! Reports of `sockeye prof` compared with programs that count and time themselves, and with strace and ltrace.

use crate::fixtures::binary::{Outcome, command, run};
use serde_json::Value;
use sockeye_lab::{Skip, need, program};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const COUNTS_ITSELF: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define FN __attribute__((noinline, noclone))
static jmp_buf back;
FN int fn_fib(int n) { __asm__ volatile(""); return n < 2 ? n : fn_fib(n - 1) + fn_fib(n - 2); }
FN int fn_odd(int n);
FN int fn_even(int n) { __asm__ volatile(""); return n ? 1 + fn_odd(n - 1) : 0; }
FN int fn_odd(int n) { __asm__ volatile(""); return n ? 1 + fn_even(n - 1) : 0; }
FN void fn_inner(void) { __asm__ volatile(""); longjmp(back, 1); }
FN void fn_outer(void) { fn_inner(); __asm__ volatile(""); }
FN int fn_leaf(int n) { __asm__ volatile(""); return n + 1; }
FN void fn_last(void) { __asm__ volatile(""); _exit(7); }
static void *thread(void *unused) { for (int i = 0; i < 500; i++) fn_leaf(i); return unused; }
int main(int count, char **words)
{
	if (count > 1) { /* after exec */
		for (int i = 0; i < 30; i++) fn_leaf(i);
		fn_last();
	}
	fn_fib(10); /* 177 calls */
	fn_even(20); /* 11 of it, 10 of the other */
	for (volatile int i = 0; i < 5; i++)
		if (!setjmp(back)) fn_outer();
	pthread_t threads[4];
	for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, thread, 0);
	for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
	int child = fork(), status = 0;
	if (!child) {
		for (int i = 0; i < 200; i++) fn_leaf(i);
		execl("/proc/self/exe", words[0], "again", (char *)0);
		_exit(1);
	}
	waitpid(child, &status, 0);
	fprintf(stderr, "child ended with %d\n", WEXITSTATUS(status));
	return 0;
}
"#;

#[test]
fn function_calls_are_those_of_the_program() {
    let folder = need!(Folder::new("functions"));
    for (name, flags) in [
        ("dynamic", &["-O1", "-pthread"][..]),
        ("frames", &["-O1", "-pthread", "-fno-omit-frame-pointer"]),
        ("protected", &["-O1", "-pthread", "-fcf-protection=full"]),
        ("static", &["-O1", "-pthread", "-static"]),
        ("stripped", &["-O1", "-pthread", "-rdynamic", "-s"]),
    ] {
        let program = folder.compile(name, COUNTS_ITSELF, flags);
        let outcome = prof(
            &["--only", "functions", "--functions", "fn_*", "--"],
            &program,
            &[],
        );
        assert!(
            outcome.error().contains("child ended with 7"),
            "{name}: {}",
            outcome.error()
        );
        let profile = need!(functions(&outcome));
        for (function, calls, missed) in [
            ("fn_fib", 177, 0),
            ("fn_even", 11, 0),
            ("fn_odd", 10, 0),
            ("fn_inner", 5, 5),
            ("fn_outer", 5, 5),
            ("fn_leaf", 4 * 500 + 200 + 30, 0),
            ("fn_last", 1, 1),
        ] {
            let reported = (
                sum(&profile, function, "calls"),
                sum(&profile, function, "missed_returns"),
            );
            assert_eq!(reported, (calls, missed), "{name}: {function}: {profile}");
        }
        // Recursion counts the outermost calls only: nothing can have taken longer than there was time.
        assert!(sum(&profile, "fn_fib", "total_ns") <= profile["duration_ns"].as_u64().unwrap());
        assert_eq!(profile["functions"]["calls_of_others"], 0, "{name}");
        let overhead = profile["functions"]["overhead_ns_per_call"].as_f64().unwrap();
        assert!(overhead > 50.0, "{name}: {overhead}");
    }
}

#[test]
fn exceptions_go_through_watched_functions() {
    let folder = need!(Folder::new("exceptions"));
    let source = r#"
#include <cstdio>
#define FN __attribute__((noinline))
FN int fn_deep(int n) { if (n % 3 == 0) throw n; __asm__ volatile(""); return n; }
FN int fn_middle(int n) { int got = fn_deep(n); __asm__ volatile(""); return got + 1; }
int main() {
	int caught = 0;
	for (int i = 0; i < 90; i++) try { fn_middle(i); } catch (int) { caught++; }
	std::fprintf(stderr, "caught %d\n", caught);
}
"#;
    let program = folder.compile("throws.cpp", source, &["-O1"]);
    let outcome = prof(
        &["--only", "functions", "--functions", "fn_*", "--"],
        &program,
        &[],
    );
    assert!(outcome.error().contains("caught 30"), "{}", outcome.error());
    let profile = need!(functions(&outcome));
    for function in ["fn_deep(int)", "fn_middle(int)"] {
        assert_eq!(sum(&profile, function, "calls"), 90, "{profile}");
        assert_eq!(sum(&profile, function, "missed_returns"), 30, "{profile}");
    }
}

#[test]
fn go_and_rust_programs_survive_probes() {
    let folder = need!(Folder::new("others"));
    let go = "package main\nimport \"os\"\n//go:noinline\nfunc called(n int) int { return n * 2 }\nfunc main() {\n\tdone := make(chan int)\n\tfor g := 0; g < 4; g++ {\n\t\tgo func() { sum := 0\n\t\t\tfor i := 0; i < 250; i++ { sum += called(i) }\n\t\t\tdone <- sum }()\n\t}\n\tfor g := 0; g < 4; g++ { <-done }\n\tos.Stderr.WriteString(\"alive\\n\")\n}\n";
    let rust = "#[inline(never)] fn called(n: u32) -> u32 { if n % 4 == 0 { panic!(\"no\") } std::hint::black_box(n) }\nfn main() { std::panic::set_hook(Box::new(|_| {}));\nlet caught = (0..1000).filter(|&n| std::panic::catch_unwind(|| called(n)).is_err()).count();\nif caught == 250 { eprintln!(\"alive\") } }\n";
    for (file, source, compiler, function, missed) in [
        ("go.go", go, &["go", "build", "-o"][..], "main.called", 0),
        (
            "rust.rs",
            rust,
            &["rustc", "-Copt-level=1", "-o"],
            "*called*",
            250,
        ),
    ] {
        let program = match folder.build(file, source, compiler) {
            Ok(program) => program,
            Err(skip) => {
                skip.print();
                continue;
            }
        };
        let outcome = prof(
            &["--only", "functions", "--functions", function, "--"],
            &program,
            &[],
        );
        assert!(outcome.error().contains("alive"), "{file}: {}", outcome.error());
        let profile = need!(functions(&outcome));
        let calls = profile["functions"]["calls"].as_array().unwrap();
        let called: Vec<_> = calls.iter().filter(|one| one["calls"] == 1000).collect();
        assert_eq!(called.len(), 1, "{file}: {profile}");
        assert_eq!(called[0]["missed_returns"], missed, "{file}: {profile}");
        let reported = profile["missing"].to_string();
        assert_eq!(
            reported.contains("Go moves its stacks"),
            file == "go.go",
            "{reported}"
        );
    }
}

#[test]
fn library_calls_are_those_of_ltrace() {
    let folder = need!(Folder::new("ltrace"));
    let library = "int lib_called(int n) { __asm__ volatile(\"\"); return n + 1; }\nint lib_other(int n) { __asm__ volatile(\"\"); return n; }\n";
    let library = folder.compile("libours.so", library, &["-O1", "-shared", "-fPIC"]);
    let source = "int lib_called(int); int lib_other(int);\nint main(void) { for (int i = 0; i < 321; i++) { lib_called(i); if (i % 3 == 0) lib_other(i); } return 0; }\n";
    let flags = [
        "-O1",
        "-no-pie",
        "-Wl,-z,lazy",
        "-Wl,-rpath,$ORIGIN",
        library.to_str().unwrap(),
    ];
    let program = folder.compile("calls", source, &flags);
    let wanted = [
        "--only",
        "functions",
        "--functions",
        "lib_*",
        "--lib",
        "libours",
        "--",
    ];
    let profile = need!(functions(&prof(&wanted, &program, &[])));
    let reported = ["lib_called", "lib_other"].map(|name| sum(&profile, name, "calls"));
    assert_eq!(reported, [321, 107], "{profile}");

    need!(self::program("ltrace"));
    let seen = folder.0.join("seen");
    let mut ltrace = Command::new("ltrace");
    ltrace.args(["-e", "lib_*", "-o"]).arg(&seen).arg(&program);
    run(&mut ltrace);
    let seen = fs::read_to_string(&seen).unwrap();
    let counted = ["lib_called(", "lib_other("].map(|name| seen.matches(name).count() as u64);
    assert_eq!(reported, counted, "{seen}");
}

#[test]
fn library_loaded_later_is_probed() {
    let folder = need!(Folder::new("dlopen"));
    let library = "int lib_called(int n) { __asm__ volatile(\"\"); return n + 1; }\n";
    let library = folder.compile("liblater.so", library, &["-O1", "-shared", "-fPIC"]);
    let source = "#include <dlfcn.h>\n#include <unistd.h>\nint main(int count, char **words) { int (*called)(int) = dlsym(dlopen(words[1], RTLD_NOW), \"lib_called\"); usleep(1500000); for (int i = 0; i < 77; i++) called(i); return 0; }\n";
    let program = folder.compile("loads", source, &["-O1", "-ldl"]);
    let wanted = ["--only", "functions", "--functions", "lib_called", "--"];
    let outcome = prof(&wanted, &program, &[library.to_str().unwrap()]);
    let profile = need!(functions(&outcome));
    assert_eq!(sum(&profile, "lib_called", "calls"), 77, "{profile}");
}

#[test]
fn program_executed_later_is_probed() {
    let folder = need!(Folder::new("later"));
    let source = "__attribute__((noinline)) void late_call(int n) { __asm__ volatile(\"\" :: \"r\"(n)); }\nint main(void) { for (int i = 0; i < 40; i++) late_call(i); return 0; }\n";
    let program = folder.compile("late", source, &["-O1"]);
    let path = program.to_str().unwrap();
    let script = format!("{path}; {path}; {path}");
    let shell = Path::new("sh");
    // By its path it is known before.
    let wanted = [
        "--only",
        "functions",
        "--functions",
        "late_c*",
        "--lib",
        path,
        "--",
    ];
    let profile = need!(functions(&prof(&wanted, shell, &["-c", &script])));
    assert_eq!(sum(&profile, "late_call", "calls"), 120, "{profile}");
    assert!(!profile["missing"].to_string().contains("meanwhile"), "{profile}");
    // Otherwise what was missed is reported.
    let wanted = ["--only", "functions", "--functions", "late_c*", "--"];
    let profile = need!(functions(&prof(&wanted, shell, &["-c", &script])));
    assert!(sum(&profile, "late_call", "calls") < 120, "{profile}");
    let missing = profile["missing"].to_string();
    assert!(missing.contains("late was mapped meanwhile"), "{profile}");
}

/// Another process that maps the same file and is not profiled.
#[test]
fn other_processes_are_skipped_or_reported() {
    let folder = need!(Folder::new("others"));
    let library = "int lib_called(int n) { __asm__ volatile(\"\"); return n + 1; }\n";
    let functions_of_it: String = (0..300)
        .map(|n| format!("int lib_{n}(int n) {{ return n + {n}; }}\n"))
        .collect();
    let library = format!("{library}{functions_of_it}");
    let library = folder.compile("libshared.so", &library, &["-O1", "-shared", "-fPIC"]);
    let source = "#include <stdio.h>\n#include <unistd.h>\nint lib_called(int);\nint main(int count, char **words) { puts(\"begun\"); fflush(stdout); for (int n = 0; count < 2 || n < 300; n++) { for (int i = 0; i < 100; i++) lib_called(i); usleep(1000); } return words[0] == 0; }\n";
    let flags = ["-O1", "-Wl,-rpath,$ORIGIN", library.to_str().unwrap()];
    let program = folder.compile("user", source, &flags);
    let (looked_at, other) = (Running::start(&program), Running::start(&program));
    let pid = looked_at.pid().to_string();
    let mut wanted = vec!["--only", "functions", "-d", "0.5", "--functions", "lib_called"];
    // In one process alone.
    let one = [&wanted[..], &["-p", &pid]].concat();
    let profile = need!(functions(&run(command().arg("prof").arg("--json").args(one))));
    assert!(sum(&profile, "lib_called", "calls") >= 100, "{profile}");
    assert_eq!(profile["functions"]["calls_of_others"], 0, "{profile}");
    // A command's children must be seen: probes are then in all processes, which is reported.
    wanted.push("--");
    let profile = functions(&prof(&wanted, &program, &["briefly"])).unwrap();
    assert!(sum(&profile, "lib_called", "calls") >= 100, "{profile}");
    assert!(
        profile["functions"]["calls_of_others"].as_u64().unwrap() >= 100,
        "{profile}"
    );
    // So many that it would slow down all processes: no probe is attached.
    let many = [
        "--only",
        "functions",
        "-d",
        "0.2",
        "--functions",
        "lib_*",
        "--lib",
        "libshared",
    ];
    for whom in [&["-p", &pid][..], &["--system"]] {
        let outcome = run(command().arg("prof").args(many).args(whom));
        let text = outcome.ok();
        assert!(
            text.contains("libshared.so: 301 functions are meant, and not watched"),
            "{text}"
        );
        assert!(text.contains("a narrower pattern"), "{text}");
        assert!(!text.contains("No function has such a name"), "{text}");
    }
    drop(other);
}

const CALLS_BY_PLAN: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static void *thread(void *unused)
{
	int null = open("/dev/null", O_WRONLY);
	for (int i = 0; i < 100; i++) { syscall(SYS_getppid); if (write(null, "x", 1) != 1) _exit(3); }
	close(null);
	return unused;
}
int main(int count, char **words)
{
	pthread_t one;
	if (count > 1) { for (int i = 0; i < 20; i++) syscall(SYS_getuid); return 0; }
	for (int i = 0; i < 3; i++) { pthread_create(&one, 0, thread, 0); pthread_join(one, 0); }
	for (int i = 0; i < 2; i++) {
		int child = fork(), status;
		if (!child) {
			for (int n = 0; n < 50; n++) { syscall(SYS_getgid); access("/nowhere", F_OK); }
			execl("/proc/self/exe", words[0], "again", (char *)0);
			_exit(1);
		}
		waitpid(child, &status, 0);
	}
	return 0;
}
"#;

#[test]
fn system_calls_are_those_of_strace() {
    let folder = need!(Folder::new("strace"));
    need!(self::program("strace"));
    let program = folder.compile("plan", CALLS_BY_PLAN, &["-O1", "-pthread"]);
    let outcome = prof(&["--only", "syscalls", "--"], &program, &[]);
    let profile = outcome.json();
    let Some(calls) = profile["syscalls"].as_array() else {
        return Skip::new(profile["missing"].to_string()).print();
    };
    let mut ours: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for call in calls {
        let reported = ours.entry(call["name"].as_str().unwrap().to_owned()).or_default();
        reported.0 += call["calls"].as_u64().unwrap();
        reported.1 += call["errors"].as_u64().unwrap();
    }
    let seen = folder.0.join("seen");
    run(Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&seen)
        .arg(&program))
    .ok();
    let seen = fs::read_to_string(&seen).unwrap();
    let mut theirs = BTreeMap::new();
    for line in seen.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, calls, errors @ .., name] = &words[..]
            && let Ok(calls) = calls.parse::<u64>()
            && *name != "total"
        {
            let errors = errors.first().map_or(0, |errors| errors.parse::<u64>().unwrap());
            theirs.insert((*name).to_owned(), (calls, errors));
        }
    }
    assert_eq!(ours["getppid"].0, 300);
    assert_eq!(ours["access"].1 - ours["access"].0 % 100, 100);
    for name in ["exit", "exit_group", "futex"] {
        // Those that do not return, and those that depend on who is faster.
        ours.remove(name);
        theirs.remove(name);
    }
    assert_eq!(ours, theirs, "{seen}");
}

#[test]
fn waits_are_those_that_the_program_measures() {
    let folder = need!(Folder::new("waits"));
    let source = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(void)
{
	struct timespec nap = {0, 10000000};
	int ends[2];
	char byte;
	long slept = 0, read_for = 0, began;
	for (int i = 0; i < 20; i++) { began = now(); nanosleep(&nap, 0); slept += now() - began; }
	if (pipe(ends)) return 1;
	if (!fork()) {
		for (int i = 0; i < 5; i++) { usleep(40000); if (write(ends[1], "x", 1) != 1) _exit(1); }
		_exit(0);
	}
	for (int i = 0; i < 5; i++) { began = now(); if (read(ends[0], &byte, 1) != 1) return 1; read_for += now() - began; }
	fprintf(stderr, "slept %ld read %ld pid %d\n", slept, read_for, getpid());
	wait(0);
	return 0;
}
"#;
    let program = folder.compile("waits", source, &["-O1"]);
    let outcome = prof(&["--only", "waits", "--"], &program, &[]);
    let profile = outcome.json();
    let Some(waits) = profile["waits"].as_array() else {
        return Skip::new(profile["missing"].to_string()).print();
    };
    let reported = outcome.error();
    let words: Vec<&str> = reported.split_whitespace().collect();
    let number = |name: &str| {
        let at = words.iter().position(|word| *word == name).unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    // The child's calls are known as well, from its first on.
    let naps: Vec<&Value> = waits
        .iter()
        .filter(|wait| wait["reason"] == "sleep" && wait["pid"] != number("pid"))
        .collect();
    assert!(
        naps.iter().all(|wait| wait["syscall"] == "clock_nanosleep"),
        "{profile}"
    );
    let count: u64 = naps.iter().map(|wait| wait["count"].as_u64().unwrap()).sum();
    assert_eq!(count, 5, "{profile}");
    for (reason, call, count, least_ns, own_ns) in [
        ("sleep", "clock_nanosleep", 20, 200_000_000, number("slept")),
        ("peer", "read", 5, 100_000_000, number("read")),
    ] {
        let of_it: Vec<&Value> = waits
            .iter()
            .filter(|wait| wait["pid"] == number("pid") && wait["reason"] == reason)
            .collect();
        let add = |key: &str| of_it.iter().map(|wait| wait[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(add("count"), count, "{reason}: {profile}");
        assert!(
            of_it.iter().all(|wait| wait["syscall"] == call),
            "{reason}: {profile}"
        );
        let total = add("total_ns");
        // A timer may be some microseconds early by another clock.
        assert!(
            total + 2_000_000 >= least_ns && total <= own_ns,
            "{reason}: {total}, {own_ns}"
        );
    }
}

#[test]
fn cpu_shares_are_those_that_the_program_measures() {
    let folder = need!(Folder::new("cpu"));
    let source = r#"
#include <stdio.h>
#include <time.h>
#define FN __attribute__((noinline, noclone))
static long cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
FN void fn_heavy(long ns) { long until = cpu() + ns; do for (volatile int i = 0; i < 20000; i++); while (cpu() < until); }
FN void fn_light(long ns) { long until = cpu() + ns; do for (volatile int i = 0; i < 20000; i++); while (cpu() < until); }
int main(void)
{
	for (int i = 0; i < 40; i++) { fn_heavy(30000000); fn_light(10000000); }
	return 0;
}
"#;
    let program = folder.compile("computes", source, &["-O1", "-fno-omit-frame-pointer"]);
    let profile = prof(&["--only", "cpu", "--hz", "497", "--"], &program, &[]).json();
    let Some(stacks) = profile["cpu"]["stacks"].as_array() else {
        return Skip::new(profile["missing"].to_string()).print();
    };
    let frames = profile["frames"].as_array().unwrap();
    let of = |name: &str| {
        let has = |stack: &&Value| {
            let stack = stack["stack"].as_array().unwrap().iter();
            stack
                .map(|frame| &frames[frame.as_u64().unwrap() as usize])
                .any(|frame| frame["function"] == name)
        };
        stacks
            .iter()
            .filter(has)
            .map(|stack| stack["samples"].as_u64().unwrap())
            .sum::<u64>() as f64
    };
    let (heavy, light, all) = (
        of("fn_heavy"),
        of("fn_light"),
        profile["cpu"]["samples"].as_f64().unwrap(),
    );
    assert!(
        heavy + light > 0.9 * all,
        "{heavy} and {light} of {all}: {profile}"
    );
    let share = heavy / (heavy + light);
    // Of some 800 samples: more than five standard deviations.
    assert!((0.67..0.83).contains(&share), "{heavy} to {light}");
    // As many as the processor time is worth, but for what a busy machine takes.
    assert!((0.7..1.2).contains(&(all / (1.6 * 497.0))), "{all}");
}

#[test]
fn processes_that_end_early_are_counted() {
    // Before anything happens.
    let outcome = run(command().args(["prof", "--json", "--", "true"]));
    assert!(outcome.json()["duration_ns"].as_u64().is_some());
    // While it is looked at.
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    let began = Instant::now();
    let looking = command()
        .args(["prof", "--json", "-d", "30", "-p", &pid])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Time is what is tested: a part of the 30 seconds, after what was set up.
    std::thread::sleep(Duration::from_millis(1_500));
    child.kill().unwrap();
    child.wait().unwrap();
    let output = looking.wait_with_output().unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it ends with the process"
    );
    assert!(output.status.success(), "{output:?}");
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    if let Some(processes) = profile["processes"].as_array().filter(|all| !all.is_empty()) {
        assert!(
            processes.iter().all(|process| process["ended"] == true),
            "{profile}"
        );
    }
}

/// 500 children and a moment of each: more of them than there are places, on all processors at once.
const MANY: &str = r#"
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 500; i++)
		if (!fork()) {
			for (int k = 0; k < 50; k++) getppid();
			usleep(50000);
			_exit(0);
		}
	while (wait(0) > 0);
	return 0;
}
"#;

#[test]
fn many_processes_on_all_processors_are_counted_to_the_call() {
    let folder = need!(Folder::new("many"));
    let program = folder.compile("many", MANY, &["-O1"]);
    for _ in 0..3 {
        let profile = prof(&["--only", "syscalls", "--"], &program, &[]).json();
        let Some(calls) = profile["syscalls"].as_array() else {
            return Skip::new(profile["missing"].to_string()).print();
        };
        let of = |names: &[&str]| -> u64 {
            let named = calls
                .iter()
                .filter(|call| names.iter().any(|name| call["name"] == *name));
            named.map(|call| call["calls"].as_u64().unwrap()).sum()
        };
        assert_eq!(profile["losses"]["syscalls"], 0);
        // What a child returns from by being born is no call of its own.
        assert_eq!(of(&["clone", "clone3", "fork", "vfork"]), 500, "{profile}");
        assert_eq!(of(&["wait4"]), 501, "{profile}");
        assert_eq!(of(&["getppid"]), 25_000);
        assert_eq!(of(&["clock_nanosleep", "nanosleep"]), 500);
    }
}

/// 40 threads that sleep in short bits.
const RESTLESS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *rest(void *unused) { for (;;) usleep(2000); return unused; }
int main(void)
{
	pthread_t thread;
	for (int i = 0; i < 40; i++) pthread_create(&thread, 0, rest, 0);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
"#;

#[test]
fn waits_are_not_longer_than_the_profile() {
    let folder = need!(Folder::new("restless"));
    let running = Running::start(&folder.compile("restless", RESTLESS, &["-O1", "-pthread"]));
    let pid = running.pid().to_string();
    for only in ["waits", "syscalls,waits", "syscalls,waits,cpu"] {
        let looked = ["prof", "--json", "-d", "0.5", "--only", only, "-p", &pid];
        let profile = run(command().args(looked)).json();
        let Some(waits) = profile["waits"].as_array() else {
            return Skip::new(profile["missing"].to_string()).print();
        };
        let sum: u64 = waits.iter().map(|wait| wait["total_ns"].as_u64().unwrap()).sum();
        let duration = profile["duration_ns"].as_u64().unwrap();
        let threads = sum as f64 / duration as f64;
        assert!(
            (37.0..=41.0).contains(&threads),
            "{only}: {threads} of 41 threads"
        );
        assert!(
            waits
                .iter()
                .all(|wait| wait["max_ns"].as_u64().unwrap() <= duration)
        );
    }
}

#[test]
fn invalid_system_call_numbers_are_reported() {
    let folder = need!(Folder::new("invalid"));
    let source = "#include <signal.h>\n#include <unistd.h>\nstatic void caught(int number) { (void)number; }\nint main(void) { syscall(-1); syscall(-5); syscall(9999); signal(SIGUSR1, caught); for (int i = 0; i < 3; i++) raise(SIGUSR1); return 0; }\n";
    let program = folder.compile("invalid", source, &["-O1"]);
    let profile = prof(&["--only", "syscalls", "--"], &program, &[]).json();
    let Some(calls) = profile["syscalls"].as_array() else {
        return Skip::new(profile["missing"].to_string()).print();
    };
    for (name, count) in [("invalid", 2), ("syscall_9999", 1), ("rt_sigreturn", 3)] {
        let reported = calls.iter().find(|call| call["name"] == name);
        assert_eq!(
            reported.map(|call| &call["calls"]),
            Some(&Value::from(count)),
            "{name}: {profile}"
        );
    }
}

/// Runs a program under `prof`, with a report as JSON.
fn prof(wanted: &[&str], program: &Path, arguments: &[&str]) -> Outcome {
    run(command()
        .args(["prof", "--json"])
        .args(wanted)
        .arg(program)
        .args(arguments))
}

/// The profile, if functions can be watched here.
fn functions(outcome: &Outcome) -> Result<Value, Skip> {
    if outcome.stdout.is_empty() && outcome.error().contains("functions cannot be watched") {
        return Err(Skip::new(outcome.error()));
    }
    let profile: Value = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", outcome.error()));
    if profile["functions"].is_null() {
        return Err(Skip::new(profile["missing"].to_string()));
    }
    Ok(profile)
}

/// Of a function in all processes.
fn sum(profile: &Value, name: &str, key: &str) -> u64 {
    let calls = profile["functions"]["calls"].as_array().unwrap().iter();
    let of_it = calls.filter(|one| one["name"] == name);
    of_it.map(|one| one[key].as_u64().unwrap()).sum()
}

/// A program that runs, until this is dropped.
struct Running(Child);

impl Running {
    /// Started, and at its first line of output.
    fn start(program: &Path) -> Self {
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for a test's programs.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, Skip> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Err(Skip::new("needs root"));
        }
        for compiler in ["cc", "c++"] {
            let version = Command::new(compiler).arg("--version").output();
            version.map_err(|_| Skip::new(format!("no {compiler} (Debian: gcc g++)")))?;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sockeye-truth-{}-{number}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Ok(Self(folder))
    }

    /// C, or C++ if the name says so.
    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let (compiler, language, name) = match name.strip_suffix(".cpp") {
            Some(name) => ("c++", "c++", name),
            None => ("cc", "c", name),
        };
        let (file, program) = (self.0.join("source"), self.0.join(name));
        fs::write(&file, source).unwrap();
        let mut compiling = Command::new(compiler);
        compiling
            .args(["-x", language])
            .arg(&file)
            .args(["-x", "none", "-o"]);
        run(compiling.arg(&program).args(flags)).ok();
        program
    }

    /// By another compiler, which need not be there.
    fn build(&self, file: &str, source: &str, compiler: &[&str]) -> Result<PathBuf, Skip> {
        let program = self.0.join("built");
        let source_file = self.0.join(file);
        fs::write(&source_file, source).unwrap();
        let output = Command::new(compiler[0])
            .args(&compiler[1..])
            .args([&program, &source_file])
            .env("GO111MODULE", "off")
            .output()
            .map_err(|_| Skip::new(format!("no {}", compiler[0])))?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        Ok(program)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
