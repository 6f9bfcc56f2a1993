use crate::{FileNumber, Mapping};

/// What code lies where in a process: of two mappings at the same place the later one.
///
/// That something was unmapped is never told: it stays until something else is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Layout {
    /// By their addresses; none overlaps another.
    stretches: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    start: u64,
    end: u64,
    file: FileNumber,
    /// What [`Mapping::place`] says of its first address.
    place: u64,
}

impl Layout {
    /// Says whether there was room.
    pub(super) fn put(&mut self, mapping: &Mapping, file: FileNumber) -> bool {
        let new = Stretch {
            start: mapping.start,
            end: mapping.end,
            file,
            place: mapping.place(mapping.start),
        };
        if new.start >= new.end {
            return true;
        }
        // Those that the new one covers, wholly or in part.
        let first = self.stretches.partition_point(|old| old.end <= new.start);
        let behind = self.stretches.partition_point(|old| old.start < new.end);
        if self.stretches.len() - (behind - first) + 3 > STRETCHES_MAX {
            return false;
        }
        let covered = &self.stretches[first..behind];
        let left = covered
            .first()
            .filter(|old| old.start < new.start)
            .map(|old| Stretch {
                end: new.start,
                ..*old
            });
        let right = covered.last().filter(|old| old.end > new.end).map(|old| Stretch {
            start: new.end,
            place: old.place.wrapping_add(new.end - old.start),
            ..*old
        });
        let instead = left.into_iter().chain([new]).chain(right);
        self.stretches.splice(first..behind, instead);
        true
    }

    pub(super) fn place(&self, address: u64) -> Option<(FileNumber, u64)> {
        let behind = self.stretches.partition_point(|stretch| stretch.start <= address);
        let stretch = self.stretches.get(behind.checked_sub(1)?)?;
        (address < stretch.end).then(|| (stretch.file, stretch.place.wrapping_add(address - stretch.start)))
    }

    pub(super) fn files(&self) -> Vec<FileNumber> {
        let mut files: Vec<_> = self.stretches.iter().map(|stretch| stretch.file).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// As many as a process may have (`vm.max_map_count`), by its default.
const STRETCHES_MAX: usize = 65_536;

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
    fn a_later_mapping_covers_what_is_below() {
        // Byte by byte, beside a plain array.
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
                assert!(layout.put(&mapping(start, end), FileNumber(number)));
                for address in start..end {
                    plain[address as usize] = Some((FileNumber(number), 0x10_0000 + address - start));
                }
                for (address, expected) in plain.iter().enumerate() {
                    assert_eq!(layout.place(address as u64), *expected);
                }
            }
        }
    }

    #[test]
    fn memory_without_a_file_keeps_its_addresses_and_the_vdso_begins_at_0() {
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
        layout.put(&jit, FileNumber(1));
        layout.put(&vdso, FileNumber(2));
        assert_eq!(layout.place(0x1234), Some((FileNumber(1), 0x1234)));
        assert_eq!(layout.place(0x3234), Some((FileNumber(2), 0x234)));
        assert_eq!(layout.place(0x2000), None);
        assert_eq!(layout.place(0xfff), None);
        assert_eq!(layout.files(), [FileNumber(1), FileNumber(2)]);
    }

    #[test]
    fn it_has_a_bound() {
        let mut layout = Layout::default();
        let put = |layout: &mut Layout, at: u64| layout.put(&mapping(2 * at, 2 * at + 1), FileNumber(0));
        let room = (0..70_000).filter(|&at| put(&mut layout, at)).count();
        assert!((60_000..=STRETCHES_MAX).contains(&room), "{room}");
        // The whole address space.
        assert!(layout.put(&mapping(0, u64::MAX), FileNumber(1)));
        assert_eq!(layout.place(u64::MAX - 1).map(|it| it.0), Some(FileNumber(1)));
    }
}
