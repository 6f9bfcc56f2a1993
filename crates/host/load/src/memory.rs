//! How fast memory is set, copied and moved, size by size.

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sockeye_measure::{Cache, Curve, Point, Repeats};
use sockeye_sys::memory::{BufferPair, MemoryOp, Method, is_supported};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct MemoryPlan {
    /// In ascending order, each at least [`BYTES_MIN`](sockeye_sys::memory::BYTES_MIN).
    pub sizes: Vec<u64>,
    /// What is done.
    pub ops: Vec<MemoryOp>,
    /// How often each point is measured.
    pub repeats: usize,
    /// How long all of it may take, about.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Rates {
    /// One for each function and way.
    pub curves: Vec<Curve>,
    /// Whether it was stopped before each point had all of its repeats.
    pub is_partial: bool,
}

impl MemoryPlan {
    /// Measures. Between two repeats of a point all other points have their turn, so that a disturbance hits one repeat of many
    /// points rather than all repeats of one. `go_on` is asked after each slice of time, with the share that is done,
    /// in thousandths.
    ///
    /// # Errors
    /// `ENOMEM` where there is not as much memory.
    pub fn measure(&self, mut go_on: impl FnMut(u32) -> bool) -> Result<Rates, Errno> {
        let longest = self.sizes.iter().copied().max().unwrap_or_default();
        let mut arena = BufferPair::new(usize::try_from(longest).map_err(|_| Errno::NOMEM)?)?;
        let lines = lines(&self.ops);
        let mut curves: Vec<Curve> = lines.iter().map(|&(op, way)| self.empty(op, way)).collect();
        let all = self.sizes.len() * lines.len() * self.repeats;
        let slice = (self.time / u32::try_from(all.max(1)).unwrap_or(u32::MAX)).max(SLICE_MIN);
        // How many calls fill a slice, as far as is known.
        let mut calls = vec![vec![1_u64; self.sizes.len()]; lines.len()];
        let mut done = 0;
        for _ in 0..self.repeats {
            for (place, &size) in self.sizes.iter().enumerate() {
                for (line, &(op, way)) in lines.iter().enumerate() {
                    let bytes = usize::try_from(size).map_err(|_| Errno::NOMEM)?;
                    let rate = rate(&mut arena, op, way, bytes, slice, &mut calls[line][place])?;
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

    fn empty(&self, op: MemoryOp, way: Method) -> Curve {
        let point = |&bytes| Point {
            bytes,
            rates: Repeats::default(),
        };
        Curve {
            function: function_name(op),
            method: method_name(way),
            points: self.sizes.iter().map(point).collect(),
        }
    }
}

/// The processor's caches for data, the smallest first.
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

/// Bytes of memory that may be had without anybody being killed for it: what `MemAvailable` says, and what the cgroups that we
/// are in allow (`memory.max`).
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

/// Of our own cgroup and those it is in, as far as they are to be seen.
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

/// What the function is called.
#[must_use]
pub const fn function_name(op: MemoryOp) -> &'static str {
    match op {
        MemoryOp::Set => "memset",
        MemoryOp::Copy => "memcpy",
        MemoryOp::Move => "memmove",
        MemoryOp::Shift => "overlap",
    }
}

/// What the way is called.
#[must_use]
pub const fn method_name(way: Method) -> &'static str {
    match way {
        Method::Libc => "libc",
        Method::Rep => "rep",
        Method::Avx2 => "avx2",
        Method::Avx512 => "avx512",
        Method::NonTemporal => "nt",
    }
}

/// Each function in each way that there is here.
fn lines(ops: &[MemoryOp]) -> Vec<(MemoryOp, Method)> {
    const WAYS: [Method; 5] = [
        Method::Libc,
        Method::Rep,
        Method::Avx2,
        Method::Avx512,
        Method::NonTemporal,
    ];
    let ways = |op| {
        WAYS.into_iter()
            .filter(move |&way| is_supported(op, way))
            .map(move |way| (op, way))
    };
    ops.iter().flat_map(|&op| ways(op)).collect()
}

/// Bytes a second of processor time. Bytes that are copied count once.
fn rate(
    arena: &mut BufferPair,
    op: MemoryOp,
    way: Method,
    bytes: usize,
    slice: Duration,
    calls: &mut u64,
) -> Result<f64, Errno> {
    // What was done before left something else in the caches.
    arena.run(op, way, bytes, 1)?;
    loop {
        let start = processor_time();
        arena.run(op, way, bytes, *calls)?;
        let took = processor_time().saturating_sub(start);
        let rate = bytes as f64 * *calls as f64 / took.as_secs_f64().max(1e-9);
        if took >= slice / 2 || *calls >= CALLS_MAX {
            // For the next repeat, which shall neither be too short nor too long.
            *calls = enough(*calls, took, slice);
            return Ok(rate);
        }
        *calls = enough(*calls, took, slice).max(*calls + 1);
    }
}

/// Of this thread: what others do meanwhile is not our rate.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// How many calls would fill the slice. At most ten times as many as now, since the first ones are slow.
fn enough(calls: u64, took: Duration, slice: Duration) -> u64 {
    let factor = slice.as_secs_f64() / took.as_secs_f64().max(1e-9);
    ((calls as f64 * factor.min(10.0)).ceil() as u64).clamp(1, CALLS_MAX)
}

/// `48K`, as sysfs has it.
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

/// Below this the clock would be measured.
const SLICE_MIN: Duration = Duration::from_micros(20);
const CALLS_MAX: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_measured() {
        let plan = MemoryPlan {
            sizes: vec![64, 1000, 4096],
            ops: vec![MemoryOp::Set, MemoryOp::Copy, MemoryOp::Move, MemoryOp::Shift],
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
    fn sizes_of_caches() {
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
        assert_eq!(enough(1, Duration::from_nanos(0), Duration::from_millis(1)), 10);
        assert_eq!(enough(4, Duration::from_millis(2), Duration::from_millis(1)), 2);
    }
}
