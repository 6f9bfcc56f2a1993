//! What became of the records that programs made.

use rustix::io::Errno;
use sockeye_sys::bpf::Table;

/// Number of kinds of records that an object can have: `KINDS` of bpf/ring.h.
pub const KINDS: usize = 32;

/// Counts of one kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindCounts {
    /// Records that programs made, or wanted to.
    pub made: u64,
    /// Records that were read.
    pub read: u64,
    /// Records that found no space in the ring.
    pub lost: u64,
    /// Records that were not written, because only those of some connections were asked for.
    pub left_out: u64,
    /// Events that the kernel did not show to any program, as a counter of the connection shows at its close; not among those that were made.
    pub unseen: u64,
}

/// The counts of all records, and of the runs of programs that did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accounting {
    /// Counts of each kind.
    pub kinds: [KindCounts; KINDS],
    /// Records with a kind that is unknown here, or too short to have one.
    pub unknown: u64,
    /// Events that the kernel did not show to a program, which was already running on the same processor.
    pub missed: u64,
}

impl Accounting {
    /// Returns the sums over all kinds.
    #[must_use]
    pub fn total(&self) -> KindCounts {
        self.kinds
            .iter()
            .fold(KindCounts::default(), |all, one| KindCounts {
                made: all.made + one.made,
                read: all.read + one.read,
                lost: all.lost + one.lost,
                left_out: all.left_out + one.left_out,
                unseen: all.unseen + one.unseen,
            })
    }

    /// Whether every record was read, or counted as lost or left out. True after [`crate::Watch::finish`]; before, records may be in the ring.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let balances = |kind: &KindCounts| kind.read + kind.lost + kind.left_out == kind.made;
        self.kinds.iter().all(balances) && self.unknown == 0
    }

    /// Reads the counts of the programs: `struct ring_counts` of each processor.
    pub(crate) fn read_programs(&mut self, counts: &Table) -> Result<(), Errno> {
        let mut values = vec![0; counts.values_bytes()];
        counts.lookup(&[0; 4], &mut values)?;
        for kind in &mut self.kinds {
            (kind.made, kind.lost, kind.left_out) = (0, 0, 0);
        }
        for of_processor in values.chunks_exact(counts.copy_bytes().max(1)) {
            let mut words = of_processor.chunks_exact(8);
            let mut next = || {
                let word = words.next().and_then(|word| word.try_into().ok());
                word.map_or(0, u64::from_ne_bytes)
            };
            let made: [u64; KINDS] = std::array::from_fn(|_| next());
            let lost: [u64; KINDS] = std::array::from_fn(|_| next());
            let left_out: [u64; KINDS] = std::array::from_fn(|_| next());
            for (((kind, made), lost), left_out) in self.kinds.iter_mut().zip(made).zip(lost).zip(left_out) {
                kind.made += made;
                kind.lost += lost;
                kind.left_out += left_out;
            }
        }
        Ok(())
    }
}
