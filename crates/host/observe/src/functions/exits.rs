//! Where a function ends: the places of the instructions by which it is left.
//!
//! To see a return, the kernel puts its own address in the place of the return address on the stack. Whoever reads the
//! stack then finds an address that is nowhere: an exception or a panic ends there, and with it the program. So in
//! files whose functions may be left that way the instructions themselves are watched. That needs to be certain where
//! instructions begin: a breakpoint within one would change what it does.

use super::instruction::{Kind, decode};

/// The offsets within a function, which is this code from its first to its last byte, of the instructions by which it is
/// left: `ret`, and jumps elsewhere or to its beginning (tail calls). `None`: it does not consist of instructions that we
/// know, from the first byte to the last.
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

/// More than compilers make of a function.
const EXITS_MAX: usize = 1000;

/// Longer functions are not looked through.
pub(super) const CODE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_and_tail_calls() {
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
