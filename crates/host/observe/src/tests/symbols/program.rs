//! Programs that tests compile and run, and what nm and readelf report about them.

use crate::Mapping;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A temporary folder, removed on drop.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-symbols-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that has printed `ready` and waits; killed on drop.
pub(crate) struct Running {
    child: Child,
    line: String,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(path: &Path) -> Self {
        Self::of(Command::new(path))
    }

    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let running = Self { child, line };
        assert!(
            running.line.starts_with("ready"),
            "{command:?}: {:?}",
            running.line
        );
        running
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn line(&self) -> &str {
        &self.line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
pub(crate) fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
pub(crate) fn compile(
    folder: &Folder,
    name: &str,
    kind: &str,
    text: &str,
    compiler: &str,
    flags: &[&str],
) -> PathBuf {
    let source = folder.path().join(format!("{name}.{kind}"));
    fs::write(&source, text).unwrap();
    let program = folder.path().join(name);
    ran(Command::new(compiler)
        .args(flags)
        .arg("-o")
        .args([&program, &source]));
    program
}

#[track_caller]
pub(crate) fn go(folder: &Folder, name: &str, text: &str, flags: &[&str]) -> PathBuf {
    go_with(folder, name, text, flags, &[])
}

/// Builds for another processor.
#[track_caller]
pub(crate) fn go_for(folder: &Folder, name: &str, processor: &str, text: &str) -> PathBuf {
    go_with(
        folder,
        name,
        text,
        &[],
        &[("GOARCH", processor), ("CGO_ENABLED", "0")],
    )
}

#[track_caller]
fn go_with(folder: &Folder, name: &str, text: &str, flags: &[&str], environment: &[(&str, &str)]) -> PathBuf {
    let source = folder.path().join(format!("{name}.go"));
    fs::write(&source, text).unwrap();
    let program = folder.path().join(name);
    let mut command = Command::new("go");
    command
        .arg("build")
        .args(flags)
        .arg("-o")
        .args([&program, &source]);
    command.envs(environment.iter().copied());
    ran(command.env("GO111MODULE", "off").env("GOFLAGS", ""));
    program
}

/// Returns the address of each code symbol in nm's list.
pub(crate) fn addresses(path: &Path) -> BTreeMap<String, u64> {
    symbols(path, &[])
}

/// Returns the address of each code symbol with a size.
pub(crate) fn addresses_of_sized(path: &Path) -> BTreeMap<String, u64> {
    symbols(path, &["-S"])
}

/// Parses `readelf -lW`: `LOAD 0x001000 0x0000000000001000 0x0000000000001000 0x000215 0x000215 R E 0x1000`: offset, address, length.
pub(crate) fn segments(path: &Path) -> Vec<(u64, u64, u64)> {
    let number =
        |word: Option<&str>| u64::from_str_radix(word.unwrap().trim_start_matches("0x"), 16).unwrap();
    ran(Command::new("readelf").arg("-lW").arg(path))
        .lines()
        .filter_map(|line| line.trim().strip_prefix("LOAD"))
        .map(|line| {
            let mut words = line.split_whitespace();
            let (offset, address) = (number(words.next()), number(words.next()));
            words.next();
            (offset, address, number(words.next()))
        })
        .collect()
}

#[track_caller]
pub(crate) fn offset(segments: &[(u64, u64, u64)], address: u64) -> u64 {
    segments
        .iter()
        .find(|(_, start, len)| (*start..start + len).contains(&address))
        .map(|(offset, start, _)| offset + address - start)
        .expect("it is in the file")
}

pub(crate) fn build_id(path: &Path) -> String {
    let notes = ran(Command::new("readelf").arg("-n").arg(path));
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.expect("it has one").trim().to_owned()
}

/// Returns the executable mappings of a process.
pub(crate) fn code_mappings(pid: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).unwrap();
    text.lines()
        .filter_map(|line| {
            let mut words = line.splitn(6, ' ');
            let (start, end) = words.next()?.split_once('-')?;
            let executable = words.next()?.contains('x');
            let offset = hexadecimal(words.next()?);
            let (major, minor) = words.next()?.split_once(':')?;
            let inode = words.next()?.parse().unwrap();
            let path = words.next().unwrap_or_default().trim_start();
            executable.then(|| Mapping {
                start: hexadecimal(start),
                end: hexadecimal(end),
                offset,
                device: (hexadecimal(major) as u32, hexadecimal(minor) as u32),
                inode,
                path: path.into(),
            })
        })
        .collect()
}

/// Parses nm's list: `0000000000001139 000000000000000d T visible`, the size only with `-S` and if known.
fn symbols(path: &Path, options: &[&str]) -> BTreeMap<String, u64> {
    let wanted = 3 + options.len();
    ran(Command::new("nm").args(options).arg(path))
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.splitn(wanted, ' ').collect();
            let [address, .., kind, name] = words[..] else {
                return None;
            };
            let is_code = words.len() == wanted && matches!(kind, "t" | "T" | "w" | "W" | "i");
            let address = u64::from_str_radix(address, 16).ok()?;
            is_code.then(|| (name.to_owned(), address))
        })
        .collect()
}
