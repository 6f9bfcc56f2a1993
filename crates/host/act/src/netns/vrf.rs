//! Exit from the VRF cgroup of `ip vrf exec`. `ns exec` calls it before it enters a namespace. It moves the
//! whole process, not only the calling thread.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Moves the process out of the VRF that `ip vrf exec` put it into, as `ip netns exec` does first (`vrf_reset()` of
/// iproute2's `ip/ipvrf.c`): the cgroup of a VRF binds every new socket to an interface index, which means another
/// interface or none in another network namespace.
///
/// Does nothing if the process is in no VRF.
///
/// # Errors
/// If the process may not leave the VRF, or no cgroup v2 file system is mounted.
pub fn leave_vrf() -> io::Result<()> {
    let Ok(cgroups) = std::fs::read("/proc/self/cgroup") else {
        return Ok(());
    };
    let Some(parent) = parent_of_vrf(&cgroups) else {
        return Ok(());
    };
    let mut file = std::fs::read("/proc/self/mountinfo")
        .map(|mounts| cgroup2(&mounts))?
        .ok_or_else(|| {
            io::Error::new(
                ErrorKind::NotFound,
                "no cgroup file system of version 2 is mounted",
            )
        })?;
    file.push(OsStr::from_bytes(parent));
    file.push("cgroup.procs");
    std::fs::write(file, std::process::id().to_string())
}

/// Returns the cgroup above a VRF's, relative to the cgroup mount: `user/vrf` for `0::/user/vrf/blue`; `None` outside a
/// VRF.
fn parent_of_vrf(cgroups: &[u8]) -> Option<&[u8]> {
    let path = cgroups
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"0::/"))?;
    if path.starts_with(b"vrf/") {
        return Some(b"vrf");
    }
    let end = path.windows(VRF.len()).position(|part| part == VRF)?;
    Some(&path[..end + VRF.len() - 1])
}

/// Returns the first mount point of cgroup v2.
fn cgroup2(mountinfo: &[u8]) -> Option<PathBuf> {
    mountinfo.split(|&byte| byte == b'\n').find_map(|line| {
        // 36 35 98:0 / /sys/fs/cgroup rw,noatime shared:1 - cgroup2 none rw
        let mut words = line.split(|&byte| byte == b' ');
        let target = words.nth(4)?;
        words.find(|word| *word == b"-")?;
        (words.next()? == b"cgroup2").then(|| PathBuf::from(OsStr::from_bytes(&unescaped(target))))
    })
}

/// Decodes octal escapes: `mangle_path()` of `fs/seq_file.c` writes spaces, tabs, newlines and backslashes as `\040`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    out
}

const VRF: &[u8] = b"/vrf/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vrf_parent_is_found() {
        let parent = |text: &str| {
            let found = parent_of_vrf(text.as_bytes());
            found.map(|found| String::from_utf8(found.to_vec()).unwrap())
        };
        assert_eq!(
            parent("1:cpu:/a/vrf/x\n0::/user/one/vrf/blue\n").as_deref(),
            Some("user/one/vrf")
        );
        assert_eq!(parent("0::/vrf/blue\n").as_deref(), Some("vrf"));
        assert_eq!(parent("0::/user/vrfs/blue\n"), None);
        assert_eq!(parent("0::/\n"), None);
        assert_eq!(parent("2:cpu:/vrf/blue\n"), None);
        assert_eq!(parent(""), None);
    }

    #[test]
    fn cgroup_mount_point_is_found_and_unescaped() {
        let mounts = b"36 35 98:0 / / rw - ext4 /dev/sda rw\n\
            37 36 0:9 / /sys/fs/a\\040b rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw\n\
            38 36 0:9 / /other rw - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2(mounts), Some(PathBuf::from("/sys/fs/a b")));
        assert_eq!(cgroup2(b"garbage\n\n1 2 3 4\n"), None);
        assert_eq!(unescaped(b"a\\134\\12"), b"a\\\\12");
    }
}
