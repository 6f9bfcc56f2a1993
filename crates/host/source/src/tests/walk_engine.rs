//! The program of the walk with unusual requests: it ends, reports what is known, and writes only records. Objects that
//! cannot be loaded report the reason.

use crate::bpf::Kernel;
use crate::unavailable::Unavailable;
use rustix::io::Errno;
use sockeye_lab::{Lab, Skip, need};
use sockeye_sys::bpf::{LoadError, Program, Slot};
use sockeye_wire::walk::{Outcome, Reply, Request, Table, detail, records};
use std::path::Path;

const TCP: &[u8] = include_bytes!("../../../../../bpf/tcp.bpf.o");
const UDP: &[u8] = include_bytes!("../../../../../bpf/udp.bpf.o");
/// Those of kernels before Linux 6.2.
const TCP_BY_COPYING: &[u8] = include_bytes!("../../../../../bpf/tcp_read.bpf.o");
const UDP_BY_COPYING: &[u8] = include_bytes!("../../../../../bpf/udp_read.bpf.o");

struct Walker {
    program: Program,
    slots: Vec<Slot>,
}

impl Walker {
    fn load(elf: &[u8]) -> Result<Self, Unavailable> {
        Self::load_named(elf, "walk_tcp")
    }

    fn load_named(elf: &[u8], name: &str) -> Result<Self, Unavailable> {
        let kernel = Kernel::read(Path::new(Kernel::TYPES), false)?;
        let prepared = kernel.prepare(elf, &[])?;
        let ([program], array) = prepared
            .object
            .load_raw_tracepoints([name], "slots")
            .map_err(|error| Unavailable::Load(error, prepared.missing))?;
        let slots = array.into_slots().unwrap();
        Ok(Self { program, slots })
    }

    fn new() -> Result<Self, Skip> {
        Self::or_skip(Self::load(TCP))
    }

    /// Both walks over TCP's tables.
    fn both() -> Result<[Self; 2], Skip> {
        Ok([Self::new()?, Self::or_skip(Self::load(TCP_BY_COPYING))?])
    }

    /// Both walks over UDP's table.
    fn both_udp() -> Result<[Self; 2], Skip> {
        let load = |elf| Self::or_skip(Self::load_named(elf, "walk_udp"));
        Ok([load(UDP)?, load(UDP_BY_COPYING)?])
    }

    fn or_skip(loaded: Result<Self, Unavailable>) -> Result<Self, Skip> {
        match loaded {
            Ok(walker) => Ok(walker),
            Err(
                obstacle @ (Unavailable::Load(LoadError::System(_, Errno::PERM | Errno::ACCESS), _)
                | Unavailable::Types(..)
                | Unavailable::Lacks(_)),
            ) => Err(Skip::new(obstacle.to_string())),
            Err(obstacle) => panic!("{obstacle}"),
        }
    }

    /// Runs it in the first slot; the others must stay as they are.
    fn run(&mut self, request: &Request, hashinfo: u64) -> Reply {
        for slot in &mut self.slots[1..] {
            slot.bytes_mut().fill(0xa5);
        }
        let slot = &mut self.slots[0];
        request.write(slot.bytes_mut());
        self.program.run(slot, &[hashinfo]).unwrap();
        let reply = Reply::read(slot.bytes()).unwrap();
        let mut all = records(slot.bytes(), &reply);
        let bytes: usize = (&mut all).count();
        assert!(
            !all.is_broken() && bytes as u64 * 128 <= u64::from(reply.used),
            "{request:?}: {reply:?}"
        );
        for slot in &self.slots[1..] {
            assert!(
                slot.bytes().iter().all(|byte| *byte == 0xa5),
                "{request:?} wrote into another slot"
            );
        }
        reply
    }
}

#[test]
fn unusual_tcp_requests_end_without_error() {
    for walker in &mut need!(Walker::both()) {
        check_unusual_tcp_requests(walker);
    }
}

