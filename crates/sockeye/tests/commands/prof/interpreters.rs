//! `sockeye prof` of programs of Python and Node: the functions of their scripts have names.

use sockeye_lab::Skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A script in a folder that goes when it is dropped, with the perf maps of the processes that ran it.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("busy"), text).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("busy")
    }

    /// Returns the folded stacks of a command; `None`, with a note, where nothing can be sampled.
    fn stacks(&self, words: &[&str]) -> Option<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_sockeye"))
            .args(["prof", "--only", "cpu", "--hz", "499", "--folded"])
            .args(words)
            // Node writes a log where it is.
            .current_dir(&self.0)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("nothing can be looked at") {
            Skip::new(error.trim().to_owned()).print();
            return None;
        }
        if let Some(pid) = error.lines().find_map(|line| line.strip_prefix("pid ")) {
            let _ = std::fs::remove_file(Path::new("/tmp").join(format!("perf-{pid}.map")));
        }
        Some(String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns whether the program exists and succeeds with these arguments.
fn works(program: &str, words: &[&str]) -> bool {
    let tried = Command::new(program).args(words).output();
    tried.is_ok_and(|output| output.status.success())
}

#[test]
fn functions_of_node_have_names() {
    if !works("node", &["--version"]) {
        Skip::new("no node here".to_owned()).print();
        return;
    }
    let script = Script::new(
        "node",
        "console.error('pid ' + process.pid);
         function innerWork(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
         function outerWork() { let t = 0; const end = Date.now() + 1500; while (Date.now() < end) t += innerWork(100000); return t; }
         outerWork();",
    );
    let file = script.file();
    let Some(stacks) = script.stacks(&["--", "node", "--perf-basic-prof", file.to_str().unwrap()]) else {
        return;
    };
    assert!(named(&stacks, "innerWork") > 100, "{stacks}");
}

/// Python 3.12 or later writes a perf map with -X perf.
#[test]
fn functions_of_python_have_names() {
    let found = ["python3", "python3.14", "python3.13", "python3.12"]
        .into_iter()
        .find(|python| {
            works(
                python,
                &[
                    "-c",
                    "import sys; sys.exit(not hasattr(sys, 'activate_stack_trampoline'))",
                ],
            )
        });
    let Some(python) = found else {
        Skip::new("no Python with -X perf here (3.12 or later)".to_owned()).print();
        return;
    };
    // Most interpreters have no frame pointers: their stacks are walked by unwind tables, which are read on x86-64.
    if !cfg!(target_arch = "x86_64") {
        Skip::new("unwind tables are read on x86-64".to_owned()).print();
        return;
    }
    let script = Script::new(
        "python",
        "import os, sys, time\n\
         print('pid', os.getpid(), file=sys.stderr)\n\
         def inner_work(n):\n    s = 0\n    for i in range(n):\n        s = (s * 31 + i) % 1000003\n    return s\n\
         def outer_work():\n    end = time.time() + 1.5\n    while time.time() < end:\n        inner_work(20000)\n\
         outer_work()\n",
    );
    let file = script.file();
    let Some(stacks) = script.stacks(&[
        "--unwind",
        "auto",
        "--",
        python,
        "-X",
        "perf",
        file.to_str().unwrap(),
    ]) else {
        return;
    };
    let inner = stacks.lines().filter(|line| {
        let outer = line.find("py::outer_work:");
        outer.is_some() && line.find("py::inner_work:") > outer
    });
    assert!(inner.count() > 0, "{stacks}");
    assert!(named(&stacks, "py::inner_work:") > 100, "{stacks}");
}

/// Returns the samples of the stacks that have this function.
fn named(stacks: &str, function: &str) -> u64 {
    stacks
        .lines()
        .filter(|line| line.contains(function))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}
