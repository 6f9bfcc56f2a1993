//! What of that which is meant cannot be watched, and why.

use super::choice::Why;
use super::{PART, reach};
use crate::Obstacle;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// What is not to be seen, by why, with names.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    pub(super) unwatched: BTreeMap<Why, Names>,
    pub(super) indirect: Names,
    pub(super) mistaken: Names,
    pub(super) refused: BTreeMap<i32, Names>,
    pub(super) unopened: Names,
    /// Files that were mapped while calls were counted already.
    pub(super) meanwhile: Names,
    /// By file: how many functions were meant, and how many processes would have been slowed.
    pub(super) spared: BTreeMap<String, (usize, usize)>,
}

/// Some names, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Names {
    some: Vec<String>,
    pub(super) count: u64,
}

impl Obstacles {
    pub(super) fn refused(&mut self, errno: Errno, name: &str) {
        self.refused.entry(errno.raw_os_error()).or_default().add(name);
    }

    pub(super) fn told(&self) -> Vec<Obstacle> {
        let mut told = Vec::new();
        for (why, names) in &self.unwatched {
            told.push(match why {
                Why::Go => Obstacle::new(
                    PART,
                    format!("{names}: only calls are counted, for Go moves its stacks, and would crash if returns were watched"),
                ),
                Why::Unreadable => Obstacle::new(
                    PART,
                    format!("{names}: only calls are counted, for exceptions may leave these functions, and their code could not be read to the end"),
                ),
                Why::Special => Obstacle::new(
                    PART,
                    format!("{names}: only calls are counted, for the return address of such functions must stay as it is"),
                ),
            });
        }
        if self.indirect.count > 0 {
            told.push(
                Obstacle::new(
                    PART,
                    format!(
                        "{}: not watched, for what is called by this name is chosen when the program starts (IFUNC)",
                        self.indirect
                    ),
                )
                .with_remedy("ask for the one that is chosen: '*memcpy*avx*' and its like"),
            );
        }
        if self.mistaken.count > 0 {
            told.push(Obstacle::new(
                PART,
                format!(
                    "{}: not watched, for the kernel would mistake the instruction that they begin with (VEX, EVEX) for another",
                    self.mistaken
                ),
            ));
        }
        for (errno, names) in &self.refused {
            let errno = Errno::from_raw_os_error(*errno);
            told.push(Obstacle::new(
                PART,
                format!("{names}: not watched, the kernel refused: {errno}"),
            ));
        }
        for (module, (functions, others)) in &self.spared {
            told.push(
                Obstacle::new(
                    PART,
                    format!(
                        "{module}: {functions} functions are meant, and not watched: {others} other processes use the file, and \
                         each of their calls would be slowed too"
                    ),
                )
                .with_remedy(format!(
                    "a narrower pattern (at most {} functions of a file that others use), or --lib with another file",
                    reach::FUNCTIONS_OF_SHARED_MAX
                )),
            );
        }
        if self.meanwhile.count > 0 {
            let (were, their) = if self.meanwhile.count == 1 {
                ("was", "its")
            } else {
                ("were", "their")
            };
            told.push(
                Obstacle::new(
                    PART,
                    format!(
                        "{} {were} mapped meanwhile (by an exec, or as a library that is loaded late), and {their} functions watched \
                         a moment later: calls before that are not counted",
                        self.meanwhile
                    ),
                )
                .with_remedy("with a command, what --lib names by its path is watched from the start"),
            );
        }
        if self.unopened.count > 0 {
            told.push(Obstacle::new(
                PART,
                format!("{}: files not looked at", self.unopened),
            ));
        }
        told
    }
}

impl Names {
    pub(super) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.some.len() < NAMES_TOLD_MAX && !self.some.iter().any(|known| known == name) {
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

/// So many names are told of those of which something is to be said.
const NAMES_TOLD_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_few() {
        let mut names = Names::default();
        for name in ["a", "b", "c", "d", "e"] {
            names.add(name);
        }
        assert_eq!(names.to_string(), "a, b, c and 2 more");
    }
}
