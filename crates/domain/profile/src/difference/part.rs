//! What is compared: the parts of a profile.

use crate::profile::{Profile, Reason, Space};
use crate::stack_site::StackSite;
use crate::stacks::unnamed;
use crate::tally;
use std::collections::BTreeMap;

/// One of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Syscalls,
    Waits,
    Cpu,
    Functions,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Syscalls, Self::Waits, Self::Cpu, Self::Functions];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Syscalls => "syscalls",
            Self::Waits => "waits",
            Self::Cpu => "cpu",
            Self::Functions => "functions",
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Syscalls => "system calls",
            Self::Waits => "waits",
            Self::Cpu => "samples of the processors",
            Self::Functions => "watched functions",
        }
    }

    /// Compared items with amount and count; `None`: the profile has no such part.
    pub(super) fn rows(self, profile: &Profile) -> Option<BTreeMap<Words, Amount>> {
        let mut rows = BTreeMap::<Words, Amount>::new();
        let mut add = |words: Words, amount: f64, count: f64| {
            let row = rows.entry(words).or_default();
            row.amount += amount;
            row.count += count;
        };
        match self {
            Self::Syscalls => {
                profile.syscalls.as_ref()?;
                for one in tally::calls(profile, false) {
                    add(
                        [Some(one.name.to_owned()), None],
                        one.total_ns as f64,
                        one.calls as f64,
                    );
                }
            }
            Self::Waits => {
                profile.waits.as_ref()?;
                for one in tally::waits(profile, false) {
                    add(
                        wait_words(one.reason, one.syscall, one.place),
                        one.total_ns as f64,
                        one.count as f64,
                    );
                }
            }
            Self::Cpu => {
                let samples = profile.cpu.as_ref()?.samples.max(1) as f64;
                for one in tally::cpu(profile, false).into_iter().filter(|one| one.own > 0) {
                    let module = match one.space {
                        Space::Kernel => Some("kernel".to_owned()),
                        Space::User => one.module.map(str::to_owned),
                    };
                    let function = one.function.map_or_else(|| unnamed(one.module), str::to_owned);
                    add(
                        [Some(function), module],
                        one.own as f64 * 1000.0 / samples,
                        one.own as f64,
                    );
                }
            }
            Self::Functions => {
                profile.functions.as_ref()?;
                for one in tally::functions(profile, false) {
                    let words = [Some(one.name), Some(one.module)];
                    add(words, one.total_ns.unwrap_or(0) as f64, one.calls as f64);
                }
            }
        }
        Some(rows)
    }
}

/// Objects differ between runs; reasons, system calls and functions do not.
fn wait_words(reason: Reason, syscall: Option<&str>, place: StackSite<'_>) -> Words {
    let call = syscall.or(place.kernel).map(str::to_owned);
    [Some(reason.name().to_owned()), call]
}

pub(super) type Words = [Option<String>; 2];

/// The figures of an item in one profile.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Amount {
    /// Nanoseconds; thousandths of all samples
    pub(super) amount: f64,
    pub(super) count: f64,
}
