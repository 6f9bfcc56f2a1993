//! The processors of this host.

use std::fs;

/// Returns the numbers of the online processors; from 0 to their count if sysfs cannot be read.
#[must_use]
pub fn online() -> Vec<u32> {
    listed("online").unwrap_or_else(|| {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        (0..count as u32).collect()
    })
}

/// Returns one more than the highest number of a processor that this kernel may have; `None` if sysfs cannot be read.
pub(crate) fn possible() -> Option<usize> {
    listed("possible")?.last().map(|last| *last as usize + 1)
}

fn listed(file: &str) -> Option<Vec<u32>> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/{file}")).ok()?;
    ranges(text.trim())
}

/// Parses a list of ranges: `0-3,8`.
fn ranges(text: &str) -> Option<Vec<u32>> {
    let mut numbers = vec![];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= PROCESSORS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// `NR_CPUS` is 8192 at most.
const PROCESSORS_MAX: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_parses_lists_and_rejects_huge_numbers() {
        assert_eq!(ranges("0"), Some(vec![0]));
        assert_eq!(ranges("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(ranges(""), None);
        assert_eq!(ranges("0-4294967295"), None);
        assert!(possible().unwrap() >= online().len());
    }
}
