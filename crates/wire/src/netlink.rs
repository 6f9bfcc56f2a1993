//! The netlink envelope: messages, attributes, errors, and requests.
//!
//! ```text
//! struct nlmsghdr { u32 len; u16 type; u16 flags; u32 seq; u32 pid; }   len counts the header
//! struct nlattr   { u16 len; u16 type; }                                len counts the header
//! Written here although `neli` (seventeen packages more) and `netlink-packet-sock-diag` (five) exist. Both make an owned value of
//! each message and its attributes, while a dump of 100,000 sockets is read here without an allocation, as views of one buffer.
//!
//! ```
//! Both are padded to four bytes (`NLMSG_ALIGN`, `NLA_ALIGN`); the padding is not counted, and the
//! last one of a buffer may lack it. Source: `include/uapi/linux/netlink.h`.

use crate::bytes::{ne_i32, ne_u16, ne_u32};
use crate::{Error, Layer};
use alloc::vec::Vec;

/// An iterator over the messages of a received buffer.
///
/// Ends after the first broken envelope, because the next message cannot be found.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    buffer: &'a [u8],
    offset: usize,
}

/// A message whose payload is not parsed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`
    pub kind: u16,
    /// `nlmsg_flags`
    pub flags: u16,
    /// `nlmsg_seq`: the sequence number of the request that it answers
    pub sequence: u32,
    /// `nlmsg_pid`: the destination port (0 is the kernel)
    pub port: u32,
    /// The bytes after the header, without padding.
    pub payload: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Iterates over a buffer that `recv` filled.
    #[must_use]
    pub const fn new(buffer: &'a [u8]) -> Self {
        Self { buffer, offset: 0 }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.buffer.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let broken = |needed| Error {
            layer: Layer::NetlinkHeader,
            offset: self.offset,
            needed,
            got: rest.len(),
        };
        let Some(header) = rest.first_chunk::<HEADER_LEN>() else {
            let error = broken(HEADER_LEN);
            self.offset = self.buffer.len();
            return Some(Err(error));
        };
        let len = ne_u32(header, 0).unwrap_or_default() as usize;
        let Some(payload) = rest.get(HEADER_LEN..len) else {
            let error = broken(len.max(HEADER_LEN));
            self.offset = self.buffer.len();
            return Some(Err(error));
        };
        self.offset += align(len);
        Some(Ok(Message {
            kind: ne_u16(header, 4).unwrap_or_default(),
            flags: ne_u16(header, 6).unwrap_or_default(),
            sequence: ne_u32(header, 8).unwrap_or_default(),
            port: ne_u32(header, 12).unwrap_or_default(),
            payload,
        }))
    }
}

impl<'a> Message<'a> {
    /// Whether the dumped data changed during the dump (`NLM_F_DUMP_INTR`).
    #[must_use]
    pub const fn interrupted(&self) -> bool {
        self.flags & NLM_F_DUMP_INTR != 0
    }

    /// Parses the outcome in an `NLMSG_ERROR` (a code of 0 is an acknowledgement) or an `NLMSG_DONE`.
    ///
    /// # Errors
    /// If the payload is too short for a code.
    pub fn outcome(&self) -> Result<Outcome<'a>, Error> {
        let short = |needed| Error {
            layer: Layer::NetlinkError,
            offset: 0,
            needed,
            got: self.payload.len(),
        };
        if self.kind == NLMSG_DONE {
            // Kernels before 4.x may end a dump without a code.
            let code = ne_i32(self.payload, 0).unwrap_or(0);
            return Ok(Outcome {
                code,
                message: extended_ack(self.payload.get(4..)),
            });
        }
        let code = ne_i32(self.payload, 0).ok_or_else(|| short(4))?;
        // struct nlmsgerr { int error; struct nlmsghdr msg; }, then the request's payload unless
        // capped, then the extended acknowledgement's attributes.
        let request_len = ne_u32(self.payload, 4).ok_or_else(|| short(4 + HEADER_LEN))? as usize;
        let echoed = if self.flags & NLM_F_CAPPED != 0 {
            HEADER_LEN
        } else {
            align(request_len)
        };
        let attributes = if self.flags & NLM_F_ACK_TLVS != 0 {
            self.payload.get(4 + echoed..)
        } else {
            None
        };
        Ok(Outcome {
            code,
            message: extended_ack(attributes),
        })
    }
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// 0, or a negative errno.
    pub code: i32,
    /// The kernel's message (extended acknowledgement), if it sent one.
    pub message: Option<&'a str>,
}

