//! Records of perf events: the content of the ring of an event that was opened with [`SAMPLE_TYPE`] and
//! `sample_id_all`.
//!
//! Source: `enum perf_event_type` of `include/uapi/linux/perf_event.h`, with each record's layout; perf_event_open(2).
//!
//! ```
//! use sockeye_wire::perf::{Body, Records};
//!
//! // PERF_RECORD_COMM of an exec: header, pid, tid, name; then thread, time and processor.
//! let mut bytes = vec![];
//! bytes.extend(3_u32.to_ne_bytes());
//! bytes.extend((1_u16 << 13).to_ne_bytes());
//! bytes.extend(48_u16.to_ne_bytes());
//! for number in [7_u32, 7] {
//!     bytes.extend(number.to_ne_bytes());
//! }
//! bytes.extend(b"cat\0\0\0\0\0");
//! for number in [7_u32, 7] {
//!     bytes.extend(number.to_ne_bytes());
//! }
//! bytes.extend(1000_u64.to_ne_bytes());
//! for number in [2_u32, 0] {
//!     bytes.extend(number.to_ne_bytes());
//! }
//! let record = Records::new(&bytes).next().unwrap().unwrap();
//! assert_eq!((record.time_ns, record.body), (1000, Body::Comm { pid: 7, tid: 7, name: b"cat", is_exec: true }));
//! ```

use crate::bytes::{ne_u16, ne_u32, ne_u64};
use crate::{Error, Layer};

/// An iterator over the records in a part of a ring.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time in nanoseconds, of the clock that the event was opened with.
    pub time_ns: u64,
    /// Content of the record.
    pub body: Body<'a>,
}

/// The content of a record. Process and thread ids are of the reader's pid namespace: 0 if they are not visible there
/// (or the processor is idle), `u32::MAX` if they have just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// `PERF_RECORD_SAMPLE`
    Sample(Sample<'a>),
    /// `PERF_RECORD_MMAP2`: a file was mapped.
    Mapping(Mapping<'a>),
    /// `PERF_RECORD_COMM`: a thread's name was set.
    Comm {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The name: any bytes but NUL.
        name: &'a [u8],
        /// Whether an exec set the name (Linux 3.16).
        is_exec: bool,
    },
    /// `PERF_RECORD_FORK`: a thread was created; in a new process if `pid` differs from `parent`.
    Fork(TaskEvent),
    /// `PERF_RECORD_EXIT`: a thread has ended.
    Exit(TaskEvent),
    /// `PERF_RECORD_LOST`, `PERF_RECORD_LOST_SAMPLES`: the number of records that did not fit.
    Lost(u64),
    /// `PERF_RECORD_THROTTLE`: the kernel pauses sampling because it takes too much time.
    Throttle,
    /// Another record type, by its number.
    Unknown(u32),
}

/// A sample of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The processor.
    pub processor: u32,
    /// The instruction's address.
    pub address: u64,
    /// Whether the address is in the kernel.
    pub is_kernel: bool,
    /// Registers and stack of the process's own code; `None` without [`SAMPLE_TYPE_WITH_STACKS`], and for threads of the kernel.
    pub user: Option<UserStack<'a>>,
    chain: &'a [u8],
}

/// The registers of the process's own code ([`USER_REGISTERS`]), and a copy of its stack from the stack pointer on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The base pointer.
    pub bp: u64,
    /// The innermost bytes of the stack.
    pub bytes: &'a [u8],
}

/// An executable mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The process.
    pub pid: u32,
    /// Start address.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file: major, minor.
    pub device: (u32, u32),
    /// Inode of the file; 0 without a file.
    pub inode: u64,
    /// Path as the mapping process sees it; `[vdso]`, `//anon`, ...
    pub path: &'a [u8],
}

/// The creation or exit of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskEvent {
    /// The process.
    pub pid: u32,
    /// The parent process.
    pub parent: u32,
    /// The thread.
    pub tid: u32,
    /// The thread that created it.
    pub parent_tid: u32,
}

