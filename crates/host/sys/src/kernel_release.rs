//! The release of the running kernel.

/// Whether the kernel has this version or a later one; `false` if its release has no version.
#[must_use]
pub fn is_since(major: u32, minor: u32) -> bool {
    version(&rustix::system::uname().release().to_string_lossy()).is_some_and(|found| found >= (major, minor))
}

/// Returns the release of kernel.org that the running kernel is built from, with its patch level: Debian and Ubuntu number theirs otherwise.
#[must_use]
pub fn stable() -> Option<(u32, u32, u32)> {
    let names = rustix::system::uname();
    let signature = std::fs::read_to_string("/proc/version_signature").unwrap_or_default();
    stable_of(
        &names.release().to_string_lossy(),
        &names.version().to_string_lossy(),
        &signature,
    )
}

/// `version`: of Debian `#1 SMP Debian 6.1.159-1 (2025-12-30)`; `signature`: of Ubuntu `Ubuntu 5.15.0-91.101-generic 5.15.131`.
fn stable_of(release: &str, version: &str, signature: &str) -> Option<(u32, u32, u32)> {
    let debian = version
        .split_once("Debian ")
        .and_then(|(_, version)| numbers(version));
    debian
        .or_else(|| signature.split_whitespace().last().and_then(numbers))
        .or_else(|| numbers(release))
}

/// Parses the numbers that a release begins with; without a third it is 0.
fn numbers(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let patch = numbers.next().and_then(|patch| patch.parse().ok());
    Some((major, minor, patch.unwrap_or(0)))
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
    fn stable_release_is_that_of_the_distribution() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)";
        assert_eq!(stable_of("6.12.57+deb13-amd64", debian, ""), Some((6, 12, 57)));
        assert_eq!(
            stable_of("6.1.0-42-amd64", "#1 SMP Debian 6.1.159-1", ""),
            Some((6, 1, 159))
        );
        let ubuntu = "Ubuntu 5.15.0-91.101-generic 5.15.131\n";
        assert_eq!(
            stable_of("5.15.0-91-generic", "#101-Ubuntu", ubuntu),
            Some((5, 15, 131))
        );
        assert_eq!(stable_of("6.18.44-fc", "#1 SMP", ""), Some((6, 18, 44)));
        assert_eq!(stable_of("7.0-rc3", "", ""), Some((7, 0, 0)));
        assert_eq!(stable_of("", "", ""), None);
    }

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
