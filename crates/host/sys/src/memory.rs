//! Setting, copying and moving memory, for benchmarks: with the C library and with hand-written loops.
#![allow(unsafe_code)]

use crate::mapping::Mapping;
use rustix::io::Errno;
use std::hint::black_box;

/// Two buffers of the same size with all pages present, to set and to copy.
#[derive(Debug)]
pub struct BufferPair(Mapping);

/// A memory operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryOp {
    /// `memset` of one buffer.
    Set,
    /// `memcpy` from one buffer to the other.
    Copy,
    /// `memmove` between buffers that do not overlap.
    Move,
    /// `memmove` to an address [`SHIFT`] bytes higher in the same buffer, which must copy backwards.
    Shift,
}

/// An implementation of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// The C library that this program is linked with.
    Libc,
    /// One processor instruction: `rep stosb`, `rep movsb`.
    Rep,
    /// A loop over registers of 32 bytes.
    Avx2,
    /// A loop over registers of 64 bytes.
    Avx512,
    /// Stores that bypass the caches (`movntdq`).
    NonTemporal,
}

impl BufferPair {
    /// Allocates two buffers of at least `bytes_max` bytes.
    ///
    /// # Errors
    /// `ENOMEM` if there is not enough memory.
    pub fn new(bytes_max: usize) -> Result<Self, Errno> {
        let buffer = bytes_max.max(BYTES_MIN).next_multiple_of(PAGE);
        let bytes = buffer
            .checked_mul(2)
            .and_then(|both| both.checked_add(PAGE))
            .ok_or(Errno::NOMEM)?;
        let mapping = Mapping::anonymous(bytes)?;
        // Pages that were never written to all map to the zero page.
        // SAFETY: the mapping is that long, and nothing else refers to it.
        unsafe { std::ptr::write_bytes(mapping.start(), 0x5a, bytes) };
        Ok(Self(mapping))
    }

    /// Returns the size of each buffer in bytes.
    #[must_use]
    pub const fn bytes_max(&self) -> usize {
        (self.0.bytes() - PAGE) / 2
    }

    /// Runs the operation `times` times on `bytes` bytes.
    ///
    /// # Errors
    /// `EINVAL` for fewer than [`BYTES_MIN`] bytes, or more than [`Self::bytes_max`]; `ENOSYS` if not [`is_supported`].
    pub fn run(&mut self, op: MemoryOp, method: Method, bytes: usize, times: u64) -> Result<(), Errno> {
        if !(BYTES_MIN..=self.bytes_max()).contains(&bytes) {
            return Err(Errno::INVAL);
        }
        let run = implementation(op, method).ok_or(Errno::NOSYS)?;
        let to = self.0.start();
        let (to, from) = match op {
            MemoryOp::Shift => (to.wrapping_add(SHIFT), to),
            _ => (to, to.wrapping_add(self.bytes_max() + PAGE)),
        };
        for round in 0..times {
            let (to, from) = (black_box(to), black_box(from));
            // SAFETY: both buffers are within the mapping (the second begins a page behind the first one's end, and the
            // shift is less than a page); they overlap for no operation but `Shift`; the processor supports the method.
            unsafe { run(to, from, bytes, round as u8) };
        }
        black_box(self.0.start());
        Ok(())
    }
}

/// Whether this processor and this build support the operation with this method.
#[must_use]
pub fn is_supported(op: MemoryOp, method: Method) -> bool {
    implementation(op, method).is_some()
}

/// Returns the name of the C library that this program is linked with, and its version if it is glibc.
#[must_use]
pub fn libc_name() -> String {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it has no conditions.
        let version = unsafe { libc::gnu_get_libc_version() };
        // SAFETY: it is a constant of the library, with a NUL at its end.
        let version = unsafe { std::ffi::CStr::from_ptr(version) };
        format!("glibc {}", version.to_string_lossy())
    }
    #[cfg(target_env = "musl")]
    {
        "musl".to_owned()
    }
    #[cfg(not(any(all(target_os = "linux", target_env = "gnu"), target_env = "musl")))]
    {
        "the C library".to_owned()
    }
}