fn check_unusual_tcp_requests(walker: &mut Walker) {
    let everything = Request::ALL;
    let whole = walker.run(&Request { end: 0, ..everything }, 0);
    assert_eq!((whole.outcome, whole.used), (Outcome::Done, 0));
    let buckets = whole.buckets;
    assert!(buckets.is_power_of_two());
    let ends = [0, 1, buckets - 1, buckets, buckets + 1, u32::MAX - 511, u32::MAX];
    for table in [Table::Established, Table::Listening, Table::Bound] {
        for first in ends {
            for end in ends {
                for skip in [0, u32::MAX] {
                    // One slice; what begins within the table and is longer is asked by others.
                    if first < buckets && end > first && end - first > 1024 {
                        continue;
                    }
                    let request = Request {
                        table,
                        first,
                        end,
                        skip,
                        ..everything
                    };
                    let reply = walker.run(&request, 0);
                    assert!(
                        matches!(reply.outcome, Outcome::Done | Outcome::NoTable),
                        "{request:?}: {reply:?}"
                    );
                    let is_outside = first >= end || first >= buckets;
                    assert!(!is_outside || reply.used == 0, "{request:?}: {reply:?}");
                }
            }
        }
    }
    // Sections that do not exist, and none.
    for detail in [0, detail::MEMORY, !(detail::TCP_INFO | detail::CONGESTION)] {
        for (v4, v6, states) in [(true, true, 0), (false, false, u32::MAX), (true, true, u32::MAX)] {
            let request = Request {
                table: Table::Listening,
                detail,
                v4,
                v6,
                states,
                ..everything
            };
            let reply = walker.run(&request, 0);
            // The walk by copying gets less far in a run.
            assert!(
                matches!(reply.outcome, Outcome::Done | Outcome::Full) && reply.next > 0,
                "{request:?}: {reply:?}"
            );
            assert!(
                states != 0 && (v4 || v6) || reply.used == 0,
                "{request:?}: {reply:?}"
            );
        }
    }
}

/// Likewise of UDP's program, which has one table.
#[test]
fn unusual_udp_requests_end_without_error() {
    for walker in &mut need!(Walker::both_udp()) {
        check_unusual_udp_requests(walker);
    }
}

fn check_unusual_udp_requests(walker: &mut Walker) {
    let everything = Request {
        table: Table::Udp,
        ..Request::ALL
    };
    let whole = walker.run(&Request { end: 0, ..everything }, 0);
    assert_eq!((whole.outcome, whole.used), (Outcome::Done, 0));
    let buckets = whole.buckets;
    assert!(buckets.is_power_of_two());
    let ends = [0, 1, 255, 256, 257, buckets - 1, buckets, buckets + 1, u32::MAX];
    for first in ends {
        for end in ends {
            for skip in [0, u32::MAX] {
                let request = Request {
                    first,
                    end,
                    skip,
                    detail: u32::MAX,
                    ..everything
                };
                let reply = walker.run(&request, 0);
                assert!(
                    matches!(reply.outcome, Outcome::Done | Outcome::Full),
                    "{request:?}: {reply:?}"
                );
                let is_outside = first >= end || first >= buckets;
                assert!(!is_outside || reply.used == 0, "{request:?}: {reply:?}");
            }
        }
    }
    for table in [Table::Established, Table::Listening, Table::Bound] {
        let reply = walker.run(&Request { table, ..everything }, 0);
        assert_eq!((reply.outcome, reply.used), (Outcome::NoTable, 0), "{table:?}");
    }
    for table in [8, 0x1000, 0x7fff_ffff_f000, 1 << 63] {
        let reply = walker.run(&everything, table);
        assert_eq!((reply.outcome, reply.used), (Outcome::NoTable, 0), "{table:#x}");
    }
}

/// An address that is none reads as 0: there is no table.
#[test]
fn invalid_table_is_refused() {
    let [mut in_place, mut by_copying] = need!(Walker::both());
    for hashinfo in [8, 0x1000, 0x7fff_ffff_f000, 1 << 63] {
        for table in [Table::Established, Table::Listening] {
            let request = Request {
                table,
                ..Request::ALL
            };
            for walker in [&mut in_place, &mut by_copying] {
                let reply = walker.run(&request, hashinfo);
                assert_eq!(
                    (reply.outcome, reply.used),
                    (Outcome::NoTable, 0),
                    "{hashinfo:#x}: {reply:?}"
                );
            }
        }
    }
}

