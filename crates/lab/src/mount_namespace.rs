//! A private mount namespace for tests of `ns` and `prof`: the names that they create in `/run/netns` do not
//! appear on the host.

use crate::or_panic::OrPanic;
use crate::{Skip, program};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

/// A mount namespace with an empty `/run` and an empty `/etc/netns`: network namespaces that are created in
/// it have names nowhere else. Its end, or the end of the test's process, removes all of them.
#[derive(Debug)]
pub struct MountNamespace {
    holder: Child,
}

impl MountNamespace {
    /// Creates one; `/run` is a tmpfs with these options in addition to its mode: `""`, or `size=64k`,
    /// `nr_inodes=5`, `ro`.
    ///
    /// # Errors
    /// A skip without root or without the required programs.
    #[track_caller]
    pub fn new(options: &str) -> Result<Self, Skip> {
        for needed in ["unshare", "nsenter", "mount", "sh", "ip"] {
            program(needed)?;
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Skip::new("needs root, for a mount namespace of its own"));
        }
        let options = if options.is_empty() {
            "mode=755".to_owned()
        } else {
            format!("mode=755,{options}")
        };
        // The pipe ends the holder: `read` returns when the test's process ends, in whatever way.
        let script = format!(
            "mount -t tmpfs -o {options} own-run /run && \
             {{ [ ! -d /etc/netns ] || mount -t tmpfs own-etc /etc/netns; }} && echo ready && read -r _"
        );
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .or_panic("start unshare");
        let stdout = holder.stdout.take().expect("it was piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .or_panic("wait for the mounts");
        let made = Self { holder };
        assert_eq!(line, "ready\n", "lab: the mounts of its own could not be made");
        Ok(made)
    }

    /// A command that runs in it.
    pub fn command<S: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg("--")
            .arg(program)
            .args(arguments);
        command
    }

    /// The process in this mount namespace, for `/proc/PID/root`.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// The names in `/run/netns`, sorted; empty without that folder.
    pub fn names(&self) -> Vec<String> {
        let folder = format!("/proc/{}/root/run/netns", self.holder.id());
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The names that refer to no namespace.
    pub fn remains(&self) -> Vec<String> {
        let folder = format!("/proc/{}/root/run/netns", self.holder.id());
        let device = |path: &str| std::fs::metadata(path).map(|file| file.dev()).ok();
        let own = device(&folder);
        let mut names = self.names();
        names.retain(|name| device(&format!("{folder}/{name}")) == own);
        names
    }
}

impl Drop for MountNamespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
