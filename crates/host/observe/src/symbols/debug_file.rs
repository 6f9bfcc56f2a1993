//! Debug files: separate files with the symbols of a stripped one.

use super::bytes::Bytes;
use super::elf::Elf;
use super::open::{Root, identity};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Returns the debug file of `elf`, which is at `path`: by build id, else by `.gnu_debuglink`; in each of `roots`.
pub(super) fn find(elf: &Elf, path: &Path, roots: &[&Root]) -> Option<Elf> {
    let id = elf.build_id();
    if let Some(id) = &id {
        let path = build_id_path(id);
        // The folder is trusted; a build id in the file, if there is one, must match.
        let matches =
            |file: &File, debug: &Elf| is_other(file, elf) && debug.build_id().is_none_or(|own| own == *id);
        if let Some(found) = first(roots, &[path], matches) {
            return Some(found);
        }
    }
    let (name, checksum) = link(elf)?;
    let folder = path.parent()?;
    let paths = [
        folder.join(&name),
        folder.join(".debug").join(&name),
        Path::new("/usr/lib/debug")
            .join(folder.strip_prefix("/").unwrap_or(folder))
            .join(&name),
    ];
    let matches = |file: &File, debug: &Elf| {
        is_other(file, elf)
            && match (&id, debug.build_id()) {
                (Some(id), Some(own)) => *id == own,
                _ => checksum_of(file) == Some(checksum),
            }
    };
    first(roots, &paths, matches)
}

/// Returns the first matching ELF file.
fn first(roots: &[&Root], paths: &[PathBuf], matches: impl Fn(&File, &Elf) -> bool) -> Option<Elf> {
    roots.iter().find_map(|root| {
        paths.iter().find_map(|path| {
            let file = root.open(path).ok()?;
            let elf = Elf::read(&Rc::new(Bytes::File(file.try_clone().ok()?)))?;
            matches(&file, &elf).then_some(elf)
        })
    })
}

/// Returns whether it is another file than the stripped one.
fn is_other(file: &File, elf: &Elf) -> bool {
    let Bytes::File(main) = &*elf.bytes else {
        return true;
    };
    match (file.metadata(), main.metadata()) {
        (Ok(one), Ok(other)) => identity(&one) != identity(&other),
        _ => false,
    }
}

/// Returns the path of a debug file: `/usr/lib/debug/.build-id/ab/cdef.debug`.
pub(super) fn build_id_path(id: &[u8]) -> PathBuf {
    let mut text = String::from("/usr/lib/debug/.build-id/");
    for (at, byte) in id.iter().enumerate() {
        let separator = if at == 1 { "/" } else { "" };
        // Writing into a String cannot fail.
        let _ = write!(text, "{separator}{byte:02x}");
    }
    text.push_str(".debug");
    PathBuf::from(text)
}

/// Parses `.gnu_debuglink`: a file name, zeros up to a multiple of four, and the checksum of that file.
pub(super) fn link(elf: &Elf) -> Option<(PathBuf, u32)> {
    use object::Endian;
    let content = elf.section(b".gnu_debuglink")?.read(&elf.bytes, MAX_LINK)?;
    let name = content.split(|byte| *byte == 0).next()?;
    if name.is_empty() || name.contains(&b'/') || name == b".." {
        return None;
    }
    let at = (name.len() + 1).next_multiple_of(4);
    let checksum = content.get(at..)?.get(..4)?.try_into().ok()?;
    let checksum = elf.endian.read_u32(checksum);
    Some((PathBuf::from(OsStr::from_bytes(name)), checksum))
}

/// Returns the CRC-32 of a file (as in zlib); `None` if it is too long.
fn checksum_of(file: &File) -> Option<u32> {
    let len = file.metadata().ok()?.len();
    if len > MAX_CHECKED {
        return None;
    }
    let bytes = Bytes::File(file.try_clone().ok()?);
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |rest, _| {
            (rest >> 1) ^ (0xedb8_8320 & (rest & 1).wrapping_neg())
        })
    });
    let mut crc = u32::MAX;
    let mut at = 0;
    while at < len {
        let piece = bytes.read_some(at, 256 << 10);
        if piece.is_empty() {
            return None;
        }
        for byte in &piece {
            crc = (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 0xff) as usize];
        }
        at += piece.len() as u64;
    }
    Some(!crc)
}

const MAX_LINK: usize = 4_096;

/// The longest file whose checksum is computed.
const MAX_CHECKED: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_id_path_has_two_digits_as_folder() {
        assert_eq!(
            build_id_path(&[0xab, 0xcd, 0x0e]),
            Path::new("/usr/lib/debug/.build-id/ab/cd0e.debug")
        );
    }
}
