//! The first bytes of every connection, and of the first datagram, to a server.
//!
//! ```text
//! 0   magic    8   "sockeye\n"
//! 8   version  1
//! 9   role     1   0 control, 1 data; of UDP 2 first datagram, 3 welcome, 4 confirmation, 5 ready
//! 10  number   2   big-endian: which of a test's data connections
//! 12  token   16   of the test; of a control connection the client's nonce
//! 28  tag     12   of roles 1, 2, 4: proof that the test is the client's; of role 3: the server's nonce; else 0
//! ```

use super::Error;
use super::nonce::{Nonce, random};
use std::fmt;

/// The purpose of a connection, and the test that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preamble {
    /// Protocol version.
    pub(crate) version: u8,
    /// Purpose of the connection.
    pub(crate) role: Role,
    /// Number of the data connection within its test.
    pub(crate) number: u16,
    /// Token of the test; of a control connection the client's nonce.
    pub(crate) token: Token,
    /// Proof that the sender knows the key of the session, or the nonce of a welcome.
    pub(crate) tag: [u8; TAG_LEN],
}

impl Preamble {
    /// Returns the preamble of a control connection.
    pub(super) const fn control(nonce: Nonce) -> Self {
        Self {
            version: VERSION,
            role: Role::Control,
            number: 0,
            token: Token(nonce),
            tag: [0; TAG_LEN],
        }
    }

    /// Returns the server's answer to this first datagram: as long as that one.
    pub(super) const fn welcome(self, nonce: [u8; TAG_LEN]) -> Self {
        Self {
            role: Role::Welcome,
            tag: nonce,
            ..self
        }
    }

    /// Returns the server's answer to this confirmation, after which data may flow.
    pub(crate) const fn ready(self) -> Self {
        Self {
            role: Role::Ready,
            tag: [0; TAG_LEN],
            ..self
        }
    }

    /// Returns the bytes on the wire.
    pub(crate) fn emit(&self) -> [u8; PREAMBLE_LEN] {
        let mut bytes = [0; PREAMBLE_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = self.version;
        bytes[9] = self.role as u8;
        bytes[10..12].copy_from_slice(&self.number.to_be_bytes());
        bytes[12..28].copy_from_slice(&self.token.0);
        bytes[28..].copy_from_slice(&self.tag);
        bytes
    }

    /// Parses a preamble of any version; `None` if the bytes are none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PREAMBLE_LEN] = bytes.get(..PREAMBLE_LEN)?.try_into().ok()?;
        if !Self::is_prefix(bytes) {
            return None;
        }
        Some(Self {
            version: bytes[8],
            role: Role::from_number(bytes[9])?,
            number: u16::from_be_bytes([bytes[10], bytes[11]]),
            token: Token(bytes[12..28].try_into().ok()?),
            tag: bytes[28..].try_into().ok()?,
        })
    }

    /// Returns whether these can be the first bytes of a preamble.
    pub(crate) fn is_prefix(bytes: &[u8]) -> bool {
        let len = bytes.len().min(MAGIC.len());
        bytes[..len] == MAGIC[..len]
    }

    /// Checks that the other end has the same version.
    ///
    /// # Errors
    /// [`Error::Version`].
    pub(crate) fn check_version(&self) -> Result<(), Error> {
        if self.version == VERSION {
            Ok(())
        } else {
            Err(Error::Version {
                ours: VERSION,
                theirs: self.version,
            })
        }
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Frames of JSON.
    Control = 0,
    /// Measured data.
    Data = 1,
    /// First datagram of a UDP socket.
    Datagram = 2,
    /// The server's answer to the first datagram, with a nonce.
    Welcome = 3,
    /// The client's answer to the welcome: what it sends from is its own address.
    Confirm = 4,
    /// The server's answer to the confirmation.
    Ready = 5,
}

impl Role {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Control,
            1 => Self::Data,
            2 => Self::Datagram,
            3 => Self::Welcome,
            4 => Self::Confirm,
            5 => Self::Ready,
            _ => return None,
        })
    }
}

/// Random identifier that ties the connections of a test together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub [u8; 16]);

impl Token {
    /// Generates a token.
    ///
    /// # Errors
    /// If the kernel gives no random bytes.
    pub(crate) fn random() -> Result<Self, Error> {
        Ok(Self(random()?))
    }

    /// Parses 32 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The protocol version.
pub(crate) const VERSION: u8 = 2;
/// Length of a preamble, in bytes.
pub(crate) const PREAMBLE_LEN: usize = 40;
/// Length of its tag, in bytes.
pub(crate) const TAG_LEN: usize = 12;
/// A cookie of iperf3 contains no line feed.
const MAGIC: &[u8; 8] = b"sockeye\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_preamble_parses_back() {
        let token = Token::random().unwrap();
        let preamble = Preamble {
            version: VERSION,
            role: Role::Data,
            number: 513,
            token,
            tag: [7; TAG_LEN],
        };
        assert_eq!(Preamble::parse(&preamble.emit()), Some(preamble));
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        assert!(preamble.check_version().is_ok());
        let older = Preamble {
            version: 0,
            ..preamble
        };
        assert!(matches!(
            older.check_version(),
            Err(Error::Version { theirs: 0, .. })
        ));
    }

    #[test]
    fn invalid_preamble_is_none() {
        let good = Preamble::control([3; 16]).emit();
        for len in 0..PREAMBLE_LEN {
            assert_eq!(Preamble::parse(&good[..len]), None);
            assert!(Preamble::is_prefix(&good[..len]));
        }
        let mut role = good;
        role[9] = 77;
        assert_eq!(Preamble::parse(&role), None);
        assert!(!Preamble::is_prefix(b"sockeyes"));
        assert_eq!(Token::parse("+0000000000000000000000000000001"), None);
        assert_eq!(Token::parse(""), None);
    }
}
