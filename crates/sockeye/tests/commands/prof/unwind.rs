//! `sockeye prof --unwind`: stacks of a program without frame pointers.

use sockeye_lab::Skip;
use std::path::PathBuf;
use std::process::Command;

/// `main` calls `outer`, `middle` and `inner`, which computes; each keeps its frame, without a frame pointer.
const PROGRAM: &str = r#"
#include <time.h>
volatile unsigned long sum;
__attribute__((noinline, noclone)) void inner(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum = sum * 31 + i; }
__attribute__((noinline, noclone)) void middle(unsigned long n) { volatile char kept[400]; kept[n % 400] = 1; inner(n); kept[0] = 2; }
__attribute__((noinline, noclone)) void outer(unsigned long n) { volatile char kept[4000]; kept[n % 4000] = 1; middle(n); kept[0] = 2; }
int main(void) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do { outer(100000); clock_gettime(CLOCK_MONOTONIC, &now); } while (now.tv_sec - begin.tv_sec < 2);
  return 0;
}
"#;

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn unwind_tables_show_callers_without_frame_pointers() {
    if !cfg!(target_arch = "x86_64") {
        Skip::new("unwind tables are read on x86-64".to_owned()).print();
        return;
    }
    let folder = Folder(std::env::temp_dir().join(format!("sockeye-unwind-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let (source, program) = (folder.0.join("deep.c"), folder.0.join("deep"));
    std::fs::write(&source, PROGRAM).unwrap();
    let compiled = Command::new("cc")
        .args(["-O2", "-fomit-frame-pointer", "-o"])
        .args([&program, &source])
        .output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        Skip::new("no C compiler here".to_owned()).print();
        return;
    }
    // Samples of `inner`, and those of them with all callers
    let shares = |how: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sockeye"))
            .args([
                "prof", "--only", "cpu", "--hz", "199", "--folded", "--unwind", how, "--",
            ])
            .arg(&program)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("nothing can be looked at") {
            Skip::new(error.trim().to_owned()).print();
            return None;
        }
        let stacks = String::from_utf8(output.stdout).unwrap();
        let samples = |wanted: &str| -> u64 {
            let lines = stacks.lines().filter(|line| line.contains(wanted));
            lines
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
                .sum()
        };
        let shares = (samples(";inner"), samples(";main;outer;middle;inner "));
        assert!(shares.0 > 50, "{how} {stacks}");
        Some((shares, stacks))
    };
    for how in ["dwarf", "auto"] {
        let Some(((all, whole), stacks)) = shares(how) else {
            return;
        };
        assert!(whole * 10 >= all * 9, "{how}: {whole} of {all} in {stacks}");
    }
    let Some(((all, whole), stacks)) = shares("fp") else {
        return;
    };
    assert!(whole * 10 <= all, "fp: {whole} of {all} in {stacks}");
}
