//! The file for the textfile collector of `node_exporter`.

use anyhow::Context;
use sockeye_console::output_file::OutputFile;
use std::io::Write;
use std::path::Path;

/// Writes the file as a whole: a reader sees the old or the new one.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.file()
        .write_all(text.as_bytes())
        .with_context(|| format!("write {}", path.display()))?;
    file.finish()
}
