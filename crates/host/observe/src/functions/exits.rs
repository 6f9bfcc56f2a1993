//! The exits of a function: the instructions that leave it.
//!
//! For a return probe the kernel replaces the return address on the stack by its own. An exception or panic that unwinds the
//! stack then finds an unknown address and ends the program. So in files whose functions may unwind, probes are set on
//! the exit instructions instead. Their exact positions must be known: a breakpoint inside an instruction would change
//! it.

use super::instruction::{Kind, decode};

/// Returns the offsets of the instructions that leave a function with this code: `ret`, and jumps out of it or to its
/// beginning (tail calls). `None` if the code cannot be decoded from the first to the last byte.
pub(super) fn exits(code: &[u8]) -> Option<Vec<u64>> {
    let mut exits = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let instruction = decode(code.get(at..)?)?;
        let end = at + instruction.bytes;
        let leaves = match instruction.kind {
            Kind::Return => true,
            Kind::Jump(distance) => {
                let target = i64::try_from(end).ok()? + i64::from(distance);
                target <= 0 || target >= i64::try_from(code.len()).ok()?
            }
            Kind::Branch(_) | Kind::Indirect | Kind::Other => false,
        };
        if leaves {
            exits.push(at as u64);
            if exits.len() > EXITS_MAX {
                return None;
            }
        }
        at = end;
    }
    Some(exits)
}

/// The most exits; compilers create fewer.
const EXITS_MAX: usize = 1000;

/// The longest function that is decoded, in bytes.
pub(super) const CODE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_returns_and_tail_calls() {
        // test %edi,%edi; je +3; jmp far behind; ret; jmp back within; jmp to the beginning
        let code = [
            0x85, 0xff, 0x74, 0x05, 0xe9, 0, 1, 0, 0, 0xc3, 0xeb, 0xf8, 0xeb, 0xf2,
        ];
        assert_eq!(exits(&code), Some(vec![4, 9, 12]));
        assert_eq!(exits(&code[..13]), None); // ends within an instruction
        assert_eq!(exits(&[]), Some(vec![]));
        assert_eq!(exits(&[0x06, 0xc3]), None);
    }
}
