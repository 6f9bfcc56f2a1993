//! `RowBinary`, the format of rows that ClickHouse takes and returns: values one after the other, without names. Numbers are
//! little-endian, a text is its length in LEB128 and its bytes, an address is 16 bytes in network order.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Writes rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowWriter(Vec<u8>);

/// Reads rows.
#[derive(Debug, Clone)]
pub struct RowReader<'a> {
    rest: &'a [u8],
}

/// Bytes that are no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowError {
    /// What was read.
    pub what: &'static str,
    /// Bytes that were left.
    pub left: usize,
}

impl RowWriter {
    /// Writes `UInt8`, or the number of an `Enum8` below 128.
    pub fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    /// Writes `UInt16`.
    pub fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes `UInt32` or `DateTime`.
    pub fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes `UInt64`; and `DateTime64(3)`, which is signed, of times since 1970.
    pub fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes `String` or `LowCardinality(String)`.
    pub fn text(&mut self, text: &[u8]) {
        let mut len = text.len();
        while len >= 0x80 {
            self.0.push(len as u8 | 0x80);
            len >>= 7;
        }
        self.0.push(len as u8);
        self.0.extend_from_slice(text);
    }

    /// Writes `IPv6`; an address of IPv4 is mapped.
    pub fn ip(&mut self, ip: IpAddr) {
        let ip = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        self.0.extend_from_slice(&ip.octets());
    }

    /// Returns what was written.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

impl<'a> RowReader<'a> {
    /// Begins to read.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `UInt8`.
    ///
    /// # Errors
    /// If the bytes end; so do all that follow.
    pub fn u8(&mut self) -> Result<u8, RowError> {
        let [byte] = self.array("UInt8")?;
        Ok(byte)
    }

    /// Reads `UInt16`.
    ///
    /// # Errors
    /// If the bytes end.
    pub fn u16(&mut self) -> Result<u16, RowError> {
        self.array("UInt16").map(u16::from_le_bytes)
    }

    /// Reads `UInt32` or `DateTime`.
    ///
    /// # Errors
    /// If the bytes end.
    pub fn u32(&mut self) -> Result<u32, RowError> {
        self.array("UInt32").map(u32::from_le_bytes)
    }

    /// Reads `UInt64`.
    ///
    /// # Errors
    /// If the bytes end.
    pub fn u64(&mut self) -> Result<u64, RowError> {
        self.array("UInt64").map(u64::from_le_bytes)
    }

    /// Reads `Int64`.
    ///
    /// # Errors
    /// If the bytes end.
    pub fn i64(&mut self) -> Result<i64, RowError> {
        self.array("Int64").map(i64::from_le_bytes)
    }

    /// Reads `String`. What is not UTF-8 is replaced.
    ///
    /// # Errors
    /// If the bytes end, or the length is none.
    pub fn text(&mut self) -> Result<String, RowError> {
        let (mut len, mut shift) = (0_usize, 0);
        loop {
            let [byte] = self.array("the length of a String")?;
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err(self.error("the length of a String"));
            }
        }
        let bytes = self.take(len, "String")?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads `IPv6`; a mapped address is returned as IPv4.
    ///
    /// # Errors
    /// If the bytes end.
    pub fn ip(&mut self) -> Result<IpAddr, RowError> {
        let octets: [u8; 16] = self.array("IPv6")?;
        Ok(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], RowError> {
        let error = self.error(what);
        self.take(N, what)?.try_into().map_err(|_| error)
    }

    fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], RowError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.error(what))?;
        self.rest = rest;
        Ok(taken)
    }

    const fn error(&self, what: &'static str) -> RowError {
        RowError {
            what,
            left: self.rest.len(),
        }
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the answer is damaged: {} with {} bytes left",
            self.what, self.left
        )
    }
}

impl std::error::Error for RowError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bytes_in_the_order_of_clickhouse() {
        let mut row = RowWriter::default();
        row.u8(7);
        row.u16(443);
        row.u32(1_795_000_200);
        row.u64(1);
        row.text(b"web1");
        row.ip([10, 0, 0, 1].into());
        row.ip(Ipv6Addr::LOCALHOST.into());
        let expected = b"\x07\xbb\x01\x88\x87\xfd\x6a\x01\0\0\0\0\0\0\0\x04web1\
            \0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
        assert_eq!(row.finish(), expected);
    }

    #[test]
    fn long_text_has_its_length_in_seven_bits_a_byte() {
        let mut row = RowWriter::default();
        row.text(&[b'x'; 300]);
        let bytes = row.finish();
        assert_eq!(bytes[..2], [0xac, 0x02]);
        assert_eq!(RowReader::new(&bytes).text().unwrap().len(), 300);
    }

    #[test]
    fn rows_are_read_back() {
        let mut row = RowWriter::default();
        row.text("é".as_bytes());
        row.ip([192, 0, 2, 1].into());
        row.u64(u64::MAX);
        let bytes = row.finish();
        let mut reader = RowReader::new(&bytes);
        assert_eq!(reader.text().unwrap(), "é");
        assert_eq!(reader.ip().unwrap(), IpAddr::from([192, 0, 2, 1]));
        assert_eq!(reader.i64(), Ok(-1));
        assert!(reader.is_empty());
        assert_eq!(
            reader.u16(),
            Err(RowError {
                what: "UInt16",
                left: 0
            })
        );
    }

    #[test]
    fn damaged_length_is_an_error() {
        assert!(RowReader::new(&[0xff; 9]).text().is_err());
        assert!(RowReader::new(&[0x05, b'a']).text().is_err());
    }
}
