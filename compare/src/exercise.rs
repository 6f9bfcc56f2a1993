//! A program to be looked at by profilers: a known amount of work, and what it took by the program's own clocks.

use anyhow::{Context, Result, bail};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::hint::black_box;
use std::io::Write;

/// The argument by which `bench-compare` is told to be that program: [`exercise`].
pub const EXERCISE: &str = "--exercise";

/// `compute N` or `call N`: so many steps, or so many calls of a function of its own. Prints when it began, and what it
/// took, in nanoseconds.
pub fn exercise(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
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
    let said = format!("exercise_began {began}\nexercise_took {took}\nexercise_processor {cpu}\n");
    std::io::stdout().write_all(said.as_bytes()).context("stdout")
}

/// The function that is called. Profilers find it by its name, which is why this package's programs keep their symbols.
#[inline(never)]
fn bench_called(state: u64) -> u64 {
    step(state)
}

fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)
}

/// Now, by one of the system's clocks.
pub fn clock_ns(clock: ClockId) -> Result<u64> {
    let time = clock_gettime(clock).context("clock_gettime")?;
    Ok(time.num_nanoseconds().unsigned_abs())
}
