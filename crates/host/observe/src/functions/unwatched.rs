//! Matching functions that are not watched or not timed, and why.

use super::probe_scope;
use super::selection::CallsOnlyReason;
use crate::Unavailable;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// Names of functions and files by the reason why they are not watched.
#[derive(Debug, Default)]
pub(super) struct UnwatchedFunctions {
    /// Functions whose calls are counted but not timed.
    pub(super) calls_only: BTreeMap<CallsOnlyReason, Names>,
    /// Functions that only select another one (IFUNC).
    pub(super) indirect: Names,
    /// Functions whose first instruction the kernel would decode wrongly.
    pub(super) misdecoded: Names,
    /// Functions that the kernel refused, by errno.
    pub(super) refused: BTreeMap<i32, Names>,
    /// Files that could not be opened.
    pub(super) unopened: Names,
    /// Files that were mapped after the counting began.
    pub(super) mapped_late: Names,
    /// By file: number of matching functions, and of processes that would be slowed.
    pub(super) not_attached: BTreeMap<String, (usize, usize)>,
}

/// Some names, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Names {
    some: Vec<String>,
    pub(super) count: u64,
}

impl UnwatchedFunctions {
    /// Adds a function that the kernel refused.
    pub(super) fn add_refused(&mut self, errno: Errno, name: &str) {
        self.refused.entry(errno.raw_os_error()).or_default().add(name);
    }

    /// Returns a report for each reason.
    pub(super) fn reports(&self) -> Vec<Unavailable> {
        let mut reports = Vec::new();
        for (why, names) in &self.calls_only {
            reports.push(match why {
                CallsOnlyReason::Go => Unavailable::new(
                    PART,
                    format!("{names}: only calls are counted: Go moves its stacks, and would crash if returns were watched"),
                ),
                CallsOnlyReason::Undecodable => Unavailable::new(
                    PART,
                    format!("{names}: only calls are counted: exceptions may leave these functions, and their code could not be decoded"),
                ),
                CallsOnlyReason::Special => Unavailable::new(
                    PART,
                    format!("{names}: only calls are counted: the return address of these functions must not be replaced"),
                ),
            });
        }
        if self.indirect.count > 0 {
            reports.push(
                Unavailable::new(
                    PART,
                    format!(
                        "{}: not watched, because the program selects the real function when it starts (IFUNC)",
                        self.indirect
                    ),
                )
                .with_remedy("use the name of the real function, for example '*memcpy*avx*'"),
            );
        }
        if self.misdecoded.count > 0 {
            reports.push(Unavailable::new(
                PART,
                format!(
                    "{}: not watched, because the kernel would decode their first instruction (VEX, EVEX) wrongly",
                    self.misdecoded
                ),
            ));
        }
        for (errno, names) in &self.refused {
            let errno = Errno::from_raw_os_error(*errno);
            reports.push(Unavailable::new(
                PART,
                format!("{names}: not watched, the kernel refused: {errno}"),
            ));
        }
        for (module, (functions, others)) in &self.not_attached {
            reports.push(
                Unavailable::new(
                    PART,
                    format!(
                        "{module}: {functions} functions are meant, and not watched: {others} other processes use the file, and \
                         each of their calls would be slowed too"
                    ),
                )
                .with_remedy(format!(
                    "a narrower pattern (at most {} functions of a file that others use), or --lib with another file",
                    probe_scope::FUNCTIONS_OF_SHARED_MAX
                )),
            );
        }
        if self.mapped_late.count > 0 {
            let (were, their) = if self.mapped_late.count == 1 {
                ("was", "its")
            } else {
                ("were", "their")
            };
            reports.push(
                Unavailable::new(
                    PART,
                    format!(
                        "{} {were} mapped meanwhile (by an exec or dlopen), and {their} functions were watched \
                         a moment later: earlier calls are not counted",
                        self.mapped_late
                    ),
                )
                .with_remedy("with a command, a file that --lib names by its path is watched from the start"),
            );
        }
        if self.unopened.count > 0 {
            reports.push(Unavailable::new(
                PART,
                format!("{}: files not read", self.unopened),
            ));
        }
        reports
    }
}

impl Names {
    /// Adds a name; only the first few are kept.
    pub(super) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.some.len() < NAMES_REPORTED_MAX && !self.some.iter().any(|known| known == name) {
            self.some.push(name.to_owned());
        }
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.some.join(", "))?;
        match self.count.saturating_sub(self.some.len() as u64) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The most names in a report.
const NAMES_REPORTED_MAX: usize = 3;

/// The part of the profile: a word of [`sockeye_profile::Missing::part`].
pub(super) const PART: &str = "functions";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_limit_are_counted() {
        let mut names = Names::default();
        for name in ["a", "b", "c", "d", "e"] {
            names.add(name);
        }
        assert_eq!(names.to_string(), "a, b, c and 2 more");
    }
}
