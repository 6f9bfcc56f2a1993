//! Memory set, copied and moved: by the C library, and by loops of our own beside it.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;

/// Two stretches of memory of the same size, of pages that are all there, to set and to copy.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
    bytes: usize,
}

/// What is done with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// `memset`: one stretch is filled.
    Set,
    /// `memcpy`: one is copied to the other.
    Copy,
    /// `memmove`, between stretches that have nothing in common.
    Move,
    /// `memmove` to [`SHIFT`] bytes further up, within one stretch: it has to begin at the end.
    Shift,
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The C library that this program is linked with.
    Libc,
    /// One instruction of the processor: `rep stosb`, `rep movsb`.
    Rep,
    /// A loop over registers of 32 bytes.
    Avx2,
    /// A loop over registers of 64 bytes.
    Avx512,
    /// Stores that go past the caches (`movntdq`).
    NonTemporal,
}

impl Arena {
    /// One whose stretches are of up to so many bytes.
    ///
    /// # Errors
    /// `ENOMEM` where there is not as much memory.
    pub fn new(bytes_max: usize) -> Result<Self, Errno> {
        let stretch = bytes_max.max(BYTES_MIN).next_multiple_of(PAGE);
        let bytes = stretch
            .checked_mul(2)
            .and_then(|both| both.checked_add(PAGE))
            .ok_or(Errno::NOMEM)?;
        // SAFETY: a new private mapping at a place that the kernel chooses.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::FAULT)?;
        // Pages that were never written to are all the same one.
        // SAFETY: the mapping is that long, and nobody else has it.
        unsafe { std::ptr::write_bytes(start.as_ptr(), 0x5a, bytes) };
        Ok(Self { start, bytes })
    }

    /// The longest stretch that there is room for.
    #[must_use]
    pub const fn bytes_max(&self) -> usize {
        (self.bytes - PAGE) / 2
    }

    /// Does it so many times, with stretches of `bytes`.
    ///
    /// # Errors
    /// `EINVAL` for fewer than [`BYTES_MIN`] bytes, or more than there are; `ENOSYS` for what [`is_there`] denies.
    pub fn run(&mut self, deed: Deed, way: Way, bytes: usize, times: u64) -> Result<(), Errno> {
        if !(BYTES_MIN..=self.bytes_max()).contains(&bytes) {
            return Err(Errno::INVAL);
        }
        let act = act(deed, way).ok_or(Errno::NOSYS)?;
        let to = self.start.as_ptr();
        let from = if deed == Deed::Shift {
            to
        } else {
            to.wrapping_add(self.bytes_max() + PAGE)
        };
        let to = if deed == Deed::Shift {
            to.wrapping_add(SHIFT)
        } else {
            to
        };
        for turn in 0..times {
            let (to, from) = (black_box(to), black_box(from));
            // SAFETY: both stretches lie within the mapping (the second begins a page behind the first's longest, and
            // the shift is less than a page); they overlap for no deed but `Shift`; the processor knows the way.
            unsafe { act(to, from, bytes, turn as u8) };
        }
        black_box(self.start.as_ptr());
        Ok(())
    }

