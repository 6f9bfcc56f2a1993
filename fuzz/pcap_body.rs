//! Body of the fuzz target `packet_filters`, and of the test that replays its corpus.

use sockeye_filter::NoResolve;
use sockeye_filter::pcap::{Instruction, Link, PacketFilter};

/// A packet filter: refused with a message that can be printed, or compiled to a program that the kernel takes.
pub(crate) fn packet_filters(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for link in [
        Link::Ethernet,
        Link::EthernetSocket,
        Link::Raw,
        Link::Cooked,
        Link::CookedSocket,
    ] {
        let filter = match PacketFilter::parse(&text, link, &NoResolve) {
            Ok(filter) => filter,
            Err(error) => {
                assert!(text.get(error.span.clone()).is_some(), "{error:?}");
                let rendered = error.render(&text);
                assert_eq!(rendered.lines().count(), 3, "{rendered:?}");
                assert!(
                    !rendered.contains(|c: char| c.is_control() && c != '\n'),
                    "{rendered:?}"
                );
                continue;
            }
        };
        if let Ok(program) = filter.without_echo(Some(1)).program(96) {
            assert_eq!(audit(&program), None, "{link:?}: {text}: {program:?}");
        }
    }
}

/// The first instruction that `bpf_check_classic` of the kernel's `net/core/filter.c` would not take.
fn audit(program: &[Instruction]) -> Option<usize> {
    let is_good = |at: usize, one: &Instruction| {
        let left = program.len() - at - 1;
        let constant = one.code & 0x08 == 0;
        match one.code {
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 | 0x00 | 0x80 | 0x07 | 0x87 | 0x84 | 0x06 => true,
            0x60 | 0x61 | 0x02 | 0x03 => one.operand < 16,
            0x05 => (one.operand as usize) < left,
            code if code & 7 == 4 => match code & 0xf0 {
                0x30 | 0x90 => !constant || one.operand != 0,
                0x60 | 0x70 => !constant || one.operand < 32,
                0x00 | 0x10 | 0x20 | 0x40 | 0x50 | 0xa0 => true,
                _ => false,
            },
            code if code & 7 == 5 => {
                matches!(code & 0xf0, 0x10 | 0x20 | 0x30 | 0x40) && usize::from(one.yes.max(one.no)) < left
            }
            _ => false,
        }
    };
    let ends = program.last().is_some_and(|last| last.code == 0x06);
    if !ends || program.len() > 4096 {
        return Some(program.len());
    }
    (0..program.len()).find(|&at| !is_good(at, &program[at]))
}
