//! The last sample that was sent, in a file.

use anyhow::Context;
use sockeye_console::exit::InUse;
use sockeye_console::output_file::{OutputFile, Readers, database_path};
use sockeye_fleet::SampleMark;
use sockeye_store::lock_next_to;
use std::fs::File;
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

    /// Locks it: two processes that move it would send the same samples, and each would overwrite what the other noted. The lock is on
    /// a file next to it, because the file itself is replaced. The kernel lets it go with the process, however that ends.
    ///
    /// # Errors
    /// If another process has locked it, or the file of the lock cannot be made.
    pub(super) fn lock(&self) -> anyhow::Result<File> {
        let checked =
            database_path(&self.0, &["-lock"]).with_context(|| format!("write {}", self.0.display()))?;
        let locked = lock_next_to(&checked).with_context(|| format!("lock {}-lock", self.0.display()))?;
        locked.ok_or_else(|| {
            let text = format!(
                "{}: another `sockeye export clickhouse` sends from here: one is enough; to another server, with a --cursor of its own",
                self.0.display()
            );
            InUse(text).into()
        })
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
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn second_process_is_refused_and_a_killed_one_leaves_no_lock() {
        let folder = std::env::temp_dir().join(format!("sockeye-cursor-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let store = folder.join("record.db");
        let cursor = CursorFile::of(None, &store);
        drop(cursor.lock().unwrap());
        let mut holder = Command::new("flock")
            .args(["--nonblock", "--no-fork"])
            .arg(folder.join("record.db-clickhouse-lock"))
            .args(["sh", "-c", "echo locked; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut locked = [0; 6];
        let read = holder.stdout.take().unwrap().read_exact(&mut locked);
        let refused = cursor.lock();
        // The file is replaced meanwhile, as after each interval.
        let written = cursor.write(SampleMark { id: 7, at_ms: 9 });
        let refused_again = cursor.lock();
        let other = CursorFile::of(Some(&folder.join("other-server")), &store).lock();
        holder.kill().unwrap();
        holder.wait().unwrap();
        let after = cursor.lock();
        std::fs::remove_dir_all(&folder).unwrap();
        read.unwrap();
        written.unwrap();
        for refused in [refused, refused_again] {
            let text = format!("{:#}", refused.unwrap_err());
            assert!(
                text.contains("record.db-clickhouse: another `sockeye export clickhouse`"),
                "{text}"
            );
        }
        other.unwrap();
        after.unwrap();
    }

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
