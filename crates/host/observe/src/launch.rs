//! Starts the observed command: it runs its first instruction only when everything is attached.

use crate::executable;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sockeye_sys::paused_program::PausedProgram;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// A command whose process exists but is stopped before `execve(2)`. It has our standard input, environment and process
/// group. It ends when this is dropped or our program ends.
#[derive(Debug)]
pub(crate) struct Launch {
    process: PausedProgram,
    name: OsString,
}

/// A command that runs. It continues to run when this is dropped.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    status: Option<ExitStatus>,
}

/// Why a command could not be started.
#[derive(Debug)]
pub struct LaunchError {
    name: OsString,
    /// Whether the program was found.
    is_file: bool,
    error: io::Error,
}

impl Launch {
    /// Finds the program as `execvp(3)` does and creates its process. `words`: the program and its arguments. `output`: its
    /// standard output; `None`: ours.
    pub(crate) fn prepare(words: &[OsString], output: Option<OwnedFd>) -> Result<Self, LaunchError> {
        let name = words.first().cloned().unwrap_or_default();
        let failed = |is_file, error| LaunchError {
            name: name.clone(),
            is_file,
            error,
        };
        let file = executable::find(&name).map_err(|errno| failed(false, errno.into()))?;
        let mut command;
        if is_script_without_interpreter(&file) {
            command = Command::new("/bin/sh");
            command.arg(&file);
        } else {
            use std::os::unix::process::CommandExt;
            command = Command::new(&file);
            command.arg0(&name);
        }
        command.args(words.iter().skip(1));
        if let Some(output) = output {
            command.stdout(output);
        }
        let process = PausedProgram::start(command).map_err(|error| failed(true, error))?;
        Ok(Self { process, name })
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Starts the program.
    pub(crate) fn resume(self) -> Result<Launched, LaunchError> {
        let name = self.name;
        let child = self.process.resume().map_err(|error| LaunchError {
            name,
            is_file: true,
            error,
        })?;
        Ok(Launched { child, status: None })
    }
}

impl Launched {
    /// Returns its exit status; `None` while it runs.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits for its end and returns its exit status.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Sends a signal, unless it was waited for.
    pub fn send(&self, signal: Signal) {
        // Its pid is valid until it was waited for.
        if self.status.is_none() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Returns a pidfd, which is readable once it has ended.
    ///
    /// # Errors
    /// `ENOSYS` before Linux 5.3; `EMFILE`.
    pub(crate) fn pidfd(&self) -> Result<OwnedFd, Errno> {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
    }

    /// Returns the exit code that a shell reports for this status: 128 + signal for a killed program.
    #[must_use]
    pub fn exit_code(status: ExitStatus) -> u8 {
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }
}

impl LaunchError {
    /// Returns the exit code that a shell reports: 127 if there is no such program, 126 if it cannot be executed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.error.kind() {
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start {:?}: {}", self.name, self.error)?;
        let remedy = match self.error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) if self.is_file => "the interpreter that it names is missing",
            Some(Errno::NOENT) if self.name.as_bytes().contains(&b'/') => "no such file",
            Some(Errno::NOENT) => "no such program in PATH",
            Some(Errno::ACCESS) => "it is no program that you may run",
            Some(Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`",
            Some(Errno::AGAIN | Errno::NOMEM) => "too many processes, or too little memory",
            Some(Errno::TOOBIG) => "its arguments and environment are too long",
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Returns whether the file is a script without `#!`. `execve(2)` refuses it, and `execvp(3)` runs the shell instead. This
/// must be known in advance: later everything is already attached to the process.
fn is_script_without_interpreter(file: &Path) -> bool {
    let mut beginning = vec![];
    let read = File::open(file).and_then(|file| file.take(128).read_to_end(&mut beginning));
    read.is_ok() && !beginning.starts_with(b"#!") && !beginning.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn exit_code_is_the_commands() {
        let launch = Launch::prepare(&words(&["sh", "-c", "exit 7"]), None).unwrap();
        let pid = launch.pid();
        let mut launched = launch.resume().unwrap();
        let pidfd = launched.pidfd().unwrap();
        let mut fds = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
        let status = launched.try_wait().unwrap().unwrap();
        assert_eq!(Launched::exit_code(status), 7);
        assert_eq!(Launched::exit_code(launched.wait().unwrap()), 7);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn exit_code_of_killed_command_is_128_plus_signal() {
        let launch = Launch::prepare(&words(&["sh", "-c", "kill -9 $$"]), None).unwrap();
        let status = launch.resume().unwrap().wait().unwrap();
        assert_eq!(Launched::exit_code(status), 137);
    }

    #[test]
    fn missing_or_not_executable_program_is_an_error() {
        let code = |name: &str| Launch::prepare(&words(&[name]), None).map(drop).unwrap_err();
        assert_eq!(code("no-such-program-anywhere").exit_code(), 127);
        assert_eq!(code("/etc/passwd").exit_code(), 126);
        assert_eq!(code("/").exit_code(), 126);
        assert_eq!(code("").exit_code(), 127);
        let text = code("no-such-program-anywhere").to_string();
        assert!(
            text.contains("no-such-program-anywhere") && text.ends_with("; no such program in PATH"),
            "{text}"
        );
    }

    #[test]
    fn script_without_interpreter_runs_in_shell_and_missing_interpreter_is_an_error() {
        let folder = std::env::temp_dir().join(format!("sockeye-launch-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        // Another process writes the file: a fork of this one would keep it open, and execve would fail with ETXTBSY.
        let script = |name: &str, text: &str| {
            let file = folder.join(name);
            let write = "printf '%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
            let mut shell = Command::new("sh");
            let written = shell.args(["-c", write]).arg(&file).arg(text).status().unwrap();
            assert!(written.success());
            let launched = Launch::prepare(&[file.into(), "9".into()], None)
                .unwrap()
                .resume();
            launched.map(|mut launched| launched.wait().unwrap())
        };
        let bare = script("bare", "exit $1");
        let missing = script("missing", "#!/nowhere/sh");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Launched::exit_code(bare.unwrap()), 9);
        let missing = missing.unwrap_err();
        assert_eq!(missing.exit_code(), 127);
        assert!(
            missing
                .to_string()
                .ends_with("; the interpreter that it names is missing"),
            "{missing}"
        );
    }
}
