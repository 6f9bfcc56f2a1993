//! Child processes that wait before `execve(2)` until they are resumed.
#![allow(unsafe_code)]

use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A child process that is set up completely and waits before its `execve(2)`.
///
/// It exits without running the program when this is dropped, or when our process ends for any reason.
#[derive(Debug)]
pub struct PausedProgram {
    pid: u32,
    /// Writing end of the pipe that the child waits on: a byte resumes it, closing ends it.
    resume: Option<OwnedFd>,
    /// The thread in `Command::spawn`, which returns only after `execve(2)`.
    starter: Option<JoinHandle<io::Result<Child>>>,
}

impl PausedProgram {
    /// Forks the child process.
    ///
    /// # Errors
    /// If no process, thread or descriptor can be created.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (resume_read, resume_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (pid_read, pid_write) = pipe_with(PipeFlags::CLOEXEC)?;
        let (resume_write_fd, resume_read_fd, pid_fd) = (
            resume_write.as_raw_fd(),
            resume_read.as_raw_fd(),
            pid_write.as_raw_fd(),
        );
        // SAFETY: between fork and exec it makes system calls only, and neither locks nor allocates; the descriptors
        // stay open until the spawn has finished, because the thread below owns two and this value the third.
        unsafe { command.pre_exec(move || wait_for_resume(resume_write_fd, resume_read_fd, pid_fd)) };
        let starter = std::thread::Builder::new().spawn(move || {
            let started = command.spawn();
            drop((resume_read, pid_write));
            started
        })?;
        let mut paused = Self {
            pid: 0,
            resume: Some(resume_write),
            starter: Some(starter),
        };
        let mut bytes = [0; 4];
        // Fewer than PIPE_BUF bytes arrive in one piece, or none if there is no process.
        let got = loop {
            match read(&pid_read, &mut bytes) {
                Err(Errno::INTR) => {}
                got => break got?,
            }
        };
        if got < bytes.len() {
            return Err(match paused.end() {
                Some(Err(error)) => error,
                _ => io::ErrorKind::UnexpectedEof.into(),
            });
        }
        paused.pid = u32::from_ne_bytes(bytes);
        Ok(paused)
    }

    /// Process id, which the program will keep.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child call `execve(2)`, and returns it as a running program.
    ///
    /// # Errors
    /// If there is no such program, or it cannot be run.
    pub fn resume(mut self) -> io::Result<Child> {
        if let Some(pipe) = &self.resume {
            while write(pipe, b"!") == Err(Errno::INTR) {}
        }
        self.end().unwrap_or_else(|| Err(io::ErrorKind::Other.into()))
    }

    /// Closes the pipe and waits until the child has become the program or has exited.
    fn end(&mut self) -> Option<io::Result<Child>> {
        // Unless a byte was written before, this makes the child exit.
        self.resume = None;
        let joined = self.starter.take()?.join();
        Some(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for PausedProgram {
    fn drop(&mut self) {
        // For the standard library, a child that exited without reporting an error has become the program.
        if let Some(Ok(mut child)) = self.end() {
            let _ = child.wait();
        }
    }
}

/// Runs in the child before `execve(2)`: sends its pid and waits for the byte that resumes it.
fn wait_for_resume(resume_write: RawFd, resume_read: RawFd, pid_pipe: RawFd) -> io::Result<()> {
    // The read below sees the end of the pipe only when no copy of its writing end is open.
    // SAFETY: this process has one thread, which does not use this descriptor again.
    unsafe { libc::close(resume_write) };
    let pid = std::process::id().to_ne_bytes();
    // SAFETY: it was open at the fork, and nothing closes it here.
    let pid_pipe = unsafe { BorrowedFd::borrow_raw(pid_pipe) };
    write(pid_pipe, &pid)?;
    // SAFETY: likewise.
    let resume_read = unsafe { BorrowedFd::borrow_raw(resume_read) };
    loop {
        match read(resume_read, &mut [0_u8]) {
            Err(Errno::INTR) => {}
            // The parent may be gone. An error could not be reported then, and the standard library would abort with a
            // message.
            // SAFETY: `_exit` has no preconditions.
            Ok(0) => unsafe { libc::_exit(1) },
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn child_waits_until_resumed() {
        let mut command = Command::new("/bin/echo");
        command.arg("hello").stdout(Stdio::piped());
        let paused = PausedProgram::start(command).unwrap();
        let pid = paused.pid();
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        let file = || std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(file(), own);
        let child = paused.resume().unwrap();
        assert_eq!(child.id(), pid);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"hello\n");
        assert!(output.status.success());
    }

    #[test]
    fn dropping_ends_the_child() {
        let paused = PausedProgram::start(Command::new("/bin/true")).unwrap();
        let folder = format!("/proc/{}", paused.pid());
        assert!(std::fs::exists(&folder).unwrap());
        drop(paused);
        assert!(!std::fs::exists(&folder).unwrap());
    }

    #[test]
    fn missing_program_fails_at_resume() {
        let paused = PausedProgram::start(Command::new("/nowhere/to/be/found")).unwrap();
        let error = paused.resume().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
