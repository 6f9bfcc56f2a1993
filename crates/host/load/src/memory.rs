//! Speed of setting, copying and moving memory, by size.

use crate::processors::thread_cpu_time;
use rustix::io::Errno;
use sockeye_measure::{Cache, Curve, Point, Repeats};
use sockeye_sys::memory::{BufferPair, MemoryOp, Method, is_supported};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Parameters of a memory benchmark.
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    /// Sizes in bytes, ascending, each at least [`BYTES_MIN`](sockeye_sys::memory::BYTES_MIN).
    pub sizes: Vec<u64>,
    /// Operations to measure.
    pub operations: Vec<MemoryOp>,
    /// Repeats of each point.
    pub repeats: usize,
    /// Approximate time of the whole benchmark.
    pub time: Duration,
}

/// Measured rates.
#[derive(Debug, Clone)]
pub struct Rates {
    /// One per function and method.
    pub curves: Vec<Curve>,
    /// Whether it was stopped before all repeats were done.
    pub is_partial: bool,
}

impl MemoryPlan {
    /// Measures. All other points take a turn between two repeats of a point, so that a disturbance affects one repeat of many
    /// points rather than all repeats of one. `go_on` is called after each time slice with the progress in thousandths.
    ///
    /// # Errors
    /// `ENOMEM` if there is not enough memory.
    pub fn measure(&self, mut go_on: impl FnMut(u32) -> bool) -> Result<Rates, Errno> {
        let longest = self.sizes.iter().copied().max().unwrap_or_default();
        let mut arena = BufferPair::new(usize::try_from(longest).map_err(|_| Errno::NOMEM)?)?;
        let lines = lines(&self.operations);
        let mut curves: Vec<Curve> = lines
            .iter()
            .map(|&(operation, method)| self.empty(operation, method))
            .collect();
        let all = self.sizes.len() * lines.len() * self.repeats;
        let slice = (self.time / u32::try_from(all.max(1)).unwrap_or(u32::MAX)).max(SLICE_MIN);
        // Estimated calls that fill a time slice.
        let mut calls = vec![vec![1_u64; self.sizes.len()]; lines.len()];
        let mut done = 0;
        for _ in 0..self.repeats {
            for (place, &size) in self.sizes.iter().enumerate() {
                for (line, &(operation, method)) in lines.iter().enumerate() {
                    let bytes = usize::try_from(size).map_err(|_| Errno::NOMEM)?;
                    let rate = rate(
                        &mut arena,
                        operation,
                        method,
                        bytes,
                        slice,
                        &mut calls[line][place],
                    )?;
                    curves[line].points[place].rates.push(rate);
                    done += 1;
                    let share = u32::try_from(done * 1000 / all).unwrap_or(1000);
                    if !go_on(share) && done < all {
                        return Ok(Rates {
                            curves,
                            is_partial: true,
                        });
                    }
                }
            }
        }
        Ok(Rates {
            curves,
            is_partial: false,
        })
    }

    fn empty(&self, operation: MemoryOp, method: Method) -> Curve {
        let point = |&bytes| Point {
            bytes,
            rates: Repeats::default(),
        };
        Curve {
            function: function_name(operation),
            method: method_name(method),
            points: self.sizes.iter().map(point).collect(),
        }
    }
}

/// Returns the processor's data caches, the smallest first.
#[must_use]
pub fn caches() -> Vec<Cache> {
    let Ok(folders) = fs::read_dir("/sys/devices/system/cpu/cpu0/cache") else {
        return Vec::new();
    };
    let mut caches: Vec<Cache> = folders
        .flatten()
        .filter_map(|entry| {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
            let kind = read("type")?;
            if kind.trim() == "Instruction" {
                return None;
            }
            let suffix = if kind.trim() == "Data" { "d" } else { "" };
            Some(Cache {
                name: format!("L{}{suffix}", read("level")?.trim()),
                bytes: cache_bytes(read("size")?.trim())?,
            })
        })
        .collect();
    caches.sort_by_key(|cache| cache.bytes);
    caches
}

/// Returns the bytes of memory that can be allocated without the OOM killer: the least of `MemAvailable` and the limits of
/// the process's cgroups (`memory.max`).
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok();
    let available = text.and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    available.into_iter().chain(cgroup_limits()).min()
}

