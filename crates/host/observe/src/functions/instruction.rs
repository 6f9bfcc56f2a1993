//! How long instructions of x86-64 are, and which of them end a function.
//!
//! ProbePmu: the opcode maps of Intel's Software Developer's Manual, volume 2, appendix A.

/// An instruction, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) bytes: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `ret`
    Return,
    /// `jmp` to so many bytes behind its end.
    Jump(i32),
    Other,
}

/// Reads one; `None`: it is cut off, not one of the 64-bit mode, or one that compilers do not use.
pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let mut at = 0;
    let (mut short_operands, mut short_addresses, mut wide) = (false, false, false);
    loop {
        match *code.get(at)? {
            0x66 => short_operands = true,
            0x67 => short_addresses = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        at += 1;
    }
    let mut opcode = *code.get(at)?;
    if opcode & 0xf0 == 0x40 {
        wide = opcode & 8 != 0;
        at += 1;
        opcode = *code.get(at)?;
    }
    at += 1;
    let operand = if short_operands && !wide { 2 } else { 4 };
    let operands = match opcode {
        0x0f => {
            let second = *code.get(at)?;
            at += 1;
            match second {
                0x38 | 0x3a => {
                    at += 1;
                    Operands::address_and(usize::from(second == 0x3a))
                }
                _ => of_two_bytes(second)?,
            }
        }
        // VEX of two bytes: map 1.
        0xc5 => {
            at += 2;
            of_vector(1, *code.get(at - 1)?)?
        }
        // VEX of three bytes.
        0xc4 => {
            let map = *code.get(at)? & 0x1f;
            at += 3;
            of_vector(map, *code.get(at - 1)?)?
        }
        // EVEX
        0x62 => {
            let map = *code.get(at)? & 7;
            at += 4;
            of_vector(map, *code.get(at - 1)?)?
        }
        0xa0..=0xa3 => Operands::immediate(if short_addresses { 4 } else { 8 }),
        0xb8..=0xbf if wide => Operands::immediate(8),
        0xf6 | 0xf7 => {
            let tests = *code.get(at)? & 0x30 == 0;
            let bytes = if opcode == 0xf6 { 1 } else { operand };
            Operands::address_and(if tests { bytes } else { 0 })
        }
        // XOP, of some AMD processors, or `pop`.
        0x8f if *code.get(at)? & 0x38 != 0 => return None,
        _ => of_one_byte(opcode, operand)?,
    };
    if operands.has_address {
        at += address_bytes(code.get(at..)?)?;
    }
    let end = at + operands.immediate_bytes;
    let immediate = code.get(at..end)?;
    let kind = match (opcode, immediate) {
        (0xc2 | 0xc3, _) => Kind::Return,
        (0xeb, &[distance]) => Kind::Jump(i32::from(distance.cast_signed())),
        (0xe9, bytes) => Kind::Jump(i32::from_le_bytes(bytes.try_into().ok()?)),
        _ => Kind::Other,
    };
    // The processor refuses longer ones.
    (end <= 15).then_some(Instruction { bytes: end, kind })
}

/// Where the body of a Go function begins, which has this code: behind the look whether there is stack enough. Without
/// enough the function is entered once more when there is.
pub(super) fn body_of_go(code: &[u8]) -> usize {
    let mut at = 0;
    let mut compared = false;
    for _ in 0..GO_PROLOGUE_MAX {
        let rest = code.get(at..).unwrap_or_default();
        let Some(instruction) = decode(rest) else { return 0 };
        at += instruction.bytes;
        match *rest {
            // jbe
            [0x76, ..] | [0x0f, 0x86, ..] if compared => return at,
            // cmp 16(%r14),REGISTER: the goroutine's stack guard
            [0x49 | 0x4d, 0x3b, second, 16, ..] if second & 0xc7 == 0x46 => compared = true,
            _ => compared = false,
        }
    }
    0
}

/// So many instructions, of a function with a big frame, and more.
const GO_PROLOGUE_MAX: usize = 8;

