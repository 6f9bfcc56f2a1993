//! Processor time and load, as the kernel reports them.

use rustix::time::{ClockId, clock_gettime};
use sockeye_measure::NoiseSample;
use std::fs;
use std::time::Duration;

/// Samples how busy the machine is.
#[must_use]
pub fn noise() -> NoiseSample {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.lines().next().and_then(ticks_of);
    let load = fs::read_to_string("/proc/loadavg").ok();
    NoiseSample {
        total_ticks: ticks.as_ref().map(|ticks| ticks.iter().take(USER_TO_STEAL).sum()),
        idle_ticks: ticks
            .as_ref()
            .and_then(|ticks| Some(ticks.get(3)? + ticks.get(4)?)),
        steal_ticks: ticks.as_ref().and_then(|ticks| ticks.get(7).copied()),
        own_ticks: fs::read_to_string("/proc/self/stat")
            .ok()
            .and_then(|text| own_ticks(&text)),
        load: load.and_then(|text| text.split(' ').next()?.parse().ok()),
        frequency_khz: frequency(),
        processors: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u64),
    }
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`; the last two are part of the first two.
fn ticks_of(line: &str) -> Option<Vec<u64>> {
    let mut words = line.split_ascii_whitespace();
    (words.next()? == "cpu").then_some(())?;
    words.map(|word| word.parse().ok()).collect()
}

const USER_TO_STEAL: usize = 8;

/// utime, stime, cutime, cstime: fields 14 to 17 of `/proc/PID/stat`, where the second may hold blanks and parentheses.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<u64> = rest
        .split_ascii_whitespace()
        .skip(11)
        .take(4)
        .map_while(|word| word.parse().ok())
        .collect();
    (fields.len() == 4).then(|| fields.iter().sum())
}

fn frequency() -> Option<(u64, u64)> {
    let folders = fs::read_dir("/sys/devices/system/cpu").ok()?;
    let all: Vec<u64> = folders
        .filter_map(|entry| {
            let file = entry.ok()?.path().join("cpufreq/scaling_cur_freq");
            fs::read_to_string(file).ok()?.trim().parse().ok()
        })
        .collect();
    Some((*all.iter().min()?, *all.iter().max()?))
}

/// Returns the processor time of the calling thread. Whether it includes interrupts depends on the kernel's build.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_parsed_or_none() {
        assert_eq!(ticks_of("cpu  1 2 3 4 5 6 7 8 9 10").unwrap().len(), 10);
        assert_eq!(ticks_of("cpu0 1 2 3"), None);
        assert_eq!(ticks_of("cpu x"), None);
        assert_eq!(
            own_ticks("7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 20 30 40 50 0"),
            Some(140)
        );
        assert_eq!(own_ticks("7 (a"), None);
    }

    #[test]
    fn this_machine_has_figures() {
        let sample = noise();
        assert!(sample.total_ticks > Some(0));
        assert!(sample.load.is_some());
    }
}
