//! What must be known of a program or library before its returns are watched.

use object::{Architecture, Object, ObjectSection, ReadCache};
use std::fs::File;

/// What a file is like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Nature {
    /// Exceptions or panics may go through its functions.
    pub(super) unwinds: bool,
    /// It is code of x86-64, which we can read.
    pub(super) is_readable: bool,
}

impl Nature {
    pub(super) fn of(file: &File) -> Self {
        let cache = ReadCache::new(file);
        let Ok(read) = object::File::parse(&cache) else {
            return Self::default();
        };
        let names = [".dynstr", ".strtab"].map(|name| {
            let section = read.section_by_name(name)?;
            let (_, bytes) = section.file_range()?;
            (bytes <= NAMES_BYTES_MAX).then(|| section.data().ok()).flatten()
        });
        Self {
            unwinds: names.into_iter().flatten().any(mentions_unwinding),
            is_readable: read.architecture() == Architecture::X86_64 && read.is_64(),
        }
    }
}

/// Whether a table of names has that of a function that C++, Rust or another language needs to leave functions early. The
/// C library has others of the kind, for threads that are cancelled, but those stop at what they do not know.
fn mentions_unwinding(names: &[u8]) -> bool {
    names
        .split(|&byte| byte == 0)
        .any(|name| UNWINDING.iter().any(|known| name.starts_with(known)))
}

/// Where code begins that nobody calls: what lies on the stack there is no return address, and must not be replaced.
pub(super) fn is_not_called(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [
        b"_start",
        b"__start",
        b"_dl_start_user",
        b"__restore_rt",
        b"__restore",
        b"__start_context",
        b"_rt0_amd64_linux",
    ];
    const BEGINNINGS: [&[u8]; 2] = [b"_dl_runtime_resolve", b"_dl_runtime_profile"];
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// A part of a function that compilers put elsewhere: it is no function.
pub(super) fn is_part(name: &[u8]) -> bool {
    name.windows(5).any(|window| window == b".cold")
}

/// Functions that keep the address they return to, or look for it on the stack: with another in its place they would
/// end the program.
pub(super) fn keeps_its_return(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 15] = [
        b"setjmp",
        b"_setjmp",
        b"__setjmp",
        b"sigsetjmp",
        b"__sigsetjmp",
        b"getcontext",
        b"__getcontext",
        b"swapcontext",
        b"__swapcontext",
        b"setcontext",
        b"vfork",
        b"__vfork",
        b"__libc_vfork",
        b"backtrace",
        b"__backtrace",
    ];
    const BEGINNINGS: [&[u8]; 3] = [b"_Unwind_", b"__cxa_throw", b"__cxa_rethrow"];
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Beginnings of the names of functions that only code has that may be left by an exception or a panic.
const UNWINDING: [&[u8]; 6] = [
    b"__gxx_personality_",
    b"__cxa_throw",
    b"__cxa_begin_catch",
    b"rust_eh_personality",
    b"_Unwind_RaiseException",
    b"__gnat_personality",
];

/// Bigger tables of names are not looked through.
const NAMES_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwinding() {
        assert!(mentions_unwinding(b"\0puts\0__gxx_personality_v0\0"));
        assert!(!mentions_unwinding(b"\0puts\0x__gxx_personality_v0\0"));
        assert!(is_part(b"f.cold") && is_part(b"f.cold.3") && !is_part(b"f.part.0"));
        assert!(is_not_called(b"_dl_runtime_resolve_xsavec") && !is_not_called(b"_dl_start"));
        assert!(keeps_its_return(b"__sigsetjmp") && !keeps_its_return(b"longjmp"));
    }
}
