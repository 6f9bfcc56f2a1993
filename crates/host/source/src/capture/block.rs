//! Packets of a capture with their bytes, so that they can be decoded on another thread than the one that reads.

use super::{Capture, Error, Packet};
use sockeye_wire::packet::{LinkType, Record, Step};

/// Consecutive packets of a capture, and their bytes. It may be filled again.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    packets: Vec<PacketEntry>,
}

/// A packet; offsets are in the bytes of the block.
#[derive(Debug)]
struct PacketEntry {
    frame: u64,
    time_ns: u64,
    link_type: LinkType,
    interface: u32,
    original_len: u32,
    captured: (u32, u32),
    options: (u32, u32),
    is_big_endian: bool,
}

impl Block {
    /// Returns its packets in order.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.packets.iter().map(|entry| Packet {
            frame: entry.frame,
            time_ns: entry.time_ns,
            link_type: entry.link_type,
            interface: entry.interface,
            captured: self.bytes_of(entry.captured),
            original_len: entry.original_len,
            options: self.bytes_of(entry.options),
            is_big_endian: entry.is_big_endian,
        })
    }

    /// Returns the number of packets.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether it has no packets.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    #[inline]
    fn bytes_of(&self, (begin, end): (u32, u32)) -> &[u8] {
        self.bytes.get(begin as usize..end as usize).unwrap_or_default()
    }
}

impl Capture {
    /// Fills a block with the packets that are in the buffer, or that the next read yields. An empty block is the end, as
    /// `None` of [`Self::next`].
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_block(&mut self, block: &mut Block) -> Result<(), Error> {
        block.packets.clear();
        if let Some(error) = self.error_after.take() {
            return Err(error);
        }
        let left = std::mem::take(&mut self.skip_later);
        if left > 0 {
            self.pass(left)?;
        }
        while let Some(reader) = self.reader.as_mut().filter(|_| !self.is_over) {
            match reader.step(&self.buffer[self.begin..self.end]) {
                Ok(Step::Packet(record)) => self.add(block, &record),
                Ok(Step::Skip(len)) => {
                    if !self.skip(len, block.is_empty())? {
                        break;
                    }
                }
                Ok(Step::NotAPacket(len)) => {
                    self.frame += 1;
                    if !self.skip(len, block.is_empty())? {
                        break;
                    }
                }
                // The bytes of the packets until here stay where they are.
                Ok(Step::Needs(_)) if !block.is_empty() => break,
                Ok(Step::Needs(missing)) => {
                    if !self.fill()? {
                        self.is_over = true;
                        self.cut = (missing.got > 0).then_some(missing);
                    }
                }
                Err(error) => {
                    self.is_over = true;
                    let error = Error::Format(self.name.clone(), error);
                    if block.is_empty() {
                        return Err(error);
                    }
                    self.error_after = Some(error);
                }
            }
        }
        if !block.is_empty() {
            self.give_buffer(block);
        }
        Ok(())
    }

    fn add(&mut self, block: &mut Block, record: &Record) {
        self.frame += 1;
        self.packets += 1;
        let at = |offset: usize| (self.begin + offset) as u32;
        block.packets.push(PacketEntry {
            frame: self.frame,
            time_ns: record.time_ns,
            link_type: record.link_type,
            interface: record.interface,
            original_len: record.original_len,
            captured: (at(record.captured.start), at(record.captured.end)),
            options: (at(record.options.start), at(record.options.end)),
            is_big_endian: record.is_big_endian,
        });
        self.begin += record.used;
    }

    /// Skips bytes; `false` if the buffer is needed for that, which has packets: they are skipped by the next call.
    fn skip(&mut self, len: u64, is_free: bool) -> Result<bool, Error> {
        if is_free || len <= (self.end - self.begin) as u64 {
            self.pass(len)?;
            return Ok(true);
        }
        self.skip_later = len;
        Ok(false)
    }

    /// Exchanges the buffer for that of the block, and moves what is not used yet.
    fn give_buffer(&mut self, block: &mut Block) {
        let mut buffer = std::mem::take(&mut block.bytes);
        buffer.resize(self.buffer.len(), 0);
        let rest = &self.buffer[self.begin..self.end];
        buffer[..rest.len()].copy_from_slice(rest);
        (self.begin, self.end) = (0, rest.len());
        block.bytes = std::mem::replace(&mut self.buffer, buffer);
    }
}
