use crate::must::Must;
use crate::{Skip, program};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

/// A mount namespace of its own with an empty `/run` and an empty `/etc/netns`: names of network namespaces that are
/// made in it exist nowhere else. With its drop, or with the test's process, all of them are gone.
#[derive(Debug)]
pub struct OwnMounts {
    holder: Child,
}

impl OwnMounts {
    /// Makes one, whose `/run` is a tmpfs with these options besides its mode: `""`, or `size=64k`, `nr_inodes=5`, `ro`.
    ///
    /// # Errors
    /// A skip without root's rights or the programs it takes.
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
        // The pipe is its life: when the test's process ends, however, `read` returns, and so does the holder.
        let script = format!(
            "mount -t tmpfs -o {options} own-run /run && \
             {{ [ ! -d /etc/netns ] || mount -t tmpfs own-etc /etc/netns; }} && echo ready && read -r _"
        );
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .must("start unshare");
        let stdout = holder.stdout.take().expect("it was piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .must("wait for the mounts");
        let made = Self { holder };
        assert_eq!(line, "ready\n", "lab: the mounts of its own could not be made");
        Ok(made)
    }

    /// A command that will run in it.
    pub fn command<S: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg("--")
            .arg(program)
            .args(arguments);
        command
    }

    /// The process whose mount namespace it is, for `/proc/PID/root`.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// The names in `/run/netns`, sorted; none where there is no such folder.
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

    /// Those of the names that stand for no namespace.
    pub fn remains(&self) -> Vec<String> {
        let folder = format!("/proc/{}/root/run/netns", self.holder.id());
        let device = |path: &str| std::fs::metadata(path).map(|file| file.dev()).ok();
        let own = device(&folder);
        let mut names = self.names();
        names.retain(|name| device(&format!("{folder}/{name}")) == own);
        names
    }
}

impl Drop for OwnMounts {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
