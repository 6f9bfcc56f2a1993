//! Finds the files that a command will map at its start, before it runs.

use crate::executable;
use object::elf::{FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the files that an executable maps at its start: itself, its interpreter, and the libraries that the loader finds,
/// without those that it loads later.
///
/// This asks the loader, as ldd(1) does, because only the loader knows all its rules. It runs the loader that the file names,
/// with our environment, but no code of the program or its libraries. That is safe here: the same user runs the command
/// next.
#[must_use]
pub fn startup_files(executable: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut next = Some(executable.to_owned());
    // A script may name a script.
    for _ in 0..SCRIPTS_MAX {
        let Some(file) = next.take() else { break };
        match FileFormat::read(&file) {
            Some(FileFormat::Script { interpreter, command }) => {
                let program = command.and_then(|command| executable::find(OsStr::from_bytes(&command)).ok());
                next = program.or(Some(interpreter));
            }
            Some(FileFormat::Dynamic { loader }) => files.extend(libraries(&loader, &file)),
            Some(FileFormat::Static) | None => {}
        }
        files.push(file);
    }
    files.sort();
    files.dedup();
    files
}

/// The kind of an executable file.
#[derive(Debug, PartialEq, Eq)]
enum FileFormat {
    /// A script with `#!`.
    Script {
        interpreter: PathBuf,
        /// The command that `env` runs.
        command: Option<Vec<u8>>,
    },
    /// An ELF file with a loader.
    Dynamic { loader: PathBuf },
    /// An ELF file without a loader.
    Static,
}

impl FileFormat {
    /// Reads the format of a file; `None` if it is not executable.
    fn read(path: &Path) -> Option<Self> {
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

/// Returns the loader of an ELF file.
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

/// Returns the loader and the libraries that it lists for an executable; only the loader if it does not answer in time.
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
    // Its few lines fit into the pipe, so waiting for its end first does not block; if it does, the deadline ends it.
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
    let mut lines = Vec::new();
    if let Some(output) = output {
        let _ = output.take(OUTPUT_BYTES_MAX).read_to_end(&mut lines);
    }
    files.extend(lines.split(|&byte| byte == b'\n').filter_map(library));
    files
}

/// Returns the path in a line of the loader: `\tlibc.so.6 => /lib/libc.so.6 (0x00007f...)`, or without the arrow.
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

/// The most interpreters that the kernel follows (`BINPRM_MAX_RECURSION`, 5), and the program.
const SCRIPTS_MAX: usize = 6;
/// `BINPRM_BUF_SIZE`
const SCRIPT_BYTES_MAX: usize = 256;
/// `PATH_MAX`
const PATH_BYTES_MAX: u64 = 4096;
/// The default capacity of a pipe.
const OUTPUT_BYTES_MAX: u64 = 1 << 16;
const LOADER_TIME_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_path_is_parsed_from_loader_line() {
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
    fn script_line_has_interpreter_and_env_command() {
        let script = |line: &str| FileFormat::of_script(line.as_bytes());
        let of = |interpreter: &str, command: Option<&str>| {
            Some(FileFormat::Script {
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
    fn startup_files_include_own_executable() {
        let own = std::env::current_exe().unwrap();
        let files = startup_files(&own);
        assert!(files.contains(&own), "{files:?}");
    }
}
