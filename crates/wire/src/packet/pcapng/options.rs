//! Options: the fields after the fixed part of a block.

use super::{Direction, option};
use crate::packet::order::Order;

/// An iterator over the options of a block. Ends at the first broken one.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
    order: Order,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Code of the option; its meaning depends on the block's type, except for 1, a comment
    pub code: u16,
    /// Its bytes, without padding
    pub value: &'a [u8],
}

impl<'a> Options<'a> {
    /// Iterates over a packet's options, the bytes of [`Record::options`](crate::packet::Record::options).
    #[must_use]
    pub const fn new(bytes: &'a [u8], is_big_endian: bool) -> Self {
        let order = if is_big_endian { Order::Big } else { Order::Little };
        Self { rest: bytes, order }
    }

    pub(super) const fn with_order(bytes: &'a [u8], order: Order) -> Self {
        Self { rest: bytes, order }
    }

    /// Returns the first comment (`opt_comment`); `None` without one, or if it is not UTF-8, as the format requires.
    #[must_use]
    pub fn comment(&self) -> Option<&'a str> {
        core::str::from_utf8(self.value_of(option::COMMENT)?).ok()
    }

    /// Returns a packet's direction (`epb_flags`).
    #[must_use]
    pub fn direction(&self) -> Option<Direction> {
        match self.order.u32(self.value_of(option::PACKET_FLAGS)?, 0)? & 3 {
            1 => Some(Direction::Inbound),
            2 => Some(Direction::Outbound),
            _ => None,
        }
    }

    /// Returns the number of packets lost between the previous packet and this one (`epb_dropcount`).
    #[must_use]
    pub fn dropped(&self) -> Option<u64> {
        self.number(option::PACKET_DROPS)
    }

    pub(super) fn value_of(&self, code: u16) -> Option<&'a [u8]> {
        self.clone()
            .find(|entry| entry.code == code)
            .map(|entry| entry.value)
    }

    pub(super) fn number(&self, code: u16) -> Option<u64> {
        self.order.u64(self.value_of(code)?, 0)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let code = self.order.u16(self.rest, 0)?;
        let len = usize::from(self.order.u16(self.rest, 2)?);
        let value = self.rest.get(4..4 + len).filter(|_| code != option::END);
        // The last one may lack its padding.
        self.rest = self.rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        if value.is_none() {
            self.rest = &[];
        }
        Some(Entry { code, value: value? })
    }
}