/// What the whole table holds is the same in one run and in many, wherever they are cut.
#[test]
fn slices_together_are_the_whole_table() {
    let lab = need!(Lab::new("slices"));
    let mut walker = need!(Walker::new());
    let here = lab.namespace("here");
    let pairs: Vec<_> = (0..20).map(|_| here.loopback().established()).collect();
    let netns = u32::try_from(here.inode()).unwrap();
    let wanted = |table| Request {
        table,
        netns,
        ..Request::ALL
    };
    let inodes = |walker: &Walker, reply: &Reply| -> Vec<(u32, u16, u16)> {
        let all = records(walker.slots[0].bytes(), reply);
        all.map(|record| (record.bucket(), record.local_port(), record.peer_port()))
            .collect()
    };
    for (table, count) in [
        (Table::Established, 2 * pairs.len()),
        (Table::Listening, pairs.len()),
    ] {
        let reply = walker.run(&wanted(table), 0);
        let mut whole = inodes(&walker, &reply);
        assert_eq!(
            (reply.outcome, whole.len(), reply.given_up, reply.overlong),
            (Outcome::Done, count, 0, 0)
        );
        let mut sliced = Vec::new();
        // Odd, so that each begins somewhere else within what is read of the table at once.
        let step = reply.buckets / 37 + 1;
        for first in (0..reply.buckets).step_by(step as usize) {
            let end = first + step;
            let reply = walker.run(
                &Request {
                    first,
                    end,
                    ..wanted(table)
                },
                0,
            );
            assert_eq!(reply.outcome, Outcome::Done);
            let found = inodes(&walker, &reply);
            assert!(
                found.iter().all(|(bucket, ..)| (first..end).contains(bucket)),
                "{first}: {found:?}"
            );
            sliced.extend(found);
        }
        whole.sort_unstable();
        sliced.sort_unstable();
        assert_eq!(whole, sliced);
        // Each bucket alone, also the last ones.
        for &(bucket, ..) in &whole {
            let alone = Request {
                first: bucket,
                end: bucket + 1,
                ..wanted(table)
            };
            let reply = walker.run(&alone, 0);
            let expected = whole.iter().filter(|(other, ..)| *other == bucket).count();
            assert_eq!(inodes(&walker, &reply).len(), expected, "{bucket}");
        }
    }
}

#[test]
fn rejected_object_reports_the_reason() {
    need!(Walker::new());
    // Without its licence it may not call what it calls.
    let mut elf = TCP.to_vec();
    let licence = elf.windows(4).position(|window| window == b"GPL\0").unwrap();
    elf[licence..licence + 3].copy_from_slice(b"MIT");
    let obstacle = Walker::load(&elf).map(drop).unwrap_err();
    assert!(
        matches!(obstacle, Unavailable::Load(LoadError::Rejected(..), _)),
        "{obstacle:?}"
    );
    let words = obstacle.to_string();
    assert!(
        words.starts_with("the kernel's verifier rejected the program: ") && words.contains("GPL"),
        "{words}"
    );
    assert!(!obstacle.is_forbidden() && !words.contains('\n'), "{words}");
}

#[test]
fn malformed_object_is_an_error() {
    need!(Walker::new());
    let cut = (0..TCP.len()).step_by(TCP.len() / 60);
    for len in cut {
        let obstacle = Walker::load(&TCP[..len]).map(drop).unwrap_err();
        assert!(!obstacle.to_string().is_empty(), "{len}");
        assert!(
            matches!(obstacle, Unavailable::Load(LoadError::Object(_), _)),
            "{len}: {obstacle:?}"
        );
    }
    let reversed: Vec<u8> = TCP.iter().rev().copied().collect();
    assert!(matches!(
        Walker::load(&reversed).map(drop),
        Err(Unavailable::Load(LoadError::Object(_), _))
    ));
}
