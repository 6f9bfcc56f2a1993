//! Command lines of processes.

use sockeye_model::{Comm, Process};
use std::fs::File;
use std::io::Read as _;

/// Returns the arguments of a process, with a blank between two of them, at most 4096 bytes. `None` if the process has ended, has another name
/// by now, has no arguments (a thread of the kernel), or cannot be read.
#[must_use]
pub fn command_line(process: &Process) -> Option<Vec<u8>> {
    let read = |file: &str| {
        let mut bytes = Vec::new();
        let file = File::open(format!("/proc/{}/{file}", process.pid)).ok()?;
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    // The number may be that of another process by now.
    let name = read("comm")?;
    if Comm::new(name.strip_suffix(b"\n")?) != process.comm {
        return None;
    }
    let mut arguments = read("cmdline")?;
    while arguments.last() == Some(&0) {
        arguments.pop();
    }
    for byte in &mut arguments {
        if *byte == 0 {
            *byte = b' ';
        }
    }
    (!arguments.is_empty()).then_some(arguments)
}

const BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Pid;
    use std::process::{Command, Stdio};

    #[test]
    fn command_line_is_that_of_the_process_with_this_name() {
        let mut child = Command::new("cat")
            .args(["-u", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat starts");
        let of = |comm: &[u8]| {
            command_line(&Process {
                pid: Pid(child.id()),
                pgid: None,
                comm: Comm::new(comm),
            })
        };
        // It has its name once it executes.
        let found = std::iter::repeat_with(|| of(b"cat")).find(Option::is_some);
        assert_eq!(found.flatten().as_deref(), Some(&b"cat -u -"[..]));
        assert_eq!(of(b"dog"), None);
        drop(child.stdin.take());
        child.wait().expect("it ends");
        let gone = Process {
            pid: Pid(child.id()),
            pgid: None,
            comm: Comm::new(b"cat"),
        };
        assert_eq!(command_line(&gone), None);
    }
}
