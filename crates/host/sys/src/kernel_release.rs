//! The release of the running kernel.

/// Whether the kernel has this version or a later one; `false` if its release has no version.
#[must_use]
pub fn is_since(major: u32, minor: u32) -> bool {
    version(&rustix::system::uname().release().to_string_lossy()).is_some_and(|found| found >= (major, minor))
}

/// Parses the version of a release: `6.18.44-fc`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_the_first_two_numbers() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("6.9.0"), Some((6, 9)));
        assert_eq!(version("7.0"), Some((7, 0)));
        assert_eq!(version("5.15.0-91-generic"), Some((5, 15)));
        assert_eq!(version(""), None);
        assert_eq!(version("6"), None);
    }
}
