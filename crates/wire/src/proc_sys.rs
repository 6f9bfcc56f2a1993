//! Values of `/proc/sys`: numbers separated by blanks, and lists of ports.
//!
//! Source: `kernel/sysctl.c` (`proc_dointvec`, `proc_do_large_bitmap`).
//!
//! ```
//! use sockeye_wire::proc_sys::{count_listed, numbers};
//!
//! assert_eq!(numbers(b"4096\t131072\t6291456\n"), Some([4096, 131_072, 6_291_456]));
//! assert_eq!(count_listed(b"8080,9148-9150\n", 1, 65535), Some(4));
//! ```

use crate::proc_net::{decimal, words};

/// Parses a value with exactly `N` numbers; `None` for anything else.
#[must_use]
pub fn numbers<const N: usize>(value: &[u8]) -> Option<[u64; N]> {
    let mut all = words(value);
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = decimal(all.next()?)?;
    }
    all.next().is_none().then_some(numbers)
}

/// Returns how many of the numbers from `first` to `last` are in a list such as `8080,9148-9150` without duplicates.
/// `None` if it is not such a list; 0 for an empty one.
#[must_use]
pub fn count_listed(list: &[u8], first: u16, last: u16) -> Option<u32> {
    let number = |text: &[u8]| u16::try_from(decimal(text)?).ok();
    let mut count = 0;
    for part in list.trim_ascii().split(|&byte| byte == b',') {
        if part.is_empty() {
            continue;
        }
        let (from, to) = match part.iter().position(|&byte| byte == b'-') {
            Some(dash) => (number(&part[..dash])?, number(&part[dash + 1..])?),
            None => (number(part)?, number(part)?),
        };
        let (from, to) = (from.max(first), to.min(last));
        if from <= to {
            count += u32::from(to - from) + 1;
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_with_wrong_count_is_none() {
        assert_eq!(numbers(b"32768\t60999\n"), Some([32768, 60999]));
        assert_eq!(numbers(b"1\n"), Some([1]));
        assert_eq!(numbers::<2>(b"1\n"), None);
        assert_eq!(numbers::<1>(b"1 2\n"), None);
        assert_eq!(numbers::<1>(b"cubic\n"), None);
        assert_eq!(numbers::<1>(b""), None);
    }

    #[test]
    fn listed_ports_are_counted() {
        let count = |list: &[u8]| count_listed(list, 100, 200);
        assert_eq!(count(b"\n"), Some(0));
        assert_eq!(count(b"1-99,100,150-155,200,201-300\n"), Some(8));
        assert_eq!(count(b"50-110,190-65535\n"), Some(22));
        assert_eq!(count(b"300-400\n"), Some(0));
        assert_eq!(count_listed(b"0-65535", 0, 65535), Some(65536));
        assert_eq!(count(b"1-"), None);
        assert_eq!(count(b"70000"), None);
        assert_eq!(count(b"a"), None);
    }
}
