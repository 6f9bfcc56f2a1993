//! A program to be profiled: does a known amount of work, and measures it by its own clocks.

use anyhow::{Context, Result, bail};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::hint::black_box;
use std::io::Write;

/// The argument that makes `bench-compare` this program: [`run_known_work`].
pub const KNOWN_WORK: &str = "--exercise";

/// `compute N` or `call N`: N steps of a calculation, or N calls of a function. Prints its start time and
/// duration, in nanoseconds.
pub fn run_known_work(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut word = || arguments.next().and_then(|word| word.into_string().ok());
    let (what, many) = (word().unwrap_or_default(), word());
    let many: u64 = many.and_then(|many| many.parse().ok()).context("no number")?;
    let began = clock_ns(ClockId::CLOCK_MONOTONIC)?;
    let cpu_began = clock_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    let mut state = 1;
    match what.as_str() {
        "compute" => {
            for _ in 0..many {
                state = black_box(step(state));
            }
        }
        "call" => {
            for _ in 0..many {
                state = bench_called(black_box(state));
            }
        }
        _ => bail!("nothing is known of {what:?}"),
    }
    black_box(state);
    let took = clock_ns(ClockId::CLOCK_MONOTONIC)? - began;
    let cpu = clock_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)? - cpu_began;
    let report = format!("exercise_began {began}\nexercise_took {took}\nexercise_processor {cpu}\n");
    std::io::stdout().write_all(report.as_bytes()).context("stdout")
}

/// The called function. Profilers find it by its name; so this package's programs keep their symbols.
#[inline(never)]
fn bench_called(state: u64) -> u64 {
    step(state)
}

fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)
}

/// The current time of a clock.
pub fn clock_ns(clock: ClockId) -> Result<u64> {
    let time = clock_gettime(clock).context("clock_gettime")?;
    Ok(time.num_nanoseconds().unsigned_abs())
}
