//! The file for the textfile collector of `node_exporter`.

use anyhow::Context;
use sockeye_console::output_file::OutputFile;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns the path of a file that `node_exporter` reads: it ignores other names.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_some_and(|extension| extension == "prom") {
        Ok(path)
    } else {
        Err("node_exporter reads only files whose name ends in .prom".to_owned())
    }
}

/// Writes the file as a whole: a reader sees the old or the new one.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.file()
        .write_all(text.as_bytes())
        .with_context(|| format!("write {}", path.display()))?;
    file.finish()
}