/// The code that an address of a call chain is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSpace {
    /// The kernel.
    Kernel,
    /// The process's own code.
    User,
    /// A hypervisor, or a guest.
    Other,
}

impl<'a> Records<'a> {
    /// Iterates over bytes that start with a record.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl<'a> Iterator for Records<'a> {
    /// A record that is too short for its type is an error, and the iteration continues. An invalid record length ends
    /// the iteration, because the next record cannot be found.
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let start = self.at;
        let header = ne_u32(rest, 0).zip(ne_u16(rest, 4)).zip(ne_u16(rest, 6));
        let whole = header.and_then(|((kind, misc), len)| {
            let len = usize::from(len);
            let payload = rest.get(HEADER_BYTES..len)?;
            Some((kind, misc, payload, len))
        });
        let Some((kind, misc, payload, len)) = whole else {
            self.at = self.bytes.len();
            return Some(Err(match header.map(|(_, len)| usize::from(len)) {
                Some(len) if len > rest.len() => broken(start, len, rest.len()),
                Some(len) => broken(start, HEADER_BYTES, len),
                None => broken(start, HEADER_BYTES, rest.len()),
            }));
        };
        self.at += len;
        let record = Record::read(kind, misc, payload);
        Some(record.ok_or_else(|| broken(start + HEADER_BYTES, payload.len() + 1, payload.len())))
    }
}

impl<'a> Record<'a> {
    fn read(kind: u32, misc: u16, payload: &'a [u8]) -> Option<Self> {
        if kind == PERF_RECORD_SAMPLE {
            return Sample::read(misc, payload);
        }
        let Some(own) = payload.len().checked_sub(TRAILER_BYTES) else {
            // An unknown record may lack the trailer.
            let is_known = matches!(
                kind,
                PERF_RECORD_LOST
                    | PERF_RECORD_COMM
                    | PERF_RECORD_EXIT
                    | PERF_RECORD_THROTTLE
                    | PERF_RECORD_FORK
                    | PERF_RECORD_MMAP2
                    | PERF_RECORD_LOST_SAMPLES
            );
            let body = Body::Unknown(kind);
            return (!is_known).then_some(Self { time_ns: 0, body });
        };
        let (own, trailer) = payload.split_at_checked(own)?;
        let task = || {
            Some(TaskEvent {
                pid: ne_u32(own, 0)?,
                parent: ne_u32(own, 4)?,
                tid: ne_u32(own, 8)?,
                parent_tid: ne_u32(own, 12)?,
            })
        };
        let body = match kind {
            PERF_RECORD_LOST => Body::Lost(ne_u64(own, 8)?),
            PERF_RECORD_LOST_SAMPLES => Body::Lost(ne_u64(own, 0)?),
            PERF_RECORD_COMM => Body::Comm {
                pid: ne_u32(own, 0)?,
                tid: ne_u32(own, 4)?,
                name: until_nul(own.get(8..)?),
                is_exec: misc & PERF_RECORD_MISC_COMM_EXEC != 0,
            },
            PERF_RECORD_FORK => Body::Fork(task()?),
            PERF_RECORD_EXIT => Body::Exit(task()?),
            PERF_RECORD_THROTTLE => Body::Throttle,
            PERF_RECORD_MMAP2 => Body::Mapping(Mapping::read(misc, own)?),
            _ => Body::Unknown(kind),
        };
        let time_ns = ne_u64(trailer, 8)?;
        Some(Self { time_ns, body })
    }
}