/// Whether it is of those with a VEX, EVEX or XOP prefix. `arch/x86/kernel/uprobes.c` takes what follows the prefix for a whole
/// opcode: a `vpbroadcastb` (0x7a) for a jump, a `vxorps` (0x57) for a push. A uprobe there changes what the program does:
/// seen with Linux 6.18, where every process's `printf` failed by one at `__strchrnul_evex`. To be deleted when no kernel does
/// that any more.
pub(super) fn is_mistaken_by_the_kernel(code: &[u8]) -> bool {
    let mut bytes = code
        .iter()
        .skip_while(|byte| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3));
    match bytes.next() {
        Some(0xc4 | 0xc5 | 0x62) => true,
        Some(0x8f) => bytes.next().is_some_and(|next| next & 0x38 != 0),
        _ => false,
    }
}

/// Whether the kernel carries it out itself at a uprobe, instead of a single step: `branch_setup_xol_ops` and
/// `push_setup_xol_ops` of `arch/x86/kernel/uprobes.c`.
pub(super) fn is_emulated_by_the_kernel(code: &[u8]) -> bool {
    matches!(
        *code,
        [0x40..=0x4f, 0x50..=0x57, ..]
            | [0x50..=0x57 | 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb, ..]
            | [0x0f, 0x80..=0x8f, ..]
    )
}

/// What follows an opcode.
struct Operands {
    /// A ModR/M byte, and what it asks for.
    has_address: bool,
    immediate_bytes: usize,
}

impl Operands {
    const NONE: Self = Self::immediate(0);

    const fn immediate(immediate_bytes: usize) -> Self {
        Self {
            has_address: false,
            immediate_bytes,
        }
    }

    const fn address_and(immediate_bytes: usize) -> Self {
        Self {
            has_address: true,
            immediate_bytes,
        }
    }
}

fn of_one_byte(opcode: u8, operand: usize) -> Option<Operands> {
    Some(match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => Operands::address_and(0),
            4 => Operands::immediate(1),
            5 => Operands::immediate(operand),
            _ => return None,
        },
        0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f => Operands::NONE,
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => Operands::address_and(0),
        0x68 | 0xa9 => Operands::immediate(operand),
        0xb8..=0xbf => Operands::immediate(operand),
        0x69 | 0x81 | 0xc7 => Operands::address_and(operand),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => Operands::address_and(1),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => Operands::immediate(1),
        0xa4..=0xa7 | 0xaa..=0xaf | 0xc3 | 0xc9 | 0xcc | 0xd7 => Operands::NONE,
        0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => Operands::NONE,
        0xc2 => Operands::immediate(2),
        0xc8 => Operands::immediate(3),
        0xe8 | 0xe9 => Operands::immediate(4),
        _ => return None,
    })
}

fn of_two_bytes(opcode: u8) -> Option<Operands> {
    Some(match opcode {
        0x04 | 0x0a | 0x0c | 0x0f | 0x24..=0x27 | 0x36 | 0x39 | 0x3b..=0x3f | 0x78 => return None,
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 => Operands::NONE,
        0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => Operands::NONE,
        0x80..=0x8f => Operands::immediate(4),
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => Operands::address_and(1),
        _ => Operands::address_and(0),
    })
}

fn of_vector(map: u8, opcode: u8) -> Option<Operands> {
    Some(match (map, opcode) {
        (1, 0x77) => Operands::NONE,
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => Operands::address_and(1),
        (1 | 2 | 5 | 6, _) => Operands::address_and(0),
        _ => return None,
    })
}

