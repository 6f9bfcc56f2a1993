//! Finds the compared programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a program in the folder of this one, where cargo puts it, or else on the path.
pub fn sibling_or_on_path(name: &str) -> Option<PathBuf> {
    let sibling = std::env::current_exe()
        .ok()
        .and_then(|this| Some(this.parent()?.join(name)));
    sibling
        .filter(|program| is_executable(program))
        .or_else(|| on_path(name))
}

/// Finds a program on the path.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| is_executable(program))
}

/// Whether this is an executable file.
pub fn is_executable(program: &Path) -> bool {
    program
        .metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_program_is_found() {
        assert!(on_path("sh").is_some());
        assert_eq!(on_path("no-such-program-anywhere"), None);
        assert!(!is_executable(Path::new("/")));
    }
}