impl<'a> Sample<'a> {
    fn read(misc: u16, payload: &'a [u8]) -> Option<Record<'a>> {
        let addresses = usize::try_from(ne_u64(payload, 32)?).ok()?;
        let end = addresses.checked_mul(8)?.checked_add(40)?;
        let body = Body::Sample(Self {
            address: ne_u64(payload, 0)?,
            pid: ne_u32(payload, 8)?,
            tid: ne_u32(payload, 12)?,
            processor: ne_u32(payload, 24)?,
            is_kernel: misc & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL,
            user: UserStack::read(payload.get(end..)?)?,
            chain: payload.get(40..end)?,
        });
        let time_ns = ne_u64(payload, 16)?;
        Some(Record { time_ns, body })
    }

    /// Iterates over the call chain: addresses, the innermost first, and the code that they are in.
    pub fn chain(&self) -> impl Iterator<Item = (AddressSpace, u64)> + 'a {
        let mut place = match self.is_kernel {
            true => AddressSpace::Kernel,
            false => AddressSpace::User,
        };
        self.chain.chunks_exact(8).filter_map(move |entry| {
            let entry = ne_u64(entry, 0)?;
            if entry < PERF_CONTEXT_MAX {
                return Some((place, entry));
            }
            place = match entry {
                PERF_CONTEXT_KERNEL => AddressSpace::Kernel,
                PERF_CONTEXT_USER => AddressSpace::User,
                _ => AddressSpace::Other,
            };
            None
        })
    }
}

impl<'a> UserStack<'a> {
    /// Reads what follows the chain: nothing, or registers and stack. `Some(None)`: there are none; `None`: it is too short.
    fn read(rest: &'a [u8]) -> Option<Option<Self>> {
        if rest.is_empty() {
            return Some(None);
        }
        let abi = ne_u64(rest, 0)?;
        let registers_end = match abi {
            PERF_SAMPLE_REGS_ABI_NONE => 8,
            _ => 32,
        };
        let registers = rest.get(8..registers_end)?;
        let stack = rest.get(registers_end..)?;
        let len = usize::try_from(ne_u64(stack, 0)?).ok()?;
        let bytes = stack.get(8..len.checked_add(8)?)?;
        if abi != PERF_SAMPLE_REGS_ABI_64 || len == 0 {
            return Some(None);
        }
        // Only so many bytes could be copied.
        let copied = usize::try_from(ne_u64(stack, len + 8)?).unwrap_or(usize::MAX);
        Some(Some(Self {
            bp: ne_u64(registers, 0)?,
            sp: ne_u64(registers, 8)?,
            ip: ne_u64(registers, 16)?,
            bytes: bytes.get(..copied.min(len))?,
        }))
    }
}

impl<'a> Mapping<'a> {
    fn read(misc: u16, own: &'a [u8]) -> Option<Self> {
        let number = |at| ne_u32(own, at);
        // A build id would replace device and inode; it is never requested.
        if misc & PERF_RECORD_MISC_MMAP_BUILD_ID != 0 {
            return None;
        }
        Some(Self {
            pid: number(0)?,
            start: ne_u64(own, 8)?,
            bytes: ne_u64(own, 16)?,
            offset: ne_u64(own, 24)?,
            device: (number(32)?, number(36)?),
            inode: ne_u64(own, 40)?,
            path: until_nul(own.get(64..)?),
        })
    }
}

fn until_nul(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    &text[..end]
}

const fn broken(offset: usize, needed: usize, got: usize) -> Error {
    Error {
        layer: Layer::PerfRecord,
        offset,
        needed,
        got,
    }
}

/// Fields of a sample: `PERF_SAMPLE_IP`, `_TID`, `_TIME`, `_CALLCHAIN`, `_CPU`. Their order in a record is address,
/// thread, time, processor, chain; other records end with thread, time, processor.
pub const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7;

/// [`SAMPLE_TYPE`] with `PERF_SAMPLE_REGS_USER` and `PERF_SAMPLE_STACK_USER`, which follow the chain.
pub const SAMPLE_TYPE_WITH_STACKS: u64 = SAMPLE_TYPE | 1 << 12 | 1 << 13;

/// The registers in a sample, of x86-64: `PERF_REG_X86_BP`, `_SP`, `_IP`.
pub const USER_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// `enum perf_sample_regs_abi`
const PERF_SAMPLE_REGS_ABI_NONE: u64 = 0;
const PERF_SAMPLE_REGS_ABI_64: u64 = 2;

