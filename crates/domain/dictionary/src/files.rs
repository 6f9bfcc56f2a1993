//! The files of `data/`, for the build script and the tests: the crate itself has their contents in the binary.

use crate::Kind;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The files of a kind in this folder, with their contents: one, or those of the kind's folder in the order of their names.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn files(data: &Path, kind: Kind) -> io::Result<Vec<(PathBuf, String)>> {
    let folder = data.join(kind.file());
    let mut paths = vec![folder.with_extension("dict")];
    if folder.is_dir() {
        let entries = fs::read_dir(folder)?;
        paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        paths.sort();
    }
    let read = |path: PathBuf| fs::read_to_string(&path).map(|text| (path, text));
    paths.into_iter().map(read).collect()
}