/// An implementation: target, source, number of bytes, fill byte.
///
/// The target must be writable and the source readable for that many bytes, at least [`BYTES_MIN`]. They may overlap
/// only for the implementation that [`implementation`] returns for `Shift`, and the source must then be the lower one.
type Implementation = unsafe fn(*mut u8, *const u8, usize, u8);

/// Returns the implementation, or `None` if this processor or this build does not support it.
fn implementation(op: MemoryOp, method: Method) -> Option<Implementation> {
    match (op, method) {
        (MemoryOp::Set, Method::Libc) => Some(libc_set),
        (MemoryOp::Copy, Method::Libc) => Some(libc_copy),
        (MemoryOp::Move | MemoryOp::Shift, Method::Libc) => Some(libc_move),
        (op, method) => own::implementation(op, method),
    }
}

/// # Safety
/// As for [`Implementation`].
unsafe fn libc_set(to: *mut u8, _: *const u8, bytes: usize, byte: u8) {
    // SAFETY: as the caller promises.
    unsafe { libc::memset(to.cast(), i32::from(byte), bytes) };
}

/// # Safety
/// As for [`Implementation`].
unsafe fn libc_copy(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
    // SAFETY: as the caller promises.
    unsafe { libc::memcpy(to.cast(), from.cast(), bytes) };
}

