//! Which functions of a file are meant, and how each is to be watched.

use super::entry::behind_endbr;
use super::exits::{CODE_BYTES_MAX, exits};
use super::instruction::{body_of_go, is_emulated_by_the_kernel, is_mistaken_by_the_kernel};
use super::nature::{Nature, is_not_called, is_part, keeps_its_return};
use super::pattern::Pattern;
use crate::{FileNumber, Symbols};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A function that is to be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    /// Demangled.
    pub(super) name: String,
    /// Where it begins, in the file.
    pub(super) offset: u64,
    /// The kernel carries out the instruction there itself, which is cheaper.
    pub(super) emulated: bool,
    pub(super) returns: Returns,
}

/// How its returns are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Returns {
    /// The kernel puts an address of its own in the place of the return address.
    Replaced,
    /// At these places in the file.
    Exits(Vec<u64>),
    /// Not at all.
    Unwatched(Why),
}

/// Why returns are not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// It is a Go program.
    Go,
    /// An exception may leave it, and its code cannot be read to the end.
    Unreadable,
    /// It needs its return address, or has none.
    Special,
}

/// What a pattern means in a file.
#[derive(Debug, Default)]
pub(super) struct Choices {
    pub(super) chosen: Vec<Choice>,
    /// Names of functions that are meant, but only choose others (IFUNC).
    pub(super) indirect: Vec<String>,
    /// Names of functions that begin with an instruction that must not be watched.
    pub(super) mistaken: Vec<String>,
}

/// The functions of a file that a pattern means, by their places; those with several names once.
pub(super) fn choose(symbols: &mut Symbols, number: FileNumber, file: &File, pattern: &Pattern) -> Choices {
    let mut indirect = Vec::new();
    let mut places: BTreeMap<u64, Named> = BTreeMap::new();
    for function in symbols.functions(number) {
        if is_part(function.name) {
            continue;
        }
        let demangled = function.demangled();
        if !pattern.fits_either(function.name, &demangled) {
            continue;
        }
        if function.indirect {
            indirect.push(demangled.into_owned());
            continue;
        }
        let named = Named {
            mangled: demangled.as_bytes() != function.name,
            special: keeps_its_return(function.name) || is_not_called(function.name),
            name: demangled.into_owned(),
            bytes: function.size,
        };
        match places.get_mut(&function.offset) {
            Some(known) => known.merge(named),
            None => {
                places.insert(function.offset, named);
            }
        }
    }
    // Names that fit the pattern are not all that a place has.
    if !places.is_empty() {
        for function in symbols.functions(number) {
            if (keeps_its_return(function.name) || is_not_called(function.name))
                && let Some(known) = places.get_mut(&function.offset)
            {
                known.special = true;
            }
        }
    }
    indirect.sort_unstable();
    indirect.dedup();
    let is_go = !places.is_empty() && symbols.is_go(number);
    let nature = if places.is_empty() {
        Nature::default()
    } else {
        Nature::of(file)
    };
    let (mut chosen, mut mistaken) = (Vec::new(), Vec::new());
    for (begin, named) in places {
        let mut first = [0; BEGINNING_BYTES];
        let bytes = file.read_at(&mut first, begin).unwrap_or(0);
        let body = if is_go && nature.is_readable {
            body_of_go(&first[..bytes])
        } else {
            0
        };
        if cfg!(target_arch = "x86_64") && is_mistaken_by_the_kernel(&first[body..bytes]) {
            mistaken.push(named.name);
            continue;
        }
        let returns = named.returns(begin + body as u64, file, nature, is_go);
        let body = if body == 0 {
            named.entry(begin, file, nature)
        } else {
            body
        };
        let offset = begin + body as u64;
        chosen.push(Choice {
            returns,
            emulated: cfg!(target_arch = "x86_64")
                && is_emulated_by_the_kernel(first.get(body..bytes).unwrap_or_default()),
            name: named.name,
            offset,
        });
    }
    Choices {
        chosen,
        indirect,
        mistaken,
    }
}

/// What is known of the function at a place.
struct Named {
    name: String,
    mangled: bool,
    special: bool,
    bytes: u64,
}

impl Named {
    fn merge(&mut self, other: Self) {
        self.mangled |= other.mangled;
        self.special |= other.special;
        self.bytes = self.bytes.max(other.bytes);
        // The name that one would say: without underscores before it, else the shortest.
        let rank = |name: &str| (name.bytes().take_while(|&byte| byte == b'_').count(), name.len());
        if (rank(&other.name), &other.name) < (rank(&self.name), &self.name) {
            self.name = other.name;
        }
    }

    fn returns(&self, offset: u64, file: &File, nature: Nature, is_go: bool) -> Returns {
        if is_go {
            return Returns::Unwatched(Why::Go);
        }
        if self.special {
            return Returns::Unwatched(Why::Special);
        }
        if !nature.unwinds && !self.mangled {
            return Returns::Replaced;
        }
        let read = || {
            let exits = exits(&self.code(offset, file, nature)?)?;
            Some(exits.into_iter().map(|exit| offset + exit).collect())
        };
        read().map_or(Returns::Unwatched(Why::Unreadable), Returns::Exits)
    }

    /// How far behind its beginning its calls are seen.
    fn entry(&self, begin: u64, file: &File, nature: Nature) -> usize {
        self.code(begin, file, nature)
            .map_or(0, |code| behind_endbr(&code))
    }

    /// All of its code, where we can read it.
    fn code(&self, begin: u64, file: &File, nature: Nature) -> Option<Vec<u8>> {
        if !nature.is_readable || self.bytes == 0 || self.bytes > CODE_BYTES_MAX {
            return None;
        }
        let mut code = vec![0; usize::try_from(self.bytes).ok()?];
        file.read_exact_at(&mut code, begin).ok()?;
        Some(code)
    }
}

/// So much is read of a function to see what it begins with.
const BEGINNING_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_name_of_a_place() {
        let named = |name: &str| Named {
            name: name.to_owned(),
            mangled: false,
            special: false,
            bytes: 1,
        };
        let mut malloc = named("__libc_malloc");
        malloc.merge(named("malloc"));
        malloc.merge(named("__malloc"));
        assert_eq!(malloc.name, "malloc");
    }
}
