//! A BPF ring buffer (`BPF_MAP_TYPE_RINGBUF`, Linux 5.8): records that programs write, in the order in which they reserved them, from all
//! processors.
//!
//! The kernel never overwrites a record that was not read: a program that finds no space gets none, and has to count that.
#![allow(unsafe_code)]

use super::Table;
use crate::mapping::Mapping;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The reader of a ring buffer. Its descriptor becomes readable when a program wakes it.
#[derive(Debug)]
pub struct Ring {
    table: Table,
    /// A page with our position.
    consumer: Mapping,
    /// A page with the kernel's position, and the ring twice, so that no record is in two pieces.
    producer: Mapping,
    page_bytes: usize,
    /// Size of the ring: a power of two.
    bytes: usize,
}

impl Ring {
    /// Maps a ring buffer.
    ///
    /// # Errors
    /// `EINVAL` for a map of another type, else the errno of `mmap(2)`.
    pub fn open(table: Table) -> Result<Self, Errno> {
        let bytes = table.ring_bytes().ok_or(Errno::INVAL)?;
        let page_bytes = crate::page_bytes();
        let twice = bytes
            .checked_mul(2)
            .and_then(|twice| twice.checked_add(page_bytes));
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let consumer = Mapping::of_file(&table, 0, page_bytes, both, MapFlags::SHARED)?;
        let producer = Mapping::of_file(
            &table,
            page_bytes as u64,
            twice.ok_or(Errno::NOMEM)?,
            ProtFlags::READ,
            MapFlags::SHARED,
        )?;
        Ok(Self {
            table,
            consumer,
            producer,
            page_bytes,
            bytes,
        })
    }

    /// Passes each finished record to `take`, and frees its space. Stops at a record that a program is still writing, and after
    /// `most` records. Returns the number of records.
    pub fn read(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        // Only this function writes it.
        let mut position = self.position(&self.consumer).load(Ordering::Relaxed);
        let mut freed = position;
        // Acquire: the headers before the kernel's position are visible once the position is.
        let mut end = self.position(&self.producer).load(Ordering::Acquire);
        while taken < most {
            if position == end {
                end = self.position(&self.producer).load(Ordering::Acquire);
                if position == end {
                    break;
                }
            }
            let at = (position % self.bytes as u64) as usize;
            // Acquire: the content is visible once the record is not busy.
            let header = self.header(at).load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let len = ((header & !(BUSY | DISCARDED)) as usize).min(self.bytes - HEADER_BYTES);
            if header & DISCARDED == 0 {
                take(self.record(at + HEADER_BYTES, len));
                taken += 1;
            }
            position += (HEADER_BYTES + len).next_multiple_of(8) as u64;
            // The programs read our position for each record: a write to it takes its cache line from their processors.
            if position - freed >= (self.bytes / 64) as u64 {
                self.free_until(position);
                freed = position;
            }
        }
        if position != freed {
            self.free_until(position);
        }
        taken
    }

    /// Whether no program has reserved a record since the last one that was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Sequentially consistent: what the caller has written before, for programs to see, comes first.
        std::sync::atomic::fence(Ordering::SeqCst);
        let read = self.position(&self.consumer).load(Ordering::Relaxed);
        read == self.position(&self.producer).load(Ordering::SeqCst)
    }

    /// Gives the space of the records before this position back to the programs.
    fn free_until(&self, position: u64) {
        // Release: our reads come before the kernel's next writes there.
        self.position(&self.consumer).store(position, Ordering::Release);
    }

    /// Returns the size of the ring in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the position at the beginning of a mapping.
    fn position<'a>(&self, mapping: &'a Mapping) -> &'a AtomicU64 {
        // SAFETY: a mapping is aligned to a page, is longer than eight bytes and lives as long as the reference; the kernel
        // reads and writes this word as a whole.
        unsafe { AtomicU64::from_ptr(mapping.start().cast()) }
    }

    /// Returns the first word of the header of the record at this offset in the ring.
    fn header(&self, at: usize) -> &AtomicU32 {
        assert!(at < self.bytes && at.is_multiple_of(8));
        // SAFETY: the ring begins after the first page, and the offset is within it, as the line above checks.
        let header = unsafe { self.producer.start().add(self.page_bytes + at) };
        // SAFETY: it is aligned, since records are multiples of eight bytes, and lives as long as the mapping; the kernel writes
        // it as a whole. The mapping is read-only, and nothing but `load` is called.
        unsafe { AtomicU32::from_ptr(header.cast()) }
    }

    fn record(&self, at: usize, len: usize) -> &[u8] {
        assert!(at <= self.bytes && len <= self.bytes);
        // SAFETY: the ring is mapped twice after the first page, and both numbers are at most its size: see above.
        let start = unsafe { self.producer.start().add(self.page_bytes + at) };
        // SAFETY: it is within the mapping; the kernel does not write to a finished record before our position is behind it.
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }
}

/// `BPF_RINGBUF_BUSY_BIT`
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`
const DISCARDED: u32 = 1 << 30;
/// `BPF_RINGBUF_HDR_SZ`
const HEADER_BYTES: usize = 8;
