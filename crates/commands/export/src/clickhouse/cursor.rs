//! The last sample that was sent, in a file.

use anyhow::Context;
use sockeye_console::output_file::{OutputFile, Readers};
use sockeye_fleet::SampleMark;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file.
#[derive(Debug)]
pub(super) struct CursorFile(PathBuf);

impl CursorFile {
    /// Returns the file that an option names, or that of a store.
    pub(super) fn of(named: Option<&Path>, store: &Path) -> Self {
        if let Some(named) = named {
            return Self(named.to_owned());
        }
        let mut name = store.as_os_str().to_owned();
        name.push("-clickhouse");
        Self(name.into())
    }

    /// Returns the sample that was sent last; `None`: none was.
    pub(super) fn read(&self) -> anyhow::Result<Option<SampleMark>> {
        let text = match std::fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", self.0.display())),
        };
        let mark = parse(&text);
        mark.map(Some)
            .with_context(|| format!("{} is no file of `sockeye export clickhouse`", self.0.display()))
    }

    /// Notes a sample.
    pub(super) fn write(&self, sent: SampleMark) -> anyhow::Result<()> {
        let during = || format!("write {}", self.0.display());
        let mut file = OutputFile::create_for(&self.0, Readers::Owner)?;
        file.file()
            .write_all(text(sent).as_bytes())
            .with_context(during)?;
        file.file().sync_data().with_context(during)?;
        file.finish()
    }
}

fn text(sent: SampleMark) -> String {
    format!("{MAGIC} sample={} at_ms={}\n", sent.id, sent.at_ms)
}

fn parse(text: &str) -> Option<SampleMark> {
    let (id, at_ms) = text
        .trim_end()
        .strip_prefix(MAGIC)?
        .strip_prefix(" sample=")?
        .split_once(" at_ms=")?;
    Some(SampleMark {
        id: id.parse().ok()?,
        at_ms: at_ms.parse().ok()?,
    })
}

const MAGIC: &str = "sockeye-clickhouse-cursor 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_read_back() {
        let sent = SampleMark { id: 7, at_ms: 9 };
        assert_eq!(text(sent), "sockeye-clickhouse-cursor 1 sample=7 at_ms=9\n");
        assert_eq!(parse(&text(sent)), Some(sent));
        for bad in [
            "",
            "sockeye-clickhouse-cursor 1",
            "sockeye-clickhouse-cursor 2 sample=7 at_ms=9",
        ] {
            assert_eq!(parse(bad), None);
        }
    }
}
