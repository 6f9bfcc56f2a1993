use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of a network namespace, as `ip netns` keeps it: that of a file in `/run/netns`.
///
/// ```
/// use sockeye_model::{BadNetnsName, NetnsName};
///
/// assert_eq!(NetnsName::new("web1").unwrap().path(), std::path::Path::new("/run/netns/web1"));
/// assert_eq!(NetnsName::new("../web"), Err(BadNetnsName::Slash));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsName(OsString);

/// Why no network namespace can be called so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadNetnsName {
    /// It is empty.
    Empty,
    /// `.` and `..` are the folder and that above it.
    Dots,
    /// Names are files in one folder.
    Slash,
    /// A control character, C1 ones (U+0080 to U+009F) too: it would steer the terminals of all who list it. Also NUL, which
    /// ends a path.
    Control,
    /// So many bytes; a file's name has 255 at most (`NAME_MAX`).
    Long(usize),
}

impl NetnsName {
    /// The folder of names; `/var/run` is a link to `/run` wherever iproute2 is told otherwise.
    pub const FOLDER: &str = "/run/netns";

    /// A name that may be given.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: impl Into<OsString>) -> Result<Self, BadNetnsName> {
        let name = Self::of_file(name)?;
        let has_control = name.0.as_bytes().utf8_chunks().any(|chunk| {
            // Not UTF-8: what a terminal of eight-bit characters takes it for.
            let is_c1 = |byte: &u8| (0x80..=0x9f).contains(byte);
            chunk.valid().chars().any(char::is_control) || chunk.invalid().iter().any(is_c1)
        });
        if has_control {
            return Err(BadNetnsName::Control);
        }
        Ok(name)
    }

    /// A name that may have been given by others, who need not have cared for control characters.
    ///
    /// # Errors
    /// What makes it no name of a file.
    pub fn of_file(name: impl Into<OsString>) -> Result<Self, BadNetnsName> {
        let name = name.into();
        match name.as_bytes() {
            [] => Err(BadNetnsName::Empty),
            b"." | b".." => Err(BadNetnsName::Dots),
            bytes if bytes.contains(&b'/') => Err(BadNetnsName::Slash),
            bytes if bytes.contains(&0) => Err(BadNetnsName::Control),
            bytes if bytes.len() > NAME_MAX => Err(BadNetnsName::Long(bytes.len())),
            _ => Ok(Self(name)),
        }
    }

    /// As it was given.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// The file that stands for it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(Self::FOLDER).join(&self.0)
    }
}

/// With U+FFFD for what is not UTF-8; a control character is still one.
impl fmt::Display for NetnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string_lossy())
    }
}

impl fmt::Display for BadNetnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Dots => f.write_str("'.' and '..' are no names"),
            Self::Slash => f.write_str("a name has no '/'"),
            Self::Control => f.write_str("a name has no control characters"),
            Self::Long(bytes) => write!(f, "it has {bytes} bytes; a name has {NAME_MAX} at most"),
        }
    }
}

impl std::error::Error for BadNetnsName {}

/// `NAME_MAX` of `include/uapi/linux/limits.h`
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[track_caller]
    fn check(name: &[u8], expected: Option<BadNetnsName>) {
        let found = NetnsName::new(OsString::from_vec(name.to_vec()));
        assert_eq!(found.err(), expected, "{}", name.escape_ascii());
    }

    #[test]
    fn names_that_may_be_given() {
        for good in [
            "web1",
            "a b",
            "...",
            ".hidden",
            "-x",
            "0",
            "\u{e9}",
            &"x".repeat(255),
        ] {
            check(good.as_bytes(), None);
        }
        check(b"\xff", None);
        check(b"", Some(BadNetnsName::Empty));
        check(b".", Some(BadNetnsName::Dots));
        check(b"..", Some(BadNetnsName::Dots));
        check(b"a/b", Some(BadNetnsName::Slash));
        check(b"/", Some(BadNetnsName::Slash));
        check(b"a\nb", Some(BadNetnsName::Control));
        check(b"\x1b[31m", Some(BadNetnsName::Control));
        check(b"\x7f", Some(BadNetnsName::Control));
        check(b"a\0", Some(BadNetnsName::Control));
        check("\u{9b}31m".as_bytes(), Some(BadNetnsName::Control));
        check(b"\x9b31m", Some(BadNetnsName::Control));
        check(&[b'x'; 256], Some(BadNetnsName::Long(256)));
    }

    #[test]
    fn names_that_others_gave() {
        assert_eq!(
            NetnsName::of_file("a\nb").map(|name| name.to_string()),
            Ok("a\nb".to_owned())
        );
        assert_eq!(NetnsName::of_file("a\0"), Err(BadNetnsName::Control));
        assert_eq!(NetnsName::of_file(".."), Err(BadNetnsName::Dots));
    }
}
