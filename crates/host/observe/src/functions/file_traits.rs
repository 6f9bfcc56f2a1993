//! Traits of a program or library that decide how returns can be watched.

use object::{Architecture, Object, ObjectSection, ReadCache};
use std::fs::File;

/// Traits of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileTraits {
    /// Whether exceptions or panics may unwind its functions.
    pub(super) unwinds: bool,
    /// Whether it is x86-64 code, which can be decoded.
    pub(super) is_decodable: bool,
}

impl FileTraits {
    /// Reads the traits of an ELF file; the default if it cannot be read.
    pub(super) fn read(file: &File) -> Self {
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
            is_decodable: read.architecture() == Architecture::X86_64 && read.is_64(),
        }
    }
}

/// Returns whether a string table has the name of a function that unwinds the stack in C++, Rust or Ada. The C library has
/// others, for thread cancellation, but those stop at unknown addresses.
fn mentions_unwinding(names: &[u8]) -> bool {
    names
        .split(|&byte| byte == 0)
        .any(|name| UNWINDING.iter().any(|known| name.starts_with(known)))
}

/// Returns whether the symbol is entered without a call: then the top of the stack is no return address and must not be
/// replaced.
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

/// Returns whether the symbol is a part of a function that the compiler moved elsewhere.
pub(super) fn is_cold_part(name: &[u8]) -> bool {
    name.windows(5).any(|window| window == b".cold")
}

/// Returns whether a function saves its return address or searches it on the stack: a replaced address would crash the
/// program.
pub(super) fn needs_return_address(name: &[u8]) -> bool {
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

/// Name prefixes of functions that only code with unwinding uses.
const UNWINDING: [&[u8]; 6] = [
    b"__gxx_personality_",
    b"__cxa_throw",
    b"__cxa_begin_catch",
    b"rust_eh_personality",
    b"_Unwind_RaiseException",
    b"__gnat_personality",
];

/// The largest string table that is searched.
const NAMES_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbol_names_are_classified() {
        assert!(mentions_unwinding(b"\0puts\0__gxx_personality_v0\0"));
        assert!(!mentions_unwinding(b"\0puts\0x__gxx_personality_v0\0"));
        assert!(is_cold_part(b"f.cold") && is_cold_part(b"f.cold.3") && !is_cold_part(b"f.part.0"));
        assert!(is_not_called(b"_dl_runtime_resolve_xsavec") && !is_not_called(b"_dl_start"));
        assert!(needs_return_address(b"__sigsetjmp") && !needs_return_address(b"longjmp"));
    }
}