/// `struct perf_event_header`
const HEADER_BYTES: usize = 8;
/// `struct sample_id` for [`SAMPLE_TYPE`]
const TRAILER_BYTES: usize = 24;

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_COMM: u32 = 3;
const PERF_RECORD_EXIT: u32 = 4;
const PERF_RECORD_THROTTLE: u32 = 5;
const PERF_RECORD_FORK: u32 = 7;
const PERF_RECORD_SAMPLE: u32 = 9;
const PERF_RECORD_MMAP2: u32 = 10;
/// Linux 4.2
const PERF_RECORD_LOST_SAMPLES: u32 = 13;

const PERF_RECORD_MISC_CPUMODE_MASK: u16 = 7;
const PERF_RECORD_MISC_KERNEL: u16 = 1;
const PERF_RECORD_MISC_COMM_EXEC: u16 = 1 << 13;
/// Linux 5.12
const PERF_RECORD_MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// `enum perf_callchain_context`: values from here on are not addresses.
const PERF_CONTEXT_MAX: u64 = -4095_i64 as u64;
const PERF_CONTEXT_KERNEL: u64 = -128_i64 as u64;
const PERF_CONTEXT_USER: u64 = -512_i64 as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A record with this payload of 64-bit words.
    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(misc.to_ne_bytes());
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    /// Two 32-bit numbers in a word.
    const fn pair(first: u32, second: u32) -> u64 {
        if cfg!(target_endian = "big") {
            (first as u64) << 32 | second as u64
        } else {
            (second as u64) << 32 | first as u64
        }
    }

    fn only(bytes: &[u8]) -> Record<'_> {
        let mut all = Records::new(bytes);
        let record = all.next().unwrap().unwrap();
        assert_eq!(all.next(), None);
        record
    }

    #[test]
    fn kernel_sample_has_both_stacks() {
        let words = [
            0xffff_ffff_8100_0010,
            pair(10, 11),
            5_000,
            pair(3, 0),
            5,
            PERF_CONTEXT_KERNEL,
            0xffff_ffff_8100_0010,
            PERF_CONTEXT_USER,
            0x40_1000,
            0x40_2000,
        ];
        let bytes = record(9, 1, &words);
        let found = only(&bytes);
        assert_eq!(found.time_ns, 5_000);
        let Body::Sample(sample) = found.body else {
            panic!("{found:?}")
        };
        assert_eq!((sample.pid, sample.tid, sample.processor), (10, 11, 3));
        assert!(sample.is_kernel);
        let chain: Vec<_> = sample.chain().collect();
        let kernel = (AddressSpace::Kernel, 0xffff_ffff_8100_0010);
        assert_eq!(
            chain,
            [
                kernel,
                (AddressSpace::User, 0x40_1000),
                (AddressSpace::User, 0x40_2000)
            ]
        );
    }

    #[test]
    fn registers_and_stack_follow_the_chain() {
        let head = [0x40_1000, pair(10, 11), 5_000, pair(3, 0), 1, 0x40_1000];
        let sample = |rest: &[u64]| {
            let bytes = record(9, 2, &[&head[..], rest].concat());
            let record = Records::new(&bytes).next().unwrap().ok()?;
            let Body::Sample(sample) = record.body else {
                panic!("{record:?}")
            };
            Some(
                sample
                    .user
                    .map(|user| (user.bp, user.sp, user.ip, user.bytes.to_vec())),
            )
        };
        // Two words of stack, of which one could be copied.
        let whole = [2, 0xb0, 0x50, 0x10, 16, 7, 8, 8];
        let expected = (0xb0, 0x50, 0x10, 7_u64.to_ne_bytes().to_vec());
        assert_eq!(sample(&whole), Some(Some(expected)));
        // More than there is claims to be copied.
        let mut odd = whole;
        odd[7] = u64::MAX;
        assert_eq!(sample(&odd).flatten().map(|found| found.3.len()), Some(16));
        for len in 1..whole.len() {
            assert_eq!(sample(&whole[..len]), None, "{len}");
        }
        odd[4] = u64::MAX - 3;
        assert_eq!(sample(&odd), None);
        // A thread of the kernel, a program of 32 bits, no stack
        assert_eq!(sample(&[0, 0]), Some(None));
        assert_eq!(sample(&[1, 1, 2, 3, 8, 9, 8]), Some(None));
        assert_eq!(sample(&[2, 1, 2, 3, 0]), Some(None));
        assert_eq!(sample(&[]), Some(None));
    }

    #[test]
    fn too_long_chain_is_an_error_and_the_next_record_is_read() {
        for claimed in [1, 2, u64::MAX, u64::MAX / 8, 1 << 61] {
            let mut bytes = record(9, 2, &[1, pair(10, 11), 2, 0, claimed]);
            bytes.extend(record(9, 2, &[1, pair(10, 11), 2, 0, 0]));
            let found: Vec<_> = Records::new(&bytes).map(|record| record.is_ok()).collect();
            assert_eq!(found, [false, true], "{claimed}");
        }
    }

    #[test]
    fn mapping_is_parsed() {
        let words = [
            pair(10, 10),
            0x7f00_0000_0000,
            0x2000,
            0x1000,
            pair(8, 1),
            77,
            0,
            pair(5, 2),
            u64::from_ne_bytes(*b"/lib/a\0\0"),
            pair(10, 10),
            9,
            pair(1, 0),
        ];
        let bytes = record(10, 2, &words);
        let mapping = Mapping {
            pid: 10,
            start: 0x7f00_0000_0000,
            bytes: 0x2000,
            offset: 0x1000,
            device: (8, 1),
            inode: 77,
            path: b"/lib/a",
        };
        let body = Body::Mapping(mapping);
        assert_eq!(only(&bytes), Record { time_ns: 9, body });
        assert!(
            Records::new(&record(10, 2 | 1 << 14, &words))
                .next()
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn forks_exits_losses_and_unknown_records_are_parsed() {
        let trailer = [pair(1, 1), 4, pair(0, 0)];
        let with = |kind, own: &[u64]| record(kind, 0, &[own, &trailer].concat());
        let task = TaskEvent {
            pid: 20,
            parent: 10,
            tid: 21,
            parent_tid: 11,
        };
        let own = [pair(20, 10), pair(21, 11), 4];
        let body = |bytes: &[u8]| match only(bytes) {
            Record {
                time_ns: 4,
                body: Body::Fork(it),
            } => ("fork", Some(it), 0),
            Record {
                body: Body::Exit(it), ..
            } => ("exit", Some(it), 0),
            Record {
                body: Body::Lost(it), ..
            } => ("lost", None, it),
            Record {
                body: Body::Throttle, ..
            } => ("throttle", None, 0),
            Record {
                body: Body::Unknown(it),
                ..
            } => ("unknown", None, u64::from(it)),
            other => panic!("{other:?}"),
        };
        assert_eq!(body(&with(7, &own)), ("fork", Some(task), 0));
        assert_eq!(body(&with(4, &own)), ("exit", Some(task), 0));
        assert_eq!(body(&with(2, &[1, 17])), ("lost", None, 17));
        assert_eq!(body(&with(13, &[18])), ("lost", None, 18));
        assert_eq!(body(&with(5, &[4, 1, 1])), ("throttle", None, 0));
        assert_eq!(body(&with(99, &[])), ("unknown", None, 99));
        assert_eq!(body(&record(99, 0, &[])), ("unknown", None, 99));
    }

    #[test]
    fn truncated_record_is_an_error() {
        let whole = record(9, 2, &[1, pair(10, 11), 2, 0, 1, 0x40_1000]);
        for len in 0..whole.len() {
            let mut all = Records::new(&whole[..len]);
            assert_eq!(
                all.next().map(|record| record.is_ok()),
                (len > 0).then_some(false)
            );
            assert_eq!(all.next(), None);
        }
        // A length shorter than the header would loop for ever.
        let mut zero = whole;
        zero[6..8].copy_from_slice(&7_u16.to_ne_bytes());
        assert_eq!(Records::new(&zero).count(), 1);
        // A complete record that is too short for its type.
        for kind in [2, 3, 4, 5, 7, 9, 10, 13] {
            for words in 0..4 {
                let _ = Records::new(&record(kind, 0, &[0; 4][..words])).count();
            }
        }
    }
}
