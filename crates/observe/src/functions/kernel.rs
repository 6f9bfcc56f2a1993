//! Which functions the kernel has, and lets be watched.

use super::pattern::Pattern;
use std::collections::BTreeSet;

/// The names that a pattern means, and all that there are.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) meant: BTreeSet<String>,
    pub(super) all: BTreeSet<String>,
}

/// Reads the kernel's functions: those that it lets be watched, if it tells, else all that it has.
///
/// # Errors
/// When it tells neither.
pub(super) fn names(pattern: &Pattern) -> Result<Names, std::io::Error> {
    let mut names = Names::default();
    let mut take = |name: &str| {
        if pattern.fits(name.as_bytes()) {
            names.meant.insert(name.to_owned());
        }
        names.all.insert(name.to_owned());
    };
    for file in FILTERABLE {
        if let Ok(text) = std::fs::read_to_string(file) {
            text.lines()
                .filter_map(|line| line.split_whitespace().next())
                .for_each(&mut take);
            return Ok(names);
        }
    }
    // `ffffffff81000000 T _text`, with the module's name behind it
    let text = std::fs::read_to_string("/proc/kallsyms")?;
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1);
        if let (Some("t" | "T"), Some(name)) = (words.next(), words.next()) {
            take(name);
        }
    }
    Ok(names)
}

const FILTERABLE: [&str; 2] = [
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];
