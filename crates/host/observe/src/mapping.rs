//! Executable mappings of a process.

/// An executable mapping of a process, from `/proc/PID/maps` or a perf MMAP2 record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mapping {
    /// Its first address.
    pub(crate) start: u64,
    /// Its end, exclusive.
    pub(crate) end: u64,
    /// Its offset in the file, in bytes.
    pub(crate) offset: u64,
    /// The file's device, major and minor.
    pub(crate) device: (u32, u32),
    /// The file's inode; 0: no file.
    pub(crate) inode: u64,
    /// The file's path as the process sees it, or `[vdso]`, `//anon` or nothing.
    pub(crate) path: Vec<u8>,
}

/// The number that [`Symbols`](crate::Symbols) assigned to a file, or to the anonymous memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileNumber(pub(crate) u32);

impl Mapping {
    /// Returns whether it maps a readable file. Memory of JIT compilers can have an inode, but no file to read.
    pub(crate) fn has_file(&self) -> bool {
        self.inode != 0 && !WITHOUT_FILE.iter().any(|start| self.path.starts_with(start))
    }

    /// Returns whether it is the kernel's code in every process, `[vdso]`.
    pub(crate) fn is_vdso(&self) -> bool {
        self.inode == 0 && self.path == b"[vdso]"
    }

    /// Returns what [`Symbols::user`](crate::Symbols::user) takes for an address in this mapping: the offset in the file; for
    /// memory without a file (JIT code) the address itself.
    pub(crate) fn file_offset(&self, address: u64) -> u64 {
        if self.has_file() {
            address.wrapping_sub(self.start).wrapping_add(self.offset)
        } else if self.is_vdso() {
            address.wrapping_sub(self.start)
        } else {
            address
        }
    }
}

/// Path prefixes of memory in the kernel's internal file systems. .NET puts its code into `doublemapper`; other memfds can
/// contain a program.
const WITHOUT_FILE: [&[u8]; 5] = [
    b"/dev/zero",
    b"/anon_hugepage",
    b"/SYSV",
    b"/memfd:doublemapper",
    b"//anon",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_offset_is_in_file_or_the_address() {
        let mut mapping = Mapping {
            start: 0x7f00_0000_1000,
            end: 0x7f00_0000_9000,
            offset: 0x2000,
            inode: 7,
            path: b"/usr/bin/x".to_vec(),
            ..Mapping::default()
        };
        assert!((mapping.start..mapping.end).contains(&0x7f00_0000_1000));
        assert!(!(mapping.start..mapping.end).contains(&0x7f00_0000_9000));
        assert_eq!(mapping.file_offset(0x7f00_0000_1010), 0x2010);
        mapping.path = b"/memfd:doublemapper (deleted)".to_vec();
        assert_eq!(mapping.file_offset(0x7f00_0000_1010), 0x7f00_0000_1010);
        (mapping.path, mapping.inode, mapping.offset) = (b"[vdso]".to_vec(), 0, 0);
        assert_eq!(mapping.file_offset(0x7f00_0000_1010), 0x10);
        mapping.path = b"//anon".to_vec();
        assert_eq!(mapping.file_offset(0x7f00_0000_1010), 0x7f00_0000_1010);
    }
}