fn extended_ack(attributes: Option<&[u8]>) -> Option<&str> {
    let text = Attributes::new(attributes?)
        .flatten()
        .find(|a| a.kind == NLMSGERR_ATTR_MSG)?
        .payload;
    core::str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()
}

/// An iterator over the attributes after a message's fixed part.
///
/// Like [`Messages`], it ends after the first broken one.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    buffer: &'a [u8],
    offset: usize,
}

/// One attribute: a type and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// `nla_type` without the `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER` flags.
    pub kind: u16,
    /// The bytes after its header, without padding.
    pub payload: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Iterates over the bytes after a message's fixed part.
    #[must_use]
    pub const fn new(buffer: &'a [u8]) -> Self {
        Self { buffer, offset: 0 }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.buffer.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let broken = |needed| Error {
            layer: Layer::Attribute,
            offset: self.offset,
            needed,
            got: rest.len(),
        };
        let Some(header) = rest.first_chunk::<ATTRIBUTE_HEADER_LEN>() else {
            let error = broken(ATTRIBUTE_HEADER_LEN);
            self.offset = self.buffer.len();
            return Some(Err(error));
        };
        let len = usize::from(ne_u16(header, 0).unwrap_or_default());
        let kind = ne_u16(header, 2).unwrap_or_default() & NLA_TYPE_MASK;
        let Some(payload) = rest.get(ATTRIBUTE_HEADER_LEN..len) else {
            let error = broken(len.max(ATTRIBUTE_HEADER_LEN));
            self.offset = self.buffer.len();
            return Some(Err(error));
        };
        self.offset += align(len);
        Some(Ok(Attribute { kind, payload }))
    }
}

impl Attribute<'_> {
    /// The payload as a `u8`; `None` if it is shorter.
    #[must_use]
    pub fn u8(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    /// The payload as a `u16` in the kernel's order; `None` if it is shorter.
    #[must_use]
    pub fn u16(&self) -> Option<u16> {
        crate::bytes::ne_u16(self.payload, 0)
    }

    /// The payload as a `u32` in the kernel's order; `None` if it is shorter.
    #[must_use]
    pub fn u32(&self) -> Option<u32> {
        ne_u32(self.payload, 0)
    }

    /// The payload as a `u64` in the kernel's order; `None` if it is shorter.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        crate::bytes::ne_u64(self.payload, 0)
    }
}

/// A request builder: header, fixed part, attributes.
#[derive(Debug, Clone)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Starts a dump request (`NLM_F_REQUEST | NLM_F_DUMP`).
    #[must_use]
    pub fn dump(kind: u16, sequence: u32) -> Self {
        Self::with_flags(kind, NLM_F_REQUEST | NLM_F_DUMP, sequence)
    }

    /// Starts a request for one object (`NLM_F_REQUEST`).
    #[must_use]
    pub fn one(kind: u16, sequence: u32) -> Self {
        Self::with_flags(kind, NLM_F_REQUEST, sequence)
    }

    /// Starts a request for a change, with an acknowledgement (`NLM_F_REQUEST | NLM_F_ACK`).
    #[must_use]
    pub fn act(kind: u16, sequence: u32) -> Self {
        Self::with_flags(kind, NLM_F_REQUEST | NLM_F_ACK, sequence)
    }

    /// Starts a request to create an object (`NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL`).
    #[must_use]
    pub fn make(kind: u16, sequence: u32) -> Self {
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        Self::with_flags(kind, flags, sequence)
    }

    fn with_flags(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&0_u32.to_ne_bytes()); // the length, known in finish()
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&0_u32.to_ne_bytes()); // to the kernel
        Self { bytes }
    }

    /// Appends the family's fixed part, padded to the alignment of attributes.
    #[must_use]
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.bytes.extend_from_slice(payload);
        self.pad();
        self
    }

    /// Appends an attribute. `None` if it is too long for the 16-bit length of an attribute.
    #[must_use]
    pub fn attribute(mut self, kind: u16, payload: &[u8]) -> Option<Self> {
        let len = u16::try_from(payload.len() + ATTRIBUTE_HEADER_LEN).ok()?;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(payload);
        self.pad();
        Some(self)
    }

    /// The bytes to send.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let len = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes
    }

    fn pad(&mut self) {
        self.bytes.resize(align(self.bytes.len()), 0);
    }
}

