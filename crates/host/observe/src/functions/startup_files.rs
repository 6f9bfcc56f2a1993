//! Which files a command will map, before it runs.

use object::elf::{FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};
use rustix::fs::{Access, access};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The file that a command's name means: itself if it has a slash, else the first in the folders of `path`, as `execvp(3)`
/// looks for it.
#[must_use]
pub fn executable(command: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let is_one = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command)).filter(|file| is_one(file));
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    std::env::split_paths(path)
        .map(|folder| {
            if folder.as_os_str().is_empty() {
                Path::new(".").join(command)
            } else {
                folder.join(command)
            }
        })
        .find(|file| is_one(file))
}

/// The files that an executable will map when it starts: itself, its interpreter, and the libraries that the loader finds for
/// it. What it maps later is not among them.
///
/// The loader is asked, as ldd(1) does: nobody else knows all of its rules. To ask means to run the loader that the file
/// names, but nothing of the program and its libraries, with the environment that we have. That is safe where the command is
/// run next, by the same user, which is what this is for.
#[must_use]
pub fn files_of(executable: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut next = Some(executable.to_owned());
    // A script may name a script.
    for _ in 0..SCRIPTS_MAX {
        let Some(file) = next.take() else { break };
        match Beginning::of(&file) {
            Some(Beginning::Script { interpreter, command }) => {
                let by_path = command.and_then(|command| {
                    self::executable(OsStr::from_bytes(&command), std::env::var_os("PATH").as_deref())
                });
                next = by_path.or(Some(interpreter));
            }
            Some(Beginning::Dynamic { loader }) => files.extend(libraries(&loader, &file)),
            Some(Beginning::Static) | None => {}
        }
        files.push(file);
    }
    files.sort();
    files.dedup();
    files
}

/// How a file begins that can be executed.
#[derive(Debug, PartialEq, Eq)]
enum Beginning {
    /// `#!`
    Script {
        interpreter: PathBuf,
        /// What `env` is to run.
        command: Option<Vec<u8>>,
    },
    /// An ELF file with a loader.
    Dynamic { loader: PathBuf },
    /// An ELF file without.
    Static,
}

impl Beginning {
    fn of(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut first = [0; SCRIPT_BYTES_MAX];
        let bytes = file.read_at(&mut first, 0).ok()?;
        let first = &first[..bytes];
        if let Some(line) = first.strip_prefix(b"#!") {
            return Self::of_script(line.split(|&byte| byte == b'\n').next()?);
        }
        let cache = ReadCache::new(&file);
        let loader = match FileKind::parse(&cache).ok()? {
            FileKind::Elf64 => interpreter::<FileHeader64<Endianness>>(&cache),
            FileKind::Elf32 => interpreter::<FileHeader32<Endianness>>(&cache),
            _ => return None,
        };
        Some(loader.map_or(Self::Static, |loader| Self::Dynamic {
            loader: PathBuf::from(OsStr::from_bytes(&loader)),
        }))
    }

    fn of_script(line: &[u8]) -> Option<Self> {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let interpreter = PathBuf::from(OsStr::from_bytes(words.next()?));
        let is_env = interpreter.file_name() == Some(OsStr::new("env"));
        let command = words.find(|word| is_env && !word.starts_with(b"-") && !word.contains(&b'='));
        Some(Self::Script {
            interpreter,
            command: command.map(<[u8]>::to_vec),
        })
    }
}

fn interpreter<H: FileHeader<Endian = Endianness>>(cache: &ReadCache<&File>) -> Option<Vec<u8>> {
    let header = H::parse(cache).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, cache).ok()?;
    let segment = segments
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP)?;
    if segment.p_filesz(endian).into() > PATH_BYTES_MAX {
        return None;
    }
    segment.interpreter(endian, cache).ok()?.map(<[u8]>::to_vec)
}

/// What the loader says that it maps for an executable; nothing if it says nothing in time.
fn libraries(loader: &Path, executable: &Path) -> Vec<PathBuf> {
    let mut files = vec![loader.to_owned()];
    let started = Command::new(loader)
        .arg("--list")
        .arg(executable)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = started else { return files };
    let output = child.stdout.take();
    // It writes a few lines, which a pipe has room for: to wait for its end first is no deadlock in practice, and if it is,
    // it ends at the deadline.
    let deadline = Instant::now() + LOADER_TIME_MAX;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            Ok(Some(_)) => break,
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return files;
            }
        }
    }
    let mut told = Vec::new();
    if let Some(output) = output {
        let _ = output.take(TOLD_BYTES_MAX).read_to_end(&mut told);
    }
    files.extend(told.split(|&byte| byte == b'\n').filter_map(library));
    files
}

/// The path in a line: `\tlibc.so.6 => /lib/libc.so.6 (0x00007f...)`, or without the arrow.
fn library(line: &[u8]) -> Option<PathBuf> {
    let line = line.trim_ascii();
    let arrow = line.windows(4).position(|window| window == b" => ");
    let path = arrow.map_or(line, |at| &line[at + 4..]);
    let end = path
        .windows(3)
        .rposition(|window| window == b" (0")
        .unwrap_or(path.len());
    let path = path[..end].trim_ascii();
    path.starts_with(b"/")
        .then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// As many as the kernel follows (`BINPRM_MAX_RECURSION`, 5), and the program.
const SCRIPTS_MAX: usize = 6;
/// `BINPRM_BUF_SIZE`
const SCRIPT_BYTES_MAX: usize = 256;
/// `PATH_MAX`
const PATH_BYTES_MAX: u64 = 4096;
/// More than pipes hold it does not say.
const TOLD_BYTES_MAX: u64 = 1 << 16;
const LOADER_TIME_MAX: Duration = Duration::from_secs(2);

/// `_PATH_DEFPATH`, as the C library has it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader() {
        for (line, path) in [
            (
                "\tlibc.so.6 => /lib/libc.so.6 (0x00007f0000000000)",
                Some("/lib/libc.so.6"),
            ),
            (
                "\t/lib64/ld-linux-x86-64.so.2 (0x00007f0000000000)",
                Some("/lib64/ld-linux-x86-64.so.2"),
            ),
            (
                "\tliba.so => /o p/(0)/liba.so (0x00007f0000000000)",
                Some("/o p/(0)/liba.so"),
            ),
            ("\tlinux-vdso.so.1 (0x00007f0000000000)", None),
            ("\tlibmissing.so => not found", None),
            ("", None),
        ] {
            assert_eq!(library(line.as_bytes()), path.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn scripts() {
        let script = |line: &str| Beginning::of_script(line.as_bytes());
        let of = |interpreter: &str, command: Option<&str>| {
            Some(Beginning::Script {
                interpreter: interpreter.into(),
                command: command.map(|command| command.as_bytes().to_vec()),
            })
        };
        assert_eq!(script(" /bin/sh -e"), of("/bin/sh", None));
        assert_eq!(
            script("/usr/bin/env -S X=1 python3 -u"),
            of("/usr/bin/env", Some("python3"))
        );
        assert_eq!(script(" "), None);
    }

    #[test]
    fn our_own_files() {
        let us = std::env::current_exe().unwrap();
        let files = files_of(&us);
        assert!(files.contains(&us), "{files:?}");
        assert_eq!(executable(us.as_os_str(), None), Some(us));
        assert!(executable(OsStr::new("sh"), None).is_some());
        assert_eq!(executable(OsStr::new("no such program"), None), None);
    }
}
