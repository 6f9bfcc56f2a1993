//! The files of `data/`, for the build script and the tests: the crate itself has their contents in the binary.

#[cfg(test)]
use crate::Entry;
use crate::Kind;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The files of a kind below this folder, with their contents: one, or all those in the kind's folder and its folders, in the order of
/// their paths.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn files(data: &Path, kind: Kind) -> io::Result<Vec<(PathBuf, String)>> {
    let folder = data.join(kind.file());
    let mut paths = Vec::new();
    if folder.is_dir() {
        add_files(&folder, &mut paths)?;
        paths.sort();
    } else {
        paths.push(folder.with_extension("dict"));
    }
    let read = |path: PathBuf| fs::read_to_string(&path).map(|text| (path, text));
    paths.into_iter().map(read).collect()
}

fn add_files(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_files(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// The entries in the binary, each with its examples, which only the files have.
#[cfg(test)]
pub(crate) fn examples()
-> impl Iterator<Item = (&'static Entry<'static>, &'static [std::borrow::Cow<'static, str>])> {
    static READ: std::sync::OnceLock<Vec<Entry<'static>>> = std::sync::OnceLock::new();
    let read = READ.get_or_init(|| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let files = Kind::ALL.into_iter().flat_map(|kind| {
            let files = files(&data, kind).unwrap_or_default().into_iter();
            files.map(move |(_, file)| (kind, String::leak(file) as &'static str))
        });
        files
            .flat_map(|(kind, file)| crate::stanza::entries(kind, file).flatten())
            .collect()
    });
    assert_eq!(read.len(), crate::packed::len());
    crate::packed::entries().zip(read.iter().map(|entry| entry.examples.as_slice()))
}
