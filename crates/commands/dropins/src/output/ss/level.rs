//! The releases of `ss` whose output is written.

use std::fmt;

/// A release of iproute2. Its `ss` and those after it, up to the next level, print the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SsLevel {
    /// 6.1, as in Debian 12.
    V6_1,
    /// 6.15, as in Debian 13.
    V6_15,
    /// 7.3.
    #[default]
    V7_3,
}

impl SsLevel {
    /// All levels, the oldest first.
    pub const ALL: [Self; 3] = [Self::V6_1, Self::V6_15, Self::V7_3];

    /// Its version.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_15 => "6.15",
            Self::V7_3 => "7.3",
        }
    }

    /// Returns the newest level that is not newer than this version of iproute2; for versions before all levels, the oldest.
    #[must_use]
    pub fn of_version(major: u32, minor: u32) -> Self {
        let is_reached = |level: &Self| match level {
            Self::V6_1 => true,
            Self::V6_15 => (major, minor) >= (6, 15),
            Self::V7_3 => (major, minor) >= (7, 3),
        };
        let reached = Self::ALL.into_iter().rev().find(is_reached);
        reached.unwrap_or(Self::V6_1)
    }
}

impl fmt::Display for SsLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_has_the_level_that_it_has_reached() {
        for (major, minor, expected) in [
            (5, 10, "6.1"),
            (6, 1, "6.1"),
            (6, 14, "6.1"),
            (6, 15, "6.15"),
            (7, 2, "6.15"),
            (7, 3, "7.3"),
            (8, 0, "7.3"),
        ] {
            assert_eq!(
                SsLevel::of_version(major, minor).name(),
                expected,
                "{major}.{minor}"
            );
        }
    }
}