    /// What is in the stretch that was written to.
    #[must_use]
    pub fn written(&self, deed: Deed, bytes: usize) -> &[u8] {
        let offset = if deed == Deed::Shift { SHIFT } else { 0 };
        // SAFETY: it is within the mapping, all of which was written to, and nobody writes while it is borrowed.
        let all = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) };
        &all[offset..][..bytes.min(self.bytes_max())]
    }

    /// Fills what is copied from.
    pub fn fill(&mut self, deed: Deed, content: impl Fn(usize) -> u8) {
        let offset = if deed == Deed::Shift {
            0
        } else {
            self.bytes_max() + PAGE
        };
        // SAFETY: it is the whole mapping, which nobody else has as long as we are borrowed.
        let all = unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) };
        for (index, byte) in all[offset..].iter_mut().enumerate() {
            *byte = content(index);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

/// Whether this processor, and this program, can do it that way.
#[must_use]
pub fn is_there(deed: Deed, way: Way) -> bool {
    act(deed, way).is_some()
}

/// The C library that this program is linked with, and its version where it tells.
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

/// To, from, how many bytes, what to fill with.
///
/// To be called where `to` may be written and `from` be read for that many bytes, which are at least [`BYTES_MIN`]; where they
/// overlap, only with what [`act`] gives for `Shift`, `from` being the lower.
type Act = unsafe fn(*mut u8, *const u8, usize, u8);

/// Who does it, if this processor and this program can.
fn act(deed: Deed, way: Way) -> Option<Act> {
    match (deed, way) {
        (Deed::Set, Way::Libc) => Some(libc_set),
        (Deed::Copy, Way::Libc) => Some(libc_copy),
        (Deed::Move | Deed::Shift, Way::Libc) => Some(libc_move),
        (deed, way) => own::act(deed, way),
    }
}

/// # Safety
/// As of [`Act`].
unsafe fn libc_set(to: *mut u8, _: *const u8, bytes: usize, byte: u8) {
    // SAFETY: as the caller promises.
    unsafe { libc::memset(to.cast(), i32::from(byte), bytes) };
}

/// # Safety
/// As of [`Act`].
unsafe fn libc_copy(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
    // SAFETY: as the caller promises.
    unsafe { libc::memcpy(to.cast(), from.cast(), bytes) };
}

/// # Safety
/// As of [`Act`].
unsafe fn libc_move(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
    // SAFETY: as the caller promises.
    unsafe { libc::memmove(to.cast(), from.cast(), bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
mod own {
    use super::{Act, Deed, Way};

    pub(super) fn act(_: Deed, _: Way) -> Option<Act> {
        None
    }
}

/// In assembly: a compiler would make calls of the C library out of loops like these.
#[cfg(target_arch = "x86_64")]
mod own {
    use super::{Act, Deed, Way};
    use std::arch::{asm, is_x86_feature_detected};

    /// What lies apart is moved as it is copied: it would be the same loop. Backwards, neither `rep` nor stores past the
    /// caches have a speed that anybody would want.
    pub(super) fn act(deed: Deed, way: Way) -> Option<Act> {
        let (avx2, avx512) = (
            is_x86_feature_detected!("avx2"),
            is_x86_feature_detected!("avx512f"),
        );
        match (deed, way) {
            (Deed::Set, Way::Rep) => Some(rep_set),
            (Deed::Set, Way::NonTemporal) => Some(non_temporal_set),
            (Deed::Set, Way::Avx2) if avx2 => Some(avx2_set),
            (Deed::Set, Way::Avx512) if avx512 => Some(avx512_set),
            (Deed::Copy, Way::Rep) => Some(rep_copy),
            (Deed::Copy, Way::NonTemporal) => Some(non_temporal_copy),
            (Deed::Copy, Way::Avx2) if avx2 => Some(avx2_copy),
            (Deed::Copy, Way::Avx512) if avx512 => Some(avx512_copy),
            (Deed::Shift, Way::Avx2) if avx2 => Some(avx2_shift),
            (Deed::Shift, Way::Avx512) if avx512 => Some(avx512_shift),
            _ => None,
        }
    }

    /// # Safety
    /// As of [`Act`].
    unsafe fn rep_set(to: *mut u8, _: *const u8, bytes: usize, byte: u8) {
        // SAFETY: it writes `bytes` from `to` on; the direction flag is clear, as everywhere.
        unsafe {
            asm!("rep stosb", inout("rdi") to => _, inout("rcx") bytes => _, in("al") byte,
                 options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As of [`Act`].
    unsafe fn rep_copy(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
        // SAFETY: it reads and writes `bytes`; the direction flag is clear, as everywhere.
        unsafe {
            asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
                 options(nostack, preserves_flags));
        }
    }

    /// A loop that takes four registers a turn, then one, and at last the end, which may have been written in part.
    macro_rules! set {
        ($name:ident, $width:literal, $feature:literal, $prepare:literal, $store:literal, $plain:literal, $register:literal, $finish:literal) => {
            /// # Safety
            /// As of [`Act`], and the processor knows the registers.
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

    /// As `set`, with a source.
    macro_rules! copy {
        ($name:ident, $width:literal, $feature:literal, $load:literal, $store:literal, $plain:literal, $register:literal, $finish:literal) => {
            /// # Safety
            /// As of [`Act`], and the processor knows the registers.
            #[target_feature(enable = $feature)]
            unsafe fn $name(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
                // SAFETY: it reads and writes `bytes`, which are at least one register's, and leaves neither stretch.
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

    /// From the end to the beginning, for a target that begins above the source and within it. The beginning is read
    /// first, and written last.
    macro_rules! shift {
        ($name:ident, $width:literal, $feature:literal, $load:literal, $register:literal) => {
            /// # Safety
            /// As of [`Act`], and the processor knows the registers.
            #[target_feature(enable = $feature)]
            unsafe fn $name(to: *mut u8, from: *const u8, bytes: usize, _: u8) {
                // SAFETY: it reads and writes `bytes`, which are at least one register's, and leaves neither stretch.
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

/// The shortest stretch: a register of AVX-512.
pub const BYTES_MIN: usize = 64;
/// How far [`Deed::Shift`] moves.
pub const SHIFT: usize = 64;
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const DEEDS: [Deed; 4] = [Deed::Set, Deed::Copy, Deed::Move, Deed::Shift];
    const WAYS: [Way; 5] = [Way::Libc, Way::Rep, Way::Avx2, Way::Avx512, Way::NonTemporal];

    /// Also around the widths of registers, and nothing beside the stretch is touched.
    #[test]
    fn every_way_does_what_it_should() {
        let mut arena = Arena::new(8192).unwrap();
        for deed in DEEDS {
            for way in WAYS.into_iter().filter(|&way| is_there(deed, way)) {
                for bytes in [
                    64, 65, 79, 80, 127, 128, 129, 255, 256, 257, 511, 1000, 4097, 8192,
                ] {
                    let content = |index: usize| (index * 7 + index / 251) as u8;
                    arena.fill(deed, content);
                    let behind = arena.written(deed, 8192)[bytes.min(8191)];
                    arena.run(deed, way, bytes, 1).unwrap();
                    let expected: Vec<u8> = match deed {
                        Deed::Set => vec![0; bytes],
                        _ => (0..bytes).map(content).collect(),
                    };
                    assert_eq!(arena.written(deed, bytes), expected, "{deed:?} {way:?} {bytes}");
                    if bytes < 8192 {
                        assert_eq!(
                            arena.written(deed, 8192)[bytes],
                            behind,
                            "{deed:?} {way:?} {bytes}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut arena = Arena::new(4096).unwrap();
        assert_eq!(arena.run(Deed::Set, Way::Libc, 63, 1), Err(Errno::INVAL));
        assert_eq!(
            arena.run(Deed::Set, Way::Libc, arena.bytes_max() + 1, 1),
            Err(Errno::INVAL)
        );
        assert_eq!(arena.run(Deed::Move, Way::Rep, 64, 1), Err(Errno::NOSYS));
        assert!(Arena::new(usize::MAX - 5000).is_err());
        assert!(!libc_name().is_empty());
    }
}
