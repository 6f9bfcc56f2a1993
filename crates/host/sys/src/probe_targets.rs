//! Trivial functions to attach probes to: the cost of a probe is measured on them.
#![allow(unsafe_code)]

/// A function to probe. On x86-64 they differ in their first instruction: the kernel emulates a `push` at a uprobe;
/// nearly every other instruction is single-stepped out of line, which takes several times as long (in a virtual
/// machine ten times).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ProbeTarget {
    PushOne,
    PushOther,
    StepOne,
    StepOther,
    StepThird,
}

impl ProbeTarget {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::PushOne,
        Self::PushOther,
        Self::StepOne,
        Self::StepOther,
        Self::StepThird,
    ];

    /// Calls the function; the result is larger than `number`.
    #[must_use]
    pub fn call(self, number: u64) -> u64 {
        // SAFETY: each takes a number in the first argument register, returns one, and changes nothing else.
        unsafe { self.function()(number) }
    }

    /// Returns the function's address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.function() as usize as u64
    }

    /// Returns the offset in bytes of the return instruction, for the `Step` variants; 0 if unknown.
    #[must_use]
    pub const fn exit(self) -> u64 {
        if cfg!(target_arch = "x86_64") { 4 } else { 0 }
    }

    fn function(self) -> unsafe extern "C" fn(u64) -> u64 {
        match self {
            Self::PushOne => functions::sockeye_push_one,
            Self::PushOther => functions::sockeye_push_other,
            Self::StepOne => functions::sockeye_step_one,
            Self::StepOther => functions::sockeye_step_other,
            Self::StepThird => functions::sockeye_step_third,
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod functions {
    core::arch::global_asm!(
        ".text",
        ".globl sockeye_push_one",
        ".hidden sockeye_push_one",
        ".p2align 4",
        "sockeye_push_one:",
        "push rbp",
        "pop rbp",
        "lea rax, [rdi + 1]",
        "ret",
        ".globl sockeye_push_other",
        ".hidden sockeye_push_other",
        ".p2align 4",
        "sockeye_push_other:",
        "push rbp",
        "pop rbp",
        "lea rax, [rdi + 1]",
        "ret",
        ".globl sockeye_step_one",
        ".hidden sockeye_step_one",
        ".p2align 4",
        "sockeye_step_one:",
        "lea rax, [rdi + 1]",
        "ret",
        ".globl sockeye_step_other",
        ".hidden sockeye_step_other",
        ".p2align 4",
        "sockeye_step_other:",
        "lea rax, [rdi + 1]",
        "ret",
        ".globl sockeye_step_third",
        ".hidden sockeye_step_third",
        ".p2align 4",
        "sockeye_step_third:",
        "lea rax, [rdi + 1]",
        "ret",
    );

    unsafe extern "C" {
        pub(super) fn sockeye_push_one(number: u64) -> u64;
        pub(super) fn sockeye_push_other(number: u64) -> u64;
        pub(super) fn sockeye_step_one(number: u64) -> u64;
        pub(super) fn sockeye_step_other(number: u64) -> u64;
        pub(super) fn sockeye_step_third(number: u64) -> u64;
    }
}

/// On other architectures they differ only in a constant, which keeps the compiler from merging them.
#[cfg(not(target_arch = "x86_64"))]
mod functions {
    macro_rules! probe_targets {
        ($($name:ident $number:literal)*) => {
            $(#[inline(never)]
            pub(super) unsafe extern "C" fn $name(number: u64) -> u64 {
                std::hint::black_box(number).wrapping_add($number)
            })*
        };
    }
    probe_targets! {
        sockeye_push_one 1
        sockeye_push_other 2
        sockeye_step_one 3
        sockeye_step_other 4
        sockeye_step_third 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_return_a_larger_number() {
        for target in ProbeTarget::ALL {
            assert!(target.call(41) > 41, "{target:?}");
            assert_ne!(target.address(), 0);
        }
    }
}
