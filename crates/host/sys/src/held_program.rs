//! Programs that are started, but stand still until they are let go.
#![allow(unsafe_code)]

use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A process that has everything a program gets, and waits before its `execve(2)`.
///
/// It ends without a trace when this is dropped, or our program ends, however that may happen.
#[derive(Debug)]
pub struct HeldProgram {
    pid: u32,
    /// What it waits for comes through this pipe, or its end.
    go: Option<OwnedFd>,
    /// The standard library's start of a program lasts until the program runs.
    starter: Option<JoinHandle<io::Result<Child>>>,
}

impl HeldProgram {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no process, thread or descriptor left.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (go_end, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let (number, number_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ours, theirs, tell) = (go.as_raw_fd(), go_end.as_raw_fd(), number_end.as_raw_fd());
        // SAFETY: between fork and exec it makes system calls only, and takes neither locks nor memory; the descriptors are
        // open until the program was started or was not, since the thread below holds two and this process the third.
        unsafe { command.pre_exec(move || stand_still(ours, theirs, tell)) };
        let starter = std::thread::Builder::new().spawn(move || {
            let started = command.spawn();
            drop((go_end, number_end));
            started
        })?;
        let mut held = Self {
            pid: 0,
            go: Some(go),
            starter: Some(starter),
        };
        let mut bytes = [0; 4];
        // Fewer bytes than a pipe takes at once come at once, or none, if there is no process.
        let got = loop {
            match read(&number, &mut bytes) {
                Err(Errno::INTR) => {}
                got => break got?,
            }
        };
        if got < bytes.len() {
            return Err(match held.end() {
                Some(Err(error)) => error,
                _ => io::ErrorKind::UnexpectedEof.into(),
            });
        }
        held.pid = u32::from_ne_bytes(bytes);
        Ok(held)
    }

    /// Its number, which the program will have too.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Has it become the program.
    ///
    /// # Errors
    /// When there is no such program, or it cannot be run.
    pub fn let_go(mut self) -> io::Result<Child> {
        if let Some(go) = &self.go {
            while write(go, b"!") == Err(Errno::INTR) {}
        }
        self.end().unwrap_or_else(|| Err(io::ErrorKind::Other.into()))
    }

    /// Waits until it is the program, or has ended.
    fn end(&mut self) -> Option<io::Result<Child>> {
        // Without a word before, this is its end.
        self.go = None;
        let joined = self.starter.take()?.join();
        Some(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for HeldProgram {
    fn drop(&mut self) {
        // For the standard library, who ended without an error has become the program.
        if let Some(Ok(mut child)) = self.end() {
            let _ = child.wait();
        }
    }
}

/// What the new process does before it becomes the program.
fn stand_still(ours: RawFd, theirs: RawFd, tell: RawFd) -> io::Result<()> {
    // The pipe ends when nobody holds its writing end any more.
    // SAFETY: this process has one thread, which uses this number no more.
    unsafe { libc::close(ours) };
    let pid = std::process::id().to_ne_bytes();
    // SAFETY: it was open when this process came to be, and nobody closes it here.
    let tell = unsafe { BorrowedFd::borrow_raw(tell) };
    write(tell, &pid)?;
    // SAFETY: likewise.
    let go = unsafe { BorrowedFd::borrow_raw(theirs) };
    loop {
        match read(go, &mut [0_u8]) {
            Err(Errno::INTR) => {}
            // Nobody may be left whom an error could be told: the standard library would abort then, with a message.
            // SAFETY: it has no conditions.
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
    fn it_waits_until_it_is_let_go() {
        let mut command = Command::new("/bin/echo");
        command.arg("hello").stdout(Stdio::piped());
        let held = HeldProgram::start(command).unwrap();
        let pid = held.pid();
        let own = std::fs::read_link("/proc/self/exe").unwrap();
        let file = || std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(file(), own);
        let child = held.let_go().unwrap();
        assert_eq!(child.id(), pid);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"hello\n");
        assert!(output.status.success());
    }

    #[test]
    fn it_ends_with_who_holds_it() {
        let held = HeldProgram::start(Command::new("/bin/true")).unwrap();
        let folder = format!("/proc/{}", held.pid());
        assert!(std::fs::exists(&folder).unwrap());
        drop(held);
        assert!(!std::fs::exists(&folder).unwrap());
    }

    #[test]
    fn what_is_no_program_is_told_when_it_is_let_go() {
        let held = HeldProgram::start(Command::new("/nowhere/to/be/found")).unwrap();
        let error = held.let_go().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
