//! The functions that a user names for `prof`: a pattern and a file. `session.rs` takes it as a part of the
//! plan; `watch.rs` selects the functions by it.

use crate::executable;
use std::path::PathBuf;

/// Selects functions by name and file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionFilter {
    /// Pattern for their names, as in the symbol table or in the source; `*` matches any characters, `?` one.
    pub pattern: String,
    /// Only in files whose name begins like this: `libcrypto` matches `libcrypto.so.3`. `None`: all files.
    pub library: Option<String>,
}

impl FunctionFilter {
    /// Returns the file if `library` is a path or the name of a program in `PATH`.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let library = self.library.as_deref()?;
        let path = PathBuf::from(library);
        if library.contains('/') && path.is_file() {
            return Some(path);
        }
        executable::find(library.as_ref()).ok()
    }
}

/// Returns whether a file name begins with `library`, and no letter follows: `libc` does not match `libcrypto.so.3`.
pub(super) fn matches_library(file: &str, library: &str) -> bool {
    // It may be a path.
    let library = library.rsplit('/').next().unwrap_or(library);
    file.strip_prefix(library)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_matches_file_name_prefix_up_to_a_word() {
        for (file, library, expected) in [
            ("libcrypto.so.3", "libcrypto", true),
            ("libcrypto.so.3", "libcrypto.so.3", true),
            ("libcrypto.so.3", "/usr/lib/libcrypto.so.3", true),
            ("libcrypto.so.3", "libc", false),
            ("libc.so.6", "libc", true),
            ("libc-2.31.so", "libc", true),
            ("libssl3.so", "libssl", true),
            ("openssl", "libssl", false),
        ] {
            assert_eq!(matches_library(file, library), expected, "{file} {library}");
        }
    }
}
