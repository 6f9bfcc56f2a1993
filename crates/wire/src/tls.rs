//! The name of the server that a client asks for at the beginning of TLS: Server Name Indication, RFC 6066.
//!
//! ```
//! use sockeye_wire::tls::server_name;
//!
//! assert_eq!(server_name(b"GET / HTTP/1.1\r\n"), None);
//! ```
//!
//! What it deliberately does not do: put a message together from several records or segments. A name is near the beginning.

use crate::bytes::{be_u16, byte};

/// Returns the name in a ClientHello, which begins with the header of its record; `None` if it is none, has no name, or the name is cut or no
/// name of a host.
///
/// ```text
/// record:    u8 22; u16 version; u16 length
/// handshake: u8 1; u24 length; u16 version; u8 random[32]; u8 length, session; u16 length, ciphers; u8 length, compressions;
///            u16 length, extensions
/// extension: u16 kind; u16 length; data. Of kind 0: u16 length of the list; u8 0; u16 length; name
/// ```
#[must_use]
pub fn server_name(payload: &[u8]) -> Option<&str> {
    if byte(payload, 0)? != HANDSHAKE || byte(payload, RECORD)? != CLIENT_HELLO {
        return None;
    }
    let session = RECORD + 4 + 2 + 32;
    let ciphers = session + 1 + usize::from(byte(payload, session)?);
    let compressions = ciphers + 2 + usize::from(be_u16(payload, ciphers)?);
    let extensions = compressions + 1 + usize::from(byte(payload, compressions)?);
    let end = extensions + 2 + usize::from(be_u16(payload, extensions)?);
    let mut at = extensions + 2;
    while at < end {
        let (kind, length) = (be_u16(payload, at)?, usize::from(be_u16(payload, at + 2)?));
        if kind == SERVER_NAME {
            return name(payload.get(at + 4..at + 4 + length)?);
        }
        at += 4 + length;
    }
    None
}

/// Returns the first name of a list.
fn name(list: &[u8]) -> Option<&str> {
    if byte(list, 2)? != HOST_NAME {
        return None;
    }
    let name = list.get(5..5 + usize::from(be_u16(list, 3)?))?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let is_name = !name.is_empty() && name.len() <= NAME_MAX && name.iter().all(is_plain);
    core::str::from_utf8(name).ok().filter(|_| is_name)
}

/// Bytes of the header of a record.
const RECORD: usize = 5;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const NAME_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A ClientHello with an extension before that of the name.
    fn hello(name: &[u8]) -> Vec<u8> {
        let length = name.len() as u8;
        let mut extensions = vec![0, 23, 0, 0, 0, 0, 0, length + 5, 0, length + 3, 0, 0, length];
        extensions.extend(name);
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([2, 9, 9, 0, 4, 0x13, 1, 0x13, 2, 1, 0, 0, extensions.len() as u8]);
        body.extend(&extensions);
        let mut bytes = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
        bytes.extend(&body);
        bytes
    }

    #[test]
    fn name_is_found_behind_other_extensions() {
        assert_eq!(server_name(&hello(b"www.example.com")), Some("www.example.com"));
    }

    #[test]
    fn other_records_and_names_of_no_host_are_none() {
        for name in [&b""[..], b"a b", b"\x1b[2J", b"caf\xc3\xa9"] {
            assert_eq!(server_name(&hello(name)), None, "{name:?}");
        }
        for (at, byte) in [(0, 23), (5, 2)] {
            let mut bytes = hello(b"a.example");
            bytes[at] = byte;
            assert_eq!(server_name(&bytes), None);
        }
    }

    #[test]
    fn cut_message_has_no_name() {
        let bytes = hello(b"a.example");
        for length in 0..bytes.len() {
            assert_eq!(server_name(&bytes[..length]), None, "{length}");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] = 0xff;
            let _ = server_name(&bytes);
        }
    }
}
