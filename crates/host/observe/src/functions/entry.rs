//! Where a function is best watched when it begins.
//!
//! Compilers that protect programs from jumps to anywhere (`-fcf-protection`, which Ubuntu and Fedora have on) begin each
//! function with `endbr64`. At a uprobe the kernel has the processor run that by a single step; the `push` that often follows
//! it carries out itself, in a fraction of the time. The stack is the same at both.

use super::instruction::{Kind, decode, is_emulated_by_the_kernel};

/// So many bytes behind the beginning of a function, which is this code from its first to its last byte: 0, or behind its
/// `endbr64` if whoever calls comes by there, and nobody else does.
pub(super) fn behind_endbr(code: &[u8]) -> usize {
    let behind = ENDBR64.len();
    match code.strip_prefix(&ENDBR64) {
        Some(rest) if is_emulated_by_the_kernel(rest) && !may_jump_to(code, behind) => behind,
        _ => 0,
    }
}

/// Whether one of its own instructions may go there: the head of a loop is not where calls begin.
fn may_jump_to(code: &[u8], place: usize) -> bool {
    let mut at = 0;
    while at < code.len() {
        let Some(instruction) = code.get(at..).and_then(decode) else {
            return true;
        };
        let end = at + instruction.bytes;
        let distance = match instruction.kind {
            Kind::Jump(distance) | Kind::Branch(distance) => distance,
            // By a table: to anywhere.
            Kind::Indirect => return true,
            Kind::Return | Kind::Other => {
                at = end;
                continue;
            }
        };
        if end as i64 + i64::from(distance) == place as i64 {
            return true;
        }
        at = end;
    }
    false
}

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_behind_it_is_cheaper() {
        let with = |rest: &[u8]| behind_endbr(&[&ENDBR64, rest].concat());
        assert_eq!(with(&[0x55, 0x5d, 0xc3]), 4); // push; pop; ret
        assert_eq!(with(&[0x48, 0x83, 0xec, 8, 0xc3]), 0); // sub $8,%rsp: a step as well
        assert_eq!(with(&[0x55, 0x5d, 0xeb, 0xfc]), 0); // jmp to the push
        assert_eq!(with(&[0x55, 0x5d, 0x74, 0xfc, 0xc3]), 0); // je to the push
        assert_eq!(with(&[0x55, 0x5d, 0x0f, 0x84, 0xf8, 0xff, 0xff, 0xff]), 0);
        assert_eq!(with(&[0x55, 0x5d, 0xeb, 0xf8]), 4); // jmp to the beginning: calls itself
        assert_eq!(with(&[0x55, 0x3e, 0xff, 0xe0]), 0); // notrack jmp *%rax
        assert_eq!(with(&[0x55, 0x3e, 0x41, 0xff, 0xe0]), 0); // notrack jmp *%r8
        assert_eq!(with(&[0x55, 0xff, 0x25, 0, 0, 0, 0]), 4); // jmp *0(%rip)
        assert_eq!(with(&[0x55, 0x06]), 0); // unknown
        assert_eq!(behind_endbr(&[0x55, 0xc3]), 0);
        assert_eq!(behind_endbr(&[]), 0);
    }
}