const fn align(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// `NLMSG_ERROR`: a request failed, or was acknowledged
pub const NLMSG_ERROR: u16 = 2;
/// `NLMSG_DONE`: a dump is complete
pub const NLMSG_DONE: u16 = 3;
const HEADER_LEN: usize = 16;
const ATTRIBUTE_HEADER_LEN: usize = 4;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_ACK: u16 = 0x04;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&u32::try_from(16 + payload.len()).unwrap().to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&7_u32.to_ne_bytes());
        bytes.extend_from_slice(&9_u32.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn padding_between_messages_is_skipped() {
        let mut buffer = message(20, 2, &[1, 2, 3, 4, 5]);
        buffer.resize(24, 0xee);
        buffer.extend(message(21, 0, &[]));
        let found: Vec<_> = Messages::new(&buffer).map(Result::unwrap).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].payload, [1, 2, 3, 4, 5]);
        assert_eq!((found[1].kind, found[1].sequence, found[1].port), (21, 7, 9));
    }

    #[test]
    fn last_message_may_lack_its_padding() {
        let buffer = message(20, 0, &[1]);
        let mut messages = Messages::new(&buffer);
        assert_eq!(messages.next().unwrap().unwrap().payload, [1]);
        assert_eq!(messages.next(), None);
    }

    #[test]
    fn broken_envelope_ends_iteration_with_its_offset() {
        let mut buffer = message(20, 0, &[]);
        buffer.extend([9, 9, 9]);
        let mut messages = Messages::new(&buffer);
        assert!(messages.next().unwrap().is_ok());
        let error = messages.next().unwrap().unwrap_err();
        assert_eq!(
            error,
            Error {
                layer: Layer::NetlinkHeader,
                offset: 16,
                needed: 16,
                got: 3
            }
        );
        assert_eq!(messages.next(), None);
    }

    #[test]
    fn lengths_below_the_header_or_beyond_the_buffer_are_errors() {
        for len in [0_u32, 15, 17, u32::MAX] {
            let mut buffer = message(20, 0, &[]);
            buffer[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(Messages::new(&buffer).next().unwrap().is_err(), "length {len}");
        }
    }

    #[test]
    fn zero_length_attribute_and_flags_in_the_type() {
        let mut buffer = vec![];
        buffer.extend_from_slice(&4_u16.to_ne_bytes());
        buffer.extend_from_slice(&(0x8000_u16 | 8).to_ne_bytes());
        buffer.extend_from_slice(&5_u16.to_ne_bytes());
        buffer.extend_from_slice(&3_u16.to_ne_bytes());
        buffer.push(0xaa); // last attribute, no padding
        let found: Vec<_> = Attributes::new(&buffer).map(Result::unwrap).collect();
        assert_eq!(
            found[0],
            Attribute {
                kind: 8,
                payload: &[]
            }
        );
        assert_eq!(found[0].u32(), None);
        assert_eq!(found[1].u8(), Some(0xaa));
    }

    #[test]
    fn error_keeps_the_kernels_message() {
        let mut payload = (-22_i32).to_ne_bytes().to_vec();
        payload.extend(message(20, 0, &[]));
        payload.extend_from_slice(&9_u16.to_ne_bytes());
        payload.extend_from_slice(&1_u16.to_ne_bytes());
        payload.extend_from_slice(b"nope\0");
        let buffer = message(NLMSG_ERROR, NLM_F_ACK_TLVS | NLM_F_CAPPED, &payload);
        let outcome = Messages::new(&buffer).next().unwrap().unwrap().outcome().unwrap();
        assert_eq!(
            outcome,
            Outcome {
                code: -22,
                message: Some("nope")
            }
        );
    }

    #[test]
    fn request_is_parsed_back() {
        let bytes = Request::dump(20, 3)
            .payload(&[1, 2, 3])
            .attribute(1, b"abcde")
            .unwrap()
            .finish();
        let found = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!((found.kind, found.flags, found.sequence), (20, 0x301, 3));
        assert_eq!(found.payload[..4], [1, 2, 3, 0]);
        let attribute = Attributes::new(&found.payload[4..]).next().unwrap().unwrap();
        assert_eq!(
            attribute,
            Attribute {
                kind: 1,
                payload: b"abcde"
            }
        );
    }
}