/// # Safety
/// As for [`Implementation`].
unsafe fn libc_move(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
    // SAFETY: as the caller promises.
    unsafe { libc::memmove(to.cast(), from.cast(), bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
mod own {
    use super::{Implementation, MemoryOp, Method};

    pub(super) fn implementation(_: MemoryOp, _: Method) -> Option<Implementation> {
        None
    }
}

/// Written in assembly, because a compiler would turn loops like these into calls of the C library.
#[cfg(target_arch = "x86_64")]
mod own {
    use super::{Implementation, MemoryOp, Method};
    use std::arch::{asm, is_x86_feature_detected};

    /// `Move` has no implementation here: without overlap it is the loop of `Copy`. `Shift` has none with `rep` or
    /// non-temporal stores, which are far too slow backwards.
    pub(super) fn implementation(op: MemoryOp, method: Method) -> Option<Implementation> {
        let (avx2, avx512) = (
            is_x86_feature_detected!("avx2"),
            is_x86_feature_detected!("avx512f"),
        );
        match (op, method) {
            (MemoryOp::Set, Method::Rep) => Some(rep_set),
            (MemoryOp::Set, Method::NonTemporal) => Some(non_temporal_set),
            (MemoryOp::Set, Method::Avx2) if avx2 => Some(avx2_set),
            (MemoryOp::Set, Method::Avx512) if avx512 => Some(avx512_set),
            (MemoryOp::Copy, Method::Rep) => Some(rep_copy),
            (MemoryOp::Copy, Method::NonTemporal) => Some(non_temporal_copy),
            (MemoryOp::Copy, Method::Avx2) if avx2 => Some(avx2_copy),
            (MemoryOp::Copy, Method::Avx512) if avx512 => Some(avx512_copy),
            (MemoryOp::Shift, Method::Avx2) if avx2 => Some(avx2_shift),
            (MemoryOp::Shift, Method::Avx512) if avx512 => Some(avx512_shift),
            _ => None,
        }
    }

    /// # Safety
    /// As for [`Implementation`].
    unsafe fn rep_set(to: *mut u8, _: *const u8, bytes: usize, byte: u8) {
        // SAFETY: it writes `bytes` bytes from `to`; the direction flag is clear, as everywhere.
        unsafe {
            asm!("rep stosb", inout("rdi") to => _, inout("rcx") bytes => _, in("al") byte,
                 options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As for [`Implementation`].
    unsafe fn rep_copy(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
        // SAFETY: it reads and writes `bytes`; the direction flag is clear, as everywhere.
        unsafe {
            asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
                 options(nostack, preserves_flags));
        }
    }

    /// Defines a loop that stores four registers per iteration, then single ones, and at last one that ends with the
    /// buffer and may overlap bytes already written.
    macro_rules! set {
        ($name:ident, $width:literal, $feature:literal, $prepare:literal, $store:literal, $plain:literal, $register:literal, $finish:literal) => {
            /// # Safety
            /// As for [`Implementation`], and the processor must have the registers.
            #[target_feature(enable = $feature)]
            unsafe fn $name(to: *mut u8, _: *const u8, bytes: usize, byte: u8) {
                let word = u64::from(byte) * 0x0101_0101_0101_0101;
                // SAFETY: it writes between `to` and `to + bytes`, which are at least one register apart.
                unsafe {
                    asm!(
                        "movq xmm0, rax",
                        $prepare,
                        "lea rcx, [rdi + rdx]",
                        "2:",
                        concat!("cmp rdx, 4 * ", $width),
                        "jb 3f",
                        concat!($store, " [rdi], ", $register, "0"),
                        concat!($store, " [rdi + ", $width, "], ", $register, "0"),
                        concat!($store, " [rdi + 2 * ", $width, "], ", $register, "0"),
                        concat!($store, " [rdi + 3 * ", $width, "], ", $register, "0"),
                        concat!("add rdi, 4 * ", $width),
                        concat!("sub rdx, 4 * ", $width),
                        "jmp 2b",
                        "3:",
                        concat!("cmp rdx, ", $width),
                        "jb 4f",
                        concat!($store, " [rdi], ", $register, "0"),
                        concat!("add rdi, ", $width),
                        concat!("sub rdx, ", $width),
                        "jmp 3b",
                        "4:",
                        "test rdx, rdx",
                        "jz 5f",
                        concat!($plain, " [rcx - ", $width, "], ", $register, "0"),
                        "5:",
                        $finish,
                        in("rax") word, inout("rdi") to => _, inout("rdx") bytes => _,
                        clobber_abi("sysv64"), options(nostack)
                    );
                }
            }
        };
    }

    /// Defines a copying loop, otherwise as `set`.
    macro_rules! copy {
        ($name:ident, $width:literal, $feature:literal, $load:literal, $store:literal, $plain:literal, $register:literal, $finish:literal) => {
            /// # Safety
            /// As for [`Implementation`], and the processor must have the registers.
            #[target_feature(enable = $feature)]
            unsafe fn $name(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
                // SAFETY: it reads and writes `bytes`, which are at least one register's, and stays within both
                // buffers.
                unsafe {
                    asm!(
                        concat!($load, " ", $register, "4, [rsi + rdx - ", $width, "]"),
                        "lea rcx, [rdi + rdx]",
                        "2:",
                        concat!("cmp rdx, 4 * ", $width),
                        "jb 3f",
                        concat!($load, " ", $register, "0, [rsi]"),
                        concat!($load, " ", $register, "1, [rsi + ", $width, "]"),
                        concat!($load, " ", $register, "2, [rsi + 2 * ", $width, "]"),
                        concat!($load, " ", $register, "3, [rsi + 3 * ", $width, "]"),
                        concat!($store, " [rdi], ", $register, "0"),
                        concat!($store, " [rdi + ", $width, "], ", $register, "1"),
                        concat!($store, " [rdi + 2 * ", $width, "], ", $register, "2"),
                        concat!($store, " [rdi + 3 * ", $width, "], ", $register, "3"),
                        concat!("add rdi, 4 * ", $width),
                        concat!("add rsi, 4 * ", $width),
                        concat!("sub rdx, 4 * ", $width),
                        "jmp 2b",
                        "3:",
                        concat!("cmp rdx, ", $width),
                        "jb 4f",
                        concat!($load, " ", $register, "0, [rsi]"),
                        concat!($store, " [rdi], ", $register, "0"),
                        concat!("add rdi, ", $width),
                        concat!("add rsi, ", $width),
                        concat!("sub rdx, ", $width),
                        "jmp 3b",
                        "4:",
                        "test rdx, rdx",
                        "jz 5f",
                        concat!($plain, " [rcx - ", $width, "], ", $register, "4"),
                        "5:",
                        $finish,
                        inout("rdi") to => _, inout("rsi") from => _, inout("rdx") bytes => _,
                        clobber_abi("sysv64"), options(nostack)
                    );
                }
            }
        };
    }

    /// Defines a copying loop from the end to the beginning, for a target that begins inside the source. The beginning
    /// is read first and written last.
    macro_rules! shift {
        ($name:ident, $width:literal, $feature:literal, $load:literal, $register:literal) => {
            /// # Safety
            /// As for [`Implementation`], and the processor must have the registers.
            #[target_feature(enable = $feature)]
            unsafe fn $name(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
                // SAFETY: it reads and writes `bytes`, which are at least one register's, and stays within both
                // buffers.
                unsafe {
                    asm!(
                        concat!($load, " ", $register, "4, [rsi]"),
                        "2:",
                        concat!("cmp rdx, 4 * ", $width),
                        "jb 3f",
                        concat!($load, " ", $register, "0, [rsi + rdx - ", $width, "]"),
                        concat!($load, " ", $register, "1, [rsi + rdx - 2 * ", $width, "]"),
                        concat!($load, " ", $register, "2, [rsi + rdx - 3 * ", $width, "]"),
                        concat!($load, " ", $register, "3, [rsi + rdx - 4 * ", $width, "]"),
                        concat!($load, " [rdi + rdx - ", $width, "], ", $register, "0"),
                        concat!($load, " [rdi + rdx - 2 * ", $width, "], ", $register, "1"),
                        concat!($load, " [rdi + rdx - 3 * ", $width, "], ", $register, "2"),
                        concat!($load, " [rdi + rdx - 4 * ", $width, "], ", $register, "3"),
                        concat!("sub rdx, 4 * ", $width),
                        "jmp 2b",
                        "3:",
                        concat!("cmp rdx, ", $width),
                        "jb 4f",
                        concat!($load, " ", $register, "0, [rsi + rdx - ", $width, "]"),
                        concat!($load, " [rdi + rdx - ", $width, "], ", $register, "0"),
                        concat!("sub rdx, ", $width),
                        "jmp 3b",
                        "4:",
                        concat!($load, " [rdi], ", $register, "4"),
                        "vzeroupper",
                        in("rdi") to, in("rsi") from, inout("rdx") bytes => _,
                        clobber_abi("sysv64"), options(nostack)
                    );
                }
            }
        };
    }

    set!(
        avx2_set,
        "32",
        "avx2",
        "vpbroadcastq ymm0, xmm0",
        "vmovdqu",
        "vmovdqu",
        "ymm",
        "vzeroupper"
    );
    set!(
        avx512_set,
        "64",
        "avx512f",
        "vpbroadcastq zmm0, xmm0",
        "vmovdqu64",
        "vmovdqu64",
        "zmm",
        "vzeroupper"
    );
    set!(
        non_temporal_set,
        "16",
        "sse2",
        "punpcklqdq xmm0, xmm0",
        "movntdq",
        "movdqu",
        "xmm",
        "sfence"
    );
    copy!(
        avx2_copy,
        "32",
        "avx2",
        "vmovdqu",
        "vmovdqu",
        "vmovdqu",
        "ymm",
        "vzeroupper"
    );
    copy!(
        avx512_copy,
        "64",
        "avx512f",
        "vmovdqu64",
        "vmovdqu64",
        "vmovdqu64",
        "zmm",
        "vzeroupper"
    );
    copy!(
        non_temporal_copy,
        "16",
        "sse2",
        "movdqu",
        "movntdq",
        "movdqu",
        "xmm",
        "sfence"
    );
    shift!(avx2_shift, "32", "avx2", "vmovdqu", "ymm");
    shift!(avx512_shift, "64", "avx512f", "vmovdqu64", "zmm");
}

/// Smallest size in bytes: one AVX-512 register.
pub const BYTES_MIN: usize = 64;
/// Distance in bytes between source and target of [`MemoryOp::Shift`].
pub const SHIFT: usize = 64;
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    impl BufferPair {
        /// The target of the operation, its first `bytes` bytes.
        fn written(&self, op: MemoryOp, bytes: usize) -> &[u8] {
            let offset = if op == MemoryOp::Shift { SHIFT } else { 0 };
            // SAFETY: it is within the mapping, all of which is initialised, and nothing writes while it is borrowed.
            let all = unsafe { std::slice::from_raw_parts(self.0.start(), self.0.bytes()) };
            &all[offset..][..bytes.min(self.bytes_max())]
        }

        /// Fills the source of the operation.
        fn fill(&mut self, op: MemoryOp, content: impl Fn(usize) -> u8) {
            let offset = if op == MemoryOp::Shift {
                0
            } else {
                self.bytes_max() + PAGE
            };
            // SAFETY: it is the whole mapping, which nothing else refers to while `self` is borrowed mutably.
            let all = unsafe { std::slice::from_raw_parts_mut(self.0.start(), self.0.bytes()) };
            for (index, byte) in all[offset..].iter_mut().enumerate() {
                *byte = content(index);
            }
        }
    }

    const OPS: [MemoryOp; 4] = [MemoryOp::Set, MemoryOp::Copy, MemoryOp::Move, MemoryOp::Shift];
    const METHODS: [Method; 5] = [
        Method::Libc,
        Method::Rep,
        Method::Avx2,
        Method::Avx512,
        Method::NonTemporal,
    ];

    /// Covers sizes around the register widths, and checks that the byte after the target is unchanged.
    #[test]
    fn every_method_gives_the_same_result() {
        let mut buffers = BufferPair::new(8192).unwrap();
        for op in OPS {
            for method in METHODS.into_iter().filter(|&method| is_supported(op, method)) {
                for bytes in [
                    64, 65, 79, 80, 127, 128, 129, 255, 256, 257, 511, 1000, 4097, 8192,
                ] {
                    let content = |index: usize| (index * 7 + index / 251) as u8;
                    buffers.fill(op, content);
                    let behind = buffers.written(op, 8192)[bytes.min(8191)];
                    buffers.run(op, method, bytes, 1).unwrap();
                    let expected: Vec<u8> = match op {
                        MemoryOp::Set => vec![0; bytes],
                        _ => (0..bytes).map(content).collect(),
                    };
                    assert_eq!(buffers.written(op, bytes), expected, "{op:?} {method:?} {bytes}");
                    if bytes < 8192 {
                        assert_eq!(
                            buffers.written(op, 8192)[bytes],
                            behind,
                            "{op:?} {method:?} {bytes}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn bad_size_or_method_is_refused() {
        let mut buffers = BufferPair::new(4096).unwrap();
        assert_eq!(buffers.run(MemoryOp::Set, Method::Libc, 63, 1), Err(Errno::INVAL));
        assert_eq!(
            buffers.run(MemoryOp::Set, Method::Libc, buffers.bytes_max() + 1, 1),
            Err(Errno::INVAL)
        );
        assert_eq!(buffers.run(MemoryOp::Move, Method::Rep, 64, 1), Err(Errno::NOSYS));
        assert!(BufferPair::new(usize::MAX - 5000).is_err());
        assert!(!libc_name().is_empty());
    }
}
