//! Search and start of a user's command, with `execve` or as a child; for `ns exec` and `keepalive run`.
//! Its errors say what the user can do.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A program and its arguments; found and started as by `execvp(3)` of glibc.
#[derive(Debug)]
pub struct Program<'a> {
    file: &'a OsStr,
    arguments: &'a [OsString],
}

/// The error of a program that could not be started.
#[derive(Debug)]
pub struct NotStarted {
    file: OsString,
    /// Whether there is such a program.
    is_found: bool,
    error: io::Error,
}

impl<'a> Program<'a> {
    /// Creates it from the words of a command, with or without `--` in front; `None` if there are no words.
    pub fn new(words: &'a [OsString]) -> Option<Self> {
        let words = match words {
            [first, rest @ ..] if first == "--" => rest,
            words => words,
        };
        let (file, arguments) = words.split_first()?;
        Some(Self { file, arguments })
    }

    /// Replaces this process (`execve(2)`); returns only if that failed. The standard library resets `SIGPIPE` before.
    pub fn exec(&self) -> NotStarted {
        let mut error = self.command().exec();
        if let Some(mut shell) = self.for_shell(&error) {
            error = shell.exec();
        }
        self.failed(error)
    }

    /// Starts it after `prepare` has changed the command.
    ///
    /// # Errors
    /// If it is not found or cannot be started.
    pub fn start(&self, prepare: impl Fn(&mut Command)) -> Result<Child, NotStarted> {
        let start = |mut command: Command| {
            prepare(&mut command);
            command.spawn()
        };
        start(self.command())
            .or_else(|error| self.for_shell(&error).map_or(Err(error), start))
            .map_err(|error| self.failed(error))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.file);
        command.args(self.arguments);
        command
    }

    /// Returns the shell that runs a script without `#!`, as `execvp(3)` does in glibc, but not in musl; `None` for another error.
    fn for_shell(&self, error: &io::Error) -> Option<Command> {
        if error.raw_os_error() != Some(Errno::NOEXEC.raw_os_error()) {
            return None;
        }
        let mut shell = Command::new("/bin/sh");
        shell.arg(self.found()?).args(self.arguments);
        Some(shell)
    }

    /// Returns the path of the program; `None` if it is not in `PATH`.
    fn found(&self) -> Option<PathBuf> {
        if self.file.as_bytes().contains(&b'/') {
            return Some(self.file.into());
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        std::env::split_paths(&path)
            .map(|folder| match folder.as_os_str().is_empty() {
                true => Path::new(".").join(self.file),
                false => folder.join(self.file),
            })
            .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
    }

    fn failed(&self, error: io::Error) -> NotStarted {
        NotStarted {
            file: self.file.to_owned(),
            is_found: self.found().is_some(),
            error,
        }
    }
}

impl NotStarted {
    /// Returns whether there is no such program.
    pub fn is_absent(&self) -> bool {
        self.error.kind() == io::ErrorKind::NotFound
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start {:?}: {}", self.file, self.error)?;
        let remedy = match self.error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) if self.is_found => "the interpreter that it names is missing",
            Some(Errno::NOENT) if self.file.as_bytes().contains(&b'/') => "no such file",
            Some(Errno::NOENT) => "no such program in PATH",
            Some(Errno::ACCESS) => "it is no program that you may run",
            Some(Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`, or run fewer at once",
            Some(Errno::AGAIN | Errno::NOMEM) => {
                "too many processes, or too little memory: run fewer at once"
            }
            Some(Errno::TOOBIG) => "its arguments and environment are too long",
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

impl std::error::Error for NotStarted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
