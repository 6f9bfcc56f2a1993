//! Functions of ours that do nothing but being called: what watching calls costs is measured on them.
#![allow(unsafe_code)]

/// One of them. On x86-64 they differ in how they begin: the kernel carries out a `push` itself at a uprobe; nearly every
/// other instruction it has the processor run elsewhere, by a single step, which takes several times as long (in a virtual
/// machine ten times).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they differ as their names do")]
pub enum Called {
    PushOne,
    PushOther,
    StepOne,
    StepOther,
    StepThird,
}

impl Called {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::PushOne,
        Self::PushOther,
        Self::StepOne,
        Self::StepOther,
        Self::StepThird,
    ];

    /// Calls it.
    #[must_use]
    pub fn call(self, number: u64) -> u64 {
        // SAFETY: each takes a number in the first register, gives one back in the result's, and changes nothing else.
        unsafe { self.function()(number) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(self) -> u64 {
        self.function() as usize as u64
    }

    /// Of those that begin with a step: how far behind that is the instruction by which it ends.
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

/// Elsewhere they are all alike, but for what keeps a compiler from making one of them.
#[cfg(not(target_arch = "x86_64"))]
mod functions {
    macro_rules! called {
        ($($name:ident $number:literal)*) => {
            $(#[inline(never)]
            pub(super) unsafe extern "C" fn $name(number: u64) -> u64 {
                std::hint::black_box(number).wrapping_add($number)
            })*
        };
    }
    called! {
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
    fn they_count_on() {
        for one in Called::ALL {
            assert!(one.call(41) > 41, "{one:?}");
            assert_ne!(one.address(), 0);
        }
    }
}