/// Returns the limits of the process's cgroup and its ancestors, as far as visible.
fn cgroup_limits() -> Vec<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let Some(own) = own else { return Vec::new() };
    let folder = Path::new("/sys/fs/cgroup").join(own);
    let limit = |folder: &Path| {
        fs::read_to_string(folder.join("memory.max"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with("/sys/fs/cgroup"))
        .filter_map(limit)
        .collect()
}

/// Returns the name of the function.
#[must_use]
pub const fn function_name(operation: MemoryOp) -> &'static str {
    match operation {
        MemoryOp::Set => "memset",
        MemoryOp::Copy => "memcpy",
        MemoryOp::Move => "memmove",
        MemoryOp::Shift => "overlap",
    }
}

/// Returns the name of the method.
const fn method_name(method: Method) -> &'static str {
    match method {
        Method::Libc => "libc",
        Method::Rep => "rep",
        Method::Avx2 => "avx2",
        Method::Avx512 => "avx512",
        Method::NonTemporal => "nt",
    }
}

/// Returns each operation with each method that is available here.
fn lines(operations: &[MemoryOp]) -> Vec<(MemoryOp, Method)> {
    const METHODS: [Method; 5] = [
        Method::Libc,
        Method::Rep,
        Method::Avx2,
        Method::Avx512,
        Method::NonTemporal,
    ];
    let methods = |operation| {
        METHODS
            .into_iter()
            .filter(move |&method| is_supported(operation, method))
            .map(move |method| (operation, method))
    };
    operations
        .iter()
        .flat_map(|&operation| methods(operation))
        .collect()
}

/// Measures bytes per second of processor time. Copied bytes count once.
fn rate(
    arena: &mut BufferPair,
    operation: MemoryOp,
    method: Method,
    bytes: usize,
    slice: Duration,
    calls: &mut u64,
) -> Result<f64, Errno> {
    // Replaces what the measurement before left in the caches.
    arena.run(operation, method, bytes, 1)?;
    loop {
        let start = thread_cpu_time();
        arena.run(operation, method, bytes, *calls)?;
        let took = thread_cpu_time().saturating_sub(start);
        let rate = bytes as f64 * *calls as f64 / took.as_secs_f64().max(1e-9);
        if took >= slice / 2 || *calls >= CALLS_MAX {
            // For the next repeat.
            *calls = calls_for(*calls, took, slice);
            return Ok(rate);
        }
        *calls = calls_for(*calls, took, slice).max(*calls + 1);
    }
}

/// Returns how many calls would fill the slice, at most ten times as many as now, since the first ones are slow.
fn calls_for(calls: u64, took: Duration, slice: Duration) -> u64 {
    let factor = slice.as_secs_f64() / took.as_secs_f64().max(1e-9);
    ((calls as f64 * factor.min(10.0)).ceil() as u64).clamp(1, CALLS_MAX)
}

/// Parses a size of sysfs: `48K`.
fn cache_bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1024),
        None => (text.strip_suffix('M')?, 1024 * 1024),
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|&bytes| bytes > 0)
}

/// Shorter slices would measure the clock.
const SLICE_MIN: Duration = Duration::from_micros(20);
const CALLS_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_all_repeats_unless_stopped() {
        let plan = MemoryPlan {
            sizes: vec![64, 1000, 4096],
            operations: vec![MemoryOp::Set, MemoryOp::Copy, MemoryOp::Move, MemoryOp::Shift],
            repeats: 2,
            time: Duration::from_millis(20),
        };
        let rates = plan.measure(|_| true).unwrap();
        assert!(!rates.is_partial);
        assert!(rates.curves.len() >= 4);
        for curve in &rates.curves {
            for point in &curve.points {
                assert_eq!(point.rates.len(), 2);
                assert!(point.rates.median() > Some(0.0));
            }
        }
        let mut turns = 0;
        let cut = plan.measure(|_| {
            turns += 1;
            turns < 3
        });
        let cut = cut.unwrap();
        assert!(cut.is_partial);
        assert_eq!(
            cut.curves
                .iter()
                .flat_map(|curve| &curve.points)
                .map(|point| point.rates.len())
                .sum::<usize>(),
            3
        );
    }

    #[test]
    fn cache_size_parses_or_is_none() {
        assert_eq!(cache_bytes("48K"), Some(49152));
        assert_eq!(cache_bytes("32M"), Some(32 << 20));
        for bad in [
            "",
            "K",
            "48",
            "0K",
            "-1K",
            "99999999999999999999K",
            "99999999999999999K",
        ] {
            assert_eq!(cache_bytes(bad), None, "{bad}");
        }
        assert_eq!(
            calls_for(1, Duration::from_nanos(0), Duration::from_millis(1)),
            10
        );
        assert_eq!(
            calls_for(4, Duration::from_millis(2), Duration::from_millis(1)),
            2
        );
    }
}
