//! Memory that the allocator keeps, for programs that run for weeks.
#![allow(unsafe_code)]

/// Lets the allocator give large blocks back as soon as they are freed. Without this, glibc raises the size from which on it asks the
/// kernel for a block of its own each time one is freed, to 32 MiB, and what a program once needed stays with it. Other C libraries do
/// nothing of the kind. Call it before threads are started.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    {
        for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: mallopt only sets a parameter of the allocator, to a number in the range that mallopt(3) gives for both.
            unsafe { libc::mallopt(parameter, LARGE_BYTES) };
        }
    }
}

/// Gives back what is free, also between blocks that are used: after work that is much larger than what follows. It takes milliseconds.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim(3) may be called at any time, from any thread.
        unsafe { libc::malloc_trim(0) };
    }
}

/// The size from which on a block is one of the kernel's.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("proc");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .expect("a line");
        let number = line.split_ascii_whitespace().nth(1).expect("a number");
        number.parse().expect("a number")
    }

    #[test]
    fn small_blocks_that_are_freed_go_back() {
        return_large_blocks();
        let before = resident_kib();
        let blocks: Vec<Box<[u8; 1024]>> = (0..65_536).map(|_| Box::new([1; 1024])).collect();
        let full = resident_kib();
        // One that stays keeps the end of the heap from being given back otherwise.
        let last = blocks.into_iter().last();
        return_free_memory();
        let after = resident_kib();
        assert!(full > before + 48_000, "{before} {full}");
        assert!(after < before + 24_000, "{before} {full} {after}");
        drop(last);
    }
}
