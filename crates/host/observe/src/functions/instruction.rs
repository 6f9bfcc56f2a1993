//! How long instructions of x86-64 are, and which of them lead elsewhere.
//!
//! The crate `iced-x86` decodes, with its feature `decoder` alone. A wrong length would put a breakpoint within an instruction,
//! so it was chosen by what it makes of code. GNU objdump 2.40 and these were compared at each instruction of the C library of
//! Debian 12, of the `go` command 1.26 and of libx265, 5.1 million in all:
//!
//! | decoder | another length | refused | time for one | adds to a binary | compiles in |
//! |---|---|---|---|---|---|
//! | `iced-x86` 1.22 | 0 | 0 | 84 ns | 130 kB | 3.5 s |
//! | `yaxpeax-x86` 2.2 | 0 | 17,375: AVX-512 masks (`kmovd`) and shifts (`vpsrldq`), XOP | 49 ns | 165 kB | 13.7 s |
//! | one of our own, until then | 0 | 767: XOP, `lret` | 37 ns | 3 kB | - |
//!
//! A function with a refused instruction is watched in part only, and every function is decoded once: completeness counts, not
//! nanoseconds. `iced-x86` adds two packages, itself and `lazy_static`.

use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, OpKind};

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
    /// The same, but on a condition: `je`, `loop`.
    Branch(i32),
    /// `jmp` to an address in a register or in memory. One relative to `%rip` is another kind: it is that of the linker, to
    /// another function.
    Indirect,
    Other,
}

/// Reads one; `None`: it is cut off, not one of the 64-bit mode, or one by which no function of a program is left (`iret`).
pub(super) fn decode(code: &[u8]) -> Option<Instruction> {
    let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return None;
    }
    let bytes = instruction.len();
    let distance = || {
        let target = instruction.near_branch64().cast_signed();
        i32::try_from(target - i64::try_from(bytes).ok()?).ok()
    };
    let kind = match instruction.code() {
        Code::Retnq | Code::Retnq_imm16 => Kind::Return,
        Code::Jmp_rel8_64 | Code::Jmp_rel32_64 => Kind::Jump(distance()?),
        Code::Call_rel32_64 => Kind::Other,
        Code::Jmp_rm64 if instruction.is_ip_rel_memory_operand() => Kind::Other,
        Code::Jmp_rm64 => Kind::Indirect,
        _ if instruction.op0_kind() == OpKind::NearBranch64 => Kind::Branch(distance()?),
        _ => match instruction.mnemonic() {
            // To other segments and rights, or with 16 bits.
            Mnemonic::Ret | Mnemonic::Retf | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => {
                return None;
            }
            Mnemonic::Jmp | Mnemonic::Sysret | Mnemonic::Sysretq | Mnemonic::Sysexit | Mnemonic::Sysexitq => {
                return None;
            }
            _ => Kind::Other,
        },
    };
    Some(Instruction { bytes, kind })
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
        check(&[0x66, 0x0f, 0x1a, 0x44, 0x24, 0x10], Kind::Other); // bndmov, of MPX
        check(&[0x8f, 0xe9, 0x78, 0xd2, 0xc0], Kind::Other); // vphadduwq, of XOP
        check(&[0xc5, 0xfb, 0x92, 0xc8], Kind::Other); // kmovd %eax,%k1
        check(&[0xe8, 1, 0, 0, 0], Kind::Other); // call
    }

    #[test]
    fn jumps_and_returns_are_distinguished() {
        check(&[0xc3], Kind::Return);
        check(&[0xf2, 0xc3], Kind::Return);
        check(&[0xc2, 8, 0], Kind::Return);
        check(&[0xeb, 0xfe], Kind::Jump(-2));
        check(&[0xe9, 0, 1, 0, 0], Kind::Jump(256));
        check(&[0x0f, 0x84, 1, 0, 0, 0], Kind::Branch(1)); // je
        check(&[0x74, 0xfe], Kind::Branch(-2));
        check(&[0xe2, 0xfe], Kind::Branch(-2)); // loop
        check(&[0xff, 0xe0], Kind::Indirect); // jmp *%rax
        check(&[0x3e, 0x41, 0xff, 0xe0], Kind::Indirect); // notrack jmp *%r8
        check(&[0xff, 0x25, 0, 0, 0, 0], Kind::Other); // jmp *0(%rip)
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
    fn instructions_that_the_kernel_misreads_are_refused() {
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
    fn invalid_instructions_are_none() {
        assert_eq!(decode(&[0x06]), None); // push %es: not in the 64-bit mode
        assert_eq!(decode(&[0xcb]), None); // lret
        assert_eq!(decode(&[0x48, 0xcf]), None); // iretq
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
