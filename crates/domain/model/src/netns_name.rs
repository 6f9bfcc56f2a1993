//! Validated name of a network namespace, which `ns` and `host/act` use as a path below `/run/netns`.
//! It guards these paths: no slash, no `..`, no NUL; a new name also has no control characters.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of a network namespace for `ip netns`: a file name in `/run/netns`.
///
/// ```
/// use sockeye_model::{InvalidNetnsName, NetnsName};
///
/// assert_eq!(NetnsName::new("web1").unwrap().path(), std::path::Path::new("/run/netns/web1"));
/// assert_eq!(NetnsName::new("../web"), Err(InvalidNetnsName::Slash));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsName(OsString);

/// Why a name is invalid for a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidNetnsName {
    /// It is empty.
    Empty,
    /// It is `.` or `..`.
    Dots,
    /// It contains a slash.
    Slash,
    /// It contains a control character, including C1 (U+0080 to U+009F), which could control the terminal of a listing; or a
    /// NUL, which ends a path.
    Control,
    /// It has so many bytes; a file name has at most 255 (`NAME_MAX`).
    Long(usize),
}

impl NetnsName {
    /// The folder of names. `/var/run` is a link to `/run`.
    pub const FOLDER: &str = "/run/netns";

    /// Checks a new name.
    ///
    /// # Errors
    /// Why it is invalid.
    pub fn new(name: impl Into<OsString>) -> Result<Self, InvalidNetnsName> {
        let name = Self::of_file(name)?;
        let has_control = name.0.as_bytes().utf8_chunks().any(|chunk| {
            // Not UTF-8: as an eight-bit terminal would interpret it.
            let is_c1 = |byte: &u8| (0x80..=0x9f).contains(byte);
            chunk.valid().chars().any(char::is_control) || chunk.invalid().iter().any(is_c1)
        });
        if has_control {
            return Err(InvalidNetnsName::Control);
        }
        Ok(name)
    }

    /// Checks an existing name, which may contain control characters.
    ///
    /// # Errors
    /// Why it is no file name.
    pub fn of_file(name: impl Into<OsString>) -> Result<Self, InvalidNetnsName> {
        let name = name.into();
        match name.as_bytes() {
            [] => Err(InvalidNetnsName::Empty),
            b"." | b".." => Err(InvalidNetnsName::Dots),
            bytes if bytes.contains(&b'/') => Err(InvalidNetnsName::Slash),
            bytes if bytes.contains(&0) => Err(InvalidNetnsName::Control),
            bytes if bytes.len() > NAME_MAX => Err(InvalidNetnsName::Long(bytes.len())),
            _ => Ok(Self(name)),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the path of its file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(Self::FOLDER).join(&self.0)
    }
}

/// Writes the name. U+FFFD replaces invalid UTF-8; control characters are kept.
impl fmt::Display for NetnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string_lossy())
    }
}

impl fmt::Display for InvalidNetnsName {
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

impl std::error::Error for InvalidNetnsName {}

/// `NAME_MAX` of `include/uapi/linux/limits.h`
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[track_caller]
    fn check(name: &[u8], expected: Option<InvalidNetnsName>) {
        let found = NetnsName::new(OsString::from_vec(name.to_vec()));
        assert_eq!(found.err(), expected, "{}", name.escape_ascii());
    }

    #[test]
    fn new_names_have_no_control_characters() {
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
        check(b"", Some(InvalidNetnsName::Empty));
        check(b".", Some(InvalidNetnsName::Dots));
        check(b"..", Some(InvalidNetnsName::Dots));
        check(b"a/b", Some(InvalidNetnsName::Slash));
        check(b"/", Some(InvalidNetnsName::Slash));
        check(b"a\nb", Some(InvalidNetnsName::Control));
        check(b"\x1b[31m", Some(InvalidNetnsName::Control));
        check(b"\x7f", Some(InvalidNetnsName::Control));
        check(b"a\0", Some(InvalidNetnsName::Control));
        check("\u{9b}31m".as_bytes(), Some(InvalidNetnsName::Control));
        check(b"\x9b31m", Some(InvalidNetnsName::Control));
        check(&[b'x'; 256], Some(InvalidNetnsName::Long(256)));
    }

    #[test]
    fn existing_names_may_have_control_characters() {
        assert_eq!(
            NetnsName::of_file("a\nb").map(|name| name.to_string()),
            Ok("a\nb".to_owned())
        );
        assert_eq!(NetnsName::of_file("a\0"), Err(InvalidNetnsName::Control));
        assert_eq!(NetnsName::of_file(".."), Err(InvalidNetnsName::Dots));
    }
}
