//! Starting the command that is looked at, so that it begins when everything is attached.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use sockeye_sys::paused_program::PausedProgram;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

/// A command that is a process already, with our standard input and output, environment and process group, and stands still
/// before its first step. Dropped, or if we end, it ends.
#[derive(Debug)]
pub struct Launch {
    held: PausedProgram,
    name: OsString,
}

/// A command that runs. Dropped, it runs on.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    status: Option<ExitStatus>,
}

/// Why a command could not be started.
#[derive(Debug)]
pub struct NotLaunched {
    name: OsString,
    error: io::Error,
}

impl Launch {
    /// Finds the program as `execvp(3)` does, and makes its process. `words`: the program and its arguments. `output`: where
    /// its standard output goes, if not where ours does.
    ///
    /// # Errors
    /// When there is no such program, it may not be run, or there is no room for another process.
    pub fn prepare(words: &[OsString], output: Option<OwnedFd>) -> Result<Self, NotLaunched> {
        let name = words.first().cloned().unwrap_or_default();
        let failed = |error| NotLaunched {
            name: name.clone(),
            error,
        };
        let file = find(&name).map_err(|errno| failed(errno.into()))?;
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
        let held = PausedProgram::start(command).map_err(failed)?;
        Ok(Self { held, name })
    }

    /// The number of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.held.pid()
    }

    /// Lets it begin.
    ///
    /// # Errors
    /// When it cannot be run after all: the interpreter that it names is missing.
    pub fn resume(self) -> Result<Launched, NotLaunched> {
        let name = self.name;
        let child = self.held.resume().map_err(|error| NotLaunched { name, error })?;
        Ok(Launched { child, status: None })
    }
}

impl Launched {
    /// How it ended, if it has.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The errno of `waitpid(2)`.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        // It has its number until it was waited for.
        if self.status.is_none() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }

    /// A descriptor that is readable once it has ended.
    ///
    /// # Errors
    /// `ENOSYS` before Linux 5.3; `EMFILE`.
    pub fn end(&self) -> Result<OwnedFd, Errno> {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
    }

    /// What a shell says of a program that ended so.
    #[must_use]
    pub fn exit_code(status: ExitStatus) -> u8 {
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }
}

impl NotLaunched {
    /// What a shell says then: 127 if there is no such program, 126 if it cannot be run.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.error.kind() {
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

impl fmt::Display for NotLaunched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start {:?}: {}", self.name, self.error)?;
        let remedy = match self.error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => "no such program in PATH, or the interpreter that it names is missing",
            Some(Errno::ACCESS) => "it is no program that you may run",
            Some(Errno::MFILE | Errno::NFILE) => "raise `ulimit -n`",
            Some(Errno::AGAIN | Errno::NOMEM) => "too many processes, or too little memory",
            Some(Errno::TOOBIG) => "its arguments and environment are too long",
            _ => return Ok(()),
        };
        write!(f, "; {remedy}")
    }
}

impl std::error::Error for NotLaunched {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Where the program is, as `execvp(3)` finds it: what may not be run is passed over, and told if there is nothing else.
fn find(name: &OsStr) -> Result<PathBuf, Errno> {
    if name.as_bytes().contains(&b'/') {
        return runnable(Path::new(name)).map(|()| name.into());
    }
    if name.is_empty() {
        return Err(Errno::NOENT);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refusal = Errno::NOENT;
    for folder in std::env::split_paths(&path) {
        let file = match folder.as_os_str().is_empty() {
            true => Path::new(".").join(name),
            false => folder.join(name),
        };
        match runnable(&file) {
            Ok(()) => return Ok(file),
            Err(Errno::ACCESS) => refusal = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(refusal)
}

fn runnable(file: &Path) -> Result<(), Errno> {
    let kind = rustix::fs::stat(file)?.st_mode;
    if rustix::fs::FileType::from_raw_mode(kind) != rustix::fs::FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    access(file, Access::EXEC_OK)
}

/// `execve(2)` refuses text without `#!`, and `execvp(3)` hands it to the shell. Which has to be known before, since by
/// then everything is attached to the process.
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
    fn a_command_ends_with_its_own_code() {
        let launch = Launch::prepare(&words(&["sh", "-c", "exit 7"]), None).unwrap();
        let pid = launch.pid();
        let mut launched = launch.resume().unwrap();
        let end = launched.end().unwrap();
        let mut fds = [rustix::event::PollFd::new(&end, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
        let status = launched.ended().unwrap().unwrap();
        assert_eq!(Launched::exit_code(status), 7);
        assert_eq!(Launched::exit_code(launched.wait().unwrap()), 7);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_command_that_a_signal_ended() {
        let launch = Launch::prepare(&words(&["sh", "-c", "kill -9 $$"]), None).unwrap();
        let status = launch.resume().unwrap().wait().unwrap();
        assert_eq!(Launched::exit_code(status), 137);
    }

    #[test]
    fn what_is_not_there_or_may_not_be_run() {
        let code = |name: &str| Launch::prepare(&words(&[name]), None).map(drop).unwrap_err();
        assert_eq!(code("no-such-program-anywhere").exit_code(), 127);
        assert_eq!(code("/etc/passwd").exit_code(), 126);
        assert_eq!(code("/").exit_code(), 126);
        assert_eq!(code("").exit_code(), 127);
        let text = code("no-such-program-anywhere").to_string();
        assert!(
            text.contains("no-such-program-anywhere") && text.contains("PATH"),
            "{text}"
        );
    }

    #[test]
    fn a_script_without_an_interpreter_is_for_the_shell_and_one_with_a_missing_one_is_told() {
        let folder = std::env::temp_dir().join(format!("sockeye-launch-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        // Written by somebody else: a copy of ours that begins meanwhile would keep it open, and so busy.
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
        assert_eq!(missing.unwrap_err().exit_code(), 127);
    }
}
