//! Stretches of a process's memory that hold code.

/// An executable stretch of a process's memory, as `/proc/PID/maps` and perf's MMAP2 records tell it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last one.
    pub end: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode; 0: there is no file behind it.
    pub inode: u64,
    /// The file's path as the process sees it, or `[vdso]`, `//anon` or nothing.
    pub path: Vec<u8>,
}

/// The number that [`Symbols`](crate::Symbols) gave to a file, or to the memory of a process without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNumber(pub u32);

impl Mapping {
    /// Whether it holds an address.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// Whether there is a file behind it; memory that compilers fill at run time has an inode, but nothing to read.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.inode != 0 && !WITHOUT_FILE.iter().any(|start| self.path.starts_with(start))
    }

    /// Whether it is the kernel's code in every process, `[vdso]`.
    #[must_use]
    pub fn is_vdso(&self) -> bool {
        self.inode == 0 && self.path == b"[vdso]"
    }

    /// What [`Symbols::user`](crate::Symbols::user) is asked about for an address in this mapping: the offset in the file;
    /// in memory without a file (code that the process itself made) the address.
    #[must_use]
    pub fn place(&self, address: u64) -> u64 {
        if self.has_file() {
            address.wrapping_sub(self.start).wrapping_add(self.offset)
        } else if self.is_vdso() {
            address.wrapping_sub(self.start)
        } else {
            address
        }
    }
}

/// Memory that has a name in the kernel's own file systems. `doublemapper` is where .NET puts its code; another memfd may
/// hold a program.
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
    fn the_place_is_in_the_file_or_the_address() {
        let mut mapping = Mapping {
            start: 0x7f00_0000_1000,
            end: 0x7f00_0000_9000,
            offset: 0x2000,
            inode: 7,
            path: b"/usr/bin/x".to_vec(),
            ..Mapping::default()
        };
        assert!(mapping.contains(0x7f00_0000_1000) && !mapping.contains(0x7f00_0000_9000));
        assert_eq!(mapping.place(0x7f00_0000_1010), 0x2010);
        mapping.path = b"/memfd:doublemapper (deleted)".to_vec();
        assert_eq!(mapping.place(0x7f00_0000_1010), 0x7f00_0000_1010);
        (mapping.path, mapping.inode, mapping.offset) = (b"[vdso]".to_vec(), 0, 0);
        assert_eq!(mapping.place(0x7f00_0000_1010), 0x10);
        mapping.path = b"//anon".to_vec();
        assert_eq!(mapping.place(0x7f00_0000_1010), 0x7f00_0000_1010);
    }
}