/// How long the ModR/M byte is, with the SIB byte and the displacement that it asks for.
fn address_bytes(code: &[u8]) -> Option<usize> {
    let first = *code.first()?;
    let (mode, base) = (first >> 6, first & 7);
    if mode == 3 {
        return Some(1);
    }
    let scaled = base == 4;
    let base = if scaled { code.get(1)? & 7 } else { base };
    let displacement = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + usize::from(scaled) + displacement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &[u8], kind: Kind) {
        let found = decode(code);
        let expected = Instruction {
            bytes: code.len(),
            kind,
        };
        assert_eq!(found, Some(expected), "{code:02x?}");
        for cut in 0..code.len() {
            assert_eq!(decode(&code[..cut]), None, "{:02x?}", &code[..cut]);
        }
    }

    #[test]
    fn instructions_as_compilers_write_them() {
        check(&[0xf3, 0x0f, 0x1e, 0xfa], Kind::Other); // endbr64
        check(&[0x48, 0x89, 0xe5], Kind::Other); // mov %rsp,%rbp
        check(&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], Kind::Other); // movabs
        check(&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], Kind::Other); // nopw
        check(&[0xc7, 0x44, 0x24, 8, 1, 0, 0, 0], Kind::Other); // movl $1,8(%rsp)
        check(&[0x66, 0xc7, 0x44, 0x24, 8, 1, 0], Kind::Other); // movw
        check(&[0xf7, 0xd8], Kind::Other); // neg %eax
        check(&[0xf7, 0xc7, 1, 0, 0, 0], Kind::Other); // test $1,%edi
        check(&[0x8b, 0x05, 1, 2, 3, 4], Kind::Other); // mov 0x04030201(%rip),%eax
        check(&[0xc5, 0xf8, 0x77], Kind::Other); // vzeroupper
        check(&[0xc4, 0xe3, 0x7d, 0x39, 0xc1, 1], Kind::Other); // vextracti128 $1,%ymm0,%xmm1
        check(&[0x62, 0xf1, 0x7c, 0x48, 0x28, 0x07], Kind::Other); // vmovaps (%rdi),%zmm0
        check(&[0x62, 0xf3, 0x75, 0x48, 0x25, 0xc2, 0xff], Kind::Other); // vpternlogd
        check(&[0x0f, 0x84, 1, 0, 0, 0], Kind::Other); // je
    }

    #[test]
    fn ends() {
        check(&[0xc3], Kind::Return);
        check(&[0xf2, 0xc3], Kind::Return);
        check(&[0xc2, 8, 0], Kind::Return);
        check(&[0xeb, 0xfe], Kind::Jump(-2));
        check(&[0xe9, 0, 1, 0, 0], Kind::Jump(256));
    }

    #[test]
    fn bodies_of_go() {
        // cmp 16(%r14),%rsp; jbe +0x21; push %rbp
        assert_eq!(body_of_go(&[0x49, 0x3b, 0x66, 0x10, 0x76, 0x21, 0x55]), 6);
        // lea -0x980(%rsp),%r12; cmp 16(%r14),%r12; jbe +256; push %rbp
        let big = [
            0x4c, 0x8d, 0xa4, 0x24, 0x80, 0xf6, 0xff, 0xff, 0x4d, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0, 1, 0, 0,
            0x55,
        ];
        assert_eq!(body_of_go(&big), 18);
        assert_eq!(body_of_go(&[0x55, 0x48, 0x89, 0xe5, 0xc3]), 0);
    }

    #[test]
    fn what_the_kernel_mistakes() {
        assert!(is_mistaken_by_the_kernel(&[0x62, 0xe2, 0x7d, 0x28, 0x7a, 0xc6])); // vpbroadcastb %esi,%ymm16
        assert!(is_mistaken_by_the_kernel(&[0xc5, 0xf8, 0x57, 0xc0])); // vxorps %xmm0,%xmm0,%xmm0
        assert!(!is_mistaken_by_the_kernel(&[0xf3, 0x0f, 0x1e, 0xfa])); // endbr64
        assert!(!is_mistaken_by_the_kernel(&[0x8f, 0x00])); // pop (%rax)
        assert!(!is_mistaken_by_the_kernel(&[]));
    }

    #[test]
    fn what_the_kernel_does_itself() {
        assert!(is_emulated_by_the_kernel(&[0x55])); // push %rbp
        assert!(is_emulated_by_the_kernel(&[0x41, 0x57])); // push %r15
        assert!(is_emulated_by_the_kernel(&[0x0f, 0x84, 1, 0, 0, 0])); // je
        assert!(!is_emulated_by_the_kernel(&[0xf3, 0x0f, 0x1e, 0xfa])); // endbr64
        assert!(!is_emulated_by_the_kernel(&[0x48, 0x83, 0xec, 8])); // sub $8,%rsp
        assert!(!is_emulated_by_the_kernel(&[]));
    }

    #[test]
    fn nonsense() {
        assert_eq!(decode(&[0x06]), None); // push %es: not in the 64-bit mode
        assert_eq!(decode(&[0x66; 20]), None);
        assert_eq!(
            decode(&[
                0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
                0x90
            ]),
            None
        );
    }
}
