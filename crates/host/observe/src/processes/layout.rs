//! Memory map of one program, by which `Processes` resolves a sampled address to a file and an offset. Pure:
//! the caller brings the mappings, from perf events or from `/proc`. `REGIONS_MAX` bounds the memory.

use crate::{FileNumber, Mapping};

/// The code in a process by address. A later mapping replaces earlier ones at the same addresses.
///
/// The kernel does not report unmapping: a region stays until another one replaces it.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// Sorted by address, without overlaps.
    regions: Vec<Region>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    start: u64,
    end: u64,
    file: FileNumber,
    /// [`Mapping::file_offset`] of its first address.
    offset: u64,
}

impl Layout {
    /// Adds a mapping. Returns false if there are too many regions.
    pub(super) fn insert(&mut self, mapping: &Mapping, file: FileNumber) -> bool {
        let new = Region {
            start: mapping.start,
            end: mapping.end,
            file,
            offset: mapping.file_offset(mapping.start),
        };
        if new.start >= new.end {
            return true;
        }
        // The regions that the new one covers, completely or partly.
        let first = self.regions.partition_point(|old| old.end <= new.start);
        let behind = self.regions.partition_point(|old| old.start < new.end);
        if self.regions.len() - (behind - first) + 3 > REGIONS_MAX {
            return false;
        }
        let covered = &self.regions[first..behind];
        let left = covered
            .first()
            .filter(|old| old.start < new.start)
            .map(|old| Region {
                end: new.start,
                ..*old
            });
        let right = covered.last().filter(|old| old.end > new.end).map(|old| Region {
            start: new.end,
            offset: old.offset.wrapping_add(new.end - old.start),
            ..*old
        });
        let instead = left.into_iter().chain([new]).chain(right);
        self.regions.splice(first..behind, instead);
        true
    }

    /// Returns the file and offset of an address.
    pub(super) fn locate(&self, address: u64) -> Option<(FileNumber, u64)> {
        let behind = self.regions.partition_point(|region| region.start <= address);
        let region = self.regions.get(behind.checked_sub(1)?)?;
        (address < region.end).then(|| (region.file, region.offset.wrapping_add(address - region.start)))
    }

    /// Returns the files that have code here, each once.
    pub(super) fn files(&self) -> Vec<FileNumber> {
        let mut files: Vec<_> = self.regions.iter().map(|region| region.file).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// The default of `vm.max_map_count`, the most mappings of a process.
const REGIONS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64) -> Mapping {
        Mapping {
            start,
            end,
            offset: 0x10_0000,
            inode: 1,
            ..Mapping::default()
        }
    }

    #[test]
    fn later_mapping_replaces_earlier_ones() {
        // Compared byte by byte with a plain array.
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut layout = Layout::default();
            let mut plain = [None; 64];
            for number in 0..20 {
                let start = random(60);
                let end = start + random(64 - start);
                assert!(layout.insert(&mapping(start, end), FileNumber(number)));
                for address in start..end {
                    plain[address as usize] = Some((FileNumber(number), 0x10_0000 + address - start));
                }
                for (address, expected) in plain.iter().enumerate() {
                    assert_eq!(layout.locate(address as u64), *expected);
                }
            }
        }
    }

    #[test]
    fn jit_code_keeps_addresses_and_vdso_starts_at_0() {
        let mut layout = Layout::default();
        let jit = Mapping {
            offset: 0x7000,
            inode: 0,
            ..mapping(0x1000, 0x2000)
        };
        let vdso = Mapping {
            path: b"[vdso]".to_vec(),
            inode: 0,
            ..mapping(0x3000, 0x4000)
        };
        layout.insert(&jit, FileNumber(1));
        layout.insert(&vdso, FileNumber(2));
        assert_eq!(layout.locate(0x1234), Some((FileNumber(1), 0x1234)));
        assert_eq!(layout.locate(0x3234), Some((FileNumber(2), 0x234)));
        assert_eq!(layout.locate(0x2000), None);
        assert_eq!(layout.locate(0xfff), None);
        assert_eq!(layout.files(), [FileNumber(1), FileNumber(2)]);
    }

    #[test]
    fn regions_are_limited() {
        let mut layout = Layout::default();
        let insert =
            |layout: &mut Layout, at: u64| layout.insert(&mapping(2 * at, 2 * at + 1), FileNumber(0));
        let inserted = (0..70_000).filter(|&at| insert(&mut layout, at)).count();
        assert!((60_000..=REGIONS_MAX).contains(&inserted), "{inserted}");
        // The whole address space.
        assert!(layout.insert(&mapping(0, u64::MAX), FileNumber(1)));
        assert_eq!(layout.locate(u64::MAX - 1).map(|it| it.0), Some(FileNumber(1)));
    }
}
