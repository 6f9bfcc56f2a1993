//! Selects the functions of a file that match a pattern, and how each is watched.

use super::entry::behind_endbr;
use super::exits::{CODE_BYTES_MAX, exits};
use super::file_traits::{FileTraits, is_cold_part, is_not_called, needs_return_address};
use super::instruction::{body_of_go, is_emulated_by_the_kernel, is_mistaken_by_the_kernel};
use super::pattern::Pattern;
use crate::{FileNumber, Symbols};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A function to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SelectedFunction {
    /// Demangled name.
    pub(super) name: String,
    /// File offset of its entry probe.
    pub(super) offset: u64,
    /// Whether the kernel emulates the instruction there, which is cheaper.
    pub(super) emulated: bool,
    pub(super) returns: ReturnProbes,
}

/// How the returns of a function are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReturnProbes {
    /// The kernel replaces the return address on the stack.
    Replaced,
    /// Probes on the exit instructions at these file offsets.
    Exits(Vec<u64>),
    /// Not at all: calls are only counted.
    Unwatched(CallsOnlyReason),
}

/// Why returns are not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallsOnlyReason {
    /// It is a Go function: the stack may move.
    Go,
    /// An exception may leave it, and its code cannot be decoded.
    Undecodable,
    /// It uses its return address, or has none.
    Special,
}

/// The functions of a file that match a pattern.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) functions: Vec<SelectedFunction>,
    /// Names of matching functions that only select another one (IFUNC).
    pub(super) indirect: Vec<String>,
    /// Names of matching functions whose first instruction the kernel would decode wrongly.
    pub(super) misdecoded: Vec<String>,
}

/// Selects the functions of a file that match a pattern, sorted by offset; functions with several names once.
pub(super) fn select(symbols: &mut Symbols, number: FileNumber, file: &File, pattern: &Pattern) -> Selection {
    let mut indirect = Vec::new();
    let mut by_offset: BTreeMap<u64, Candidate> = BTreeMap::new();
    for function in symbols.functions(number) {
        if is_cold_part(function.name) {
            continue;
        }
        let demangled = function.demangled();
        if !pattern.matches_either(function.name, &demangled) {
            continue;
        }
        if function.indirect {
            indirect.push(demangled.into_owned());
            continue;
        }
        let candidate = Candidate {
            mangled: demangled.as_bytes() != function.name,
            special: needs_return_address(function.name) || is_not_called(function.name),
            name: demangled.into_owned(),
            bytes: function.size,
        };
        match by_offset.get_mut(&function.offset) {
            Some(known) => known.merge(candidate),
            None => {
                by_offset.insert(function.offset, candidate);
            }
        }
    }
    // Another name of the same function, which does not match, may show that it is special.
    if !by_offset.is_empty() {
        for function in symbols.functions(number) {
            if (needs_return_address(function.name) || is_not_called(function.name))
                && let Some(known) = by_offset.get_mut(&function.offset)
            {
                known.special = true;
            }
        }
    }
    indirect.sort_unstable();
    indirect.dedup();
    let is_go = !by_offset.is_empty() && symbols.is_go(number);
    let traits = if by_offset.is_empty() {
        FileTraits::default()
    } else {
        FileTraits::read(file)
    };
    let (mut functions, mut misdecoded) = (Vec::new(), Vec::new());
    for (begin, candidate) in by_offset {
        let mut first = [0; BEGINNING_BYTES];
        let bytes = file.read_at(&mut first, begin).unwrap_or(0);
        let body = if is_go && traits.is_decodable {
            body_of_go(&first[..bytes])
        } else {
            0
        };
        if cfg!(target_arch = "x86_64") && is_mistaken_by_the_kernel(&first[body..bytes]) {
            misdecoded.push(candidate.name);
            continue;
        }
        let returns = candidate.returns(begin + body as u64, file, traits, is_go);
        let body = if body == 0 {
            candidate.entry(begin, file, traits)
        } else {
            body
        };
        let offset = begin + body as u64;
        functions.push(SelectedFunction {
            returns,
            emulated: cfg!(target_arch = "x86_64")
                && is_emulated_by_the_kernel(first.get(body..bytes).unwrap_or_default()),
            name: candidate.name,
            offset,
        });
    }
    Selection {
        functions,
        indirect,
        misdecoded,
    }
}

/// A matching function, merged from all its names.
struct Candidate {
    name: String,
    mangled: bool,
    special: bool,
    /// Length in bytes; 0 if unknown.
    bytes: u64,
}

impl Candidate {
    fn merge(&mut self, other: Self) {
        self.mangled |= other.mangled;
        self.special |= other.special;
        self.bytes = self.bytes.max(other.bytes);
        // The common name: with the fewest leading underscores, else the shortest.
        let rank = |name: &str| (name.bytes().take_while(|&byte| byte == b'_').count(), name.len());
        if (rank(&other.name), &other.name) < (rank(&self.name), &self.name) {
            self.name = other.name;
        }
    }

    /// Returns how its returns are watched.
    fn returns(&self, offset: u64, file: &File, traits: FileTraits, is_go: bool) -> ReturnProbes {
        if is_go {
            return ReturnProbes::Unwatched(CallsOnlyReason::Go);
        }
        if self.special {
            return ReturnProbes::Unwatched(CallsOnlyReason::Special);
        }
        if !traits.unwinds && !self.mangled {
            return ReturnProbes::Replaced;
        }
        let read = || {
            let exits = exits(&self.code(offset, file, traits)?)?;
            Some(exits.into_iter().map(|exit| offset + exit).collect())
        };
        read().map_or(
            ReturnProbes::Unwatched(CallsOnlyReason::Undecodable),
            ReturnProbes::Exits,
        )
    }

    /// Returns the offset of the entry probe in the function.
    fn entry(&self, begin: u64, file: &File, traits: FileTraits) -> usize {
        self.code(begin, file, traits)
            .map_or(0, |code| behind_endbr(&code))
    }

    /// Returns its code; `None` if it cannot be decoded.
    fn code(&self, begin: u64, file: &File, traits: FileTraits) -> Option<Vec<u8>> {
        if !traits.is_decodable || self.bytes == 0 || self.bytes > CODE_BYTES_MAX {
            return None;
        }
        let mut code = vec![0; usize::try_from(self.bytes).ok()?];
        file.read_exact_at(&mut code, begin).ok()?;
        Some(code)
    }
}

/// The bytes read of each function for its first instructions.
const BEGINNING_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_keeps_best_name() {
        let candidate = |name: &str| Candidate {
            name: name.to_owned(),
            mangled: false,
            special: false,
            bytes: 1,
        };
        let mut malloc = candidate("__libc_malloc");
        malloc.merge(candidate("malloc"));
        malloc.merge(candidate("__malloc"));
        assert_eq!(malloc.name, "malloc");
    }
}
