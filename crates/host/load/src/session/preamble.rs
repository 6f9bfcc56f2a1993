//! The first bytes of whatever reaches a server.
//!
//! ```text
//! 0   magic    8   "sockeye\n"
//! 8   version  1
//! 9   role     1   0 control, 1 data, 2 UDP's first datagram, 3 the answer to that
//! 10  lane     2   big-endian: which of a test's data connections
//! 12  token   16   of the test; 0 of a control connection
//! 28  zeros   12
//! ```

use super::Trouble;
use std::fmt;

/// Who it is, and what the connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preamble {
    /// What it speaks
    pub version: u8,
    /// What it is for
    pub role: Role,
    /// Which of several of the same test
    pub lane: u16,
    /// Whose
    pub token: Token,
}

impl Preamble {
    /// One of a control connection.
    #[must_use]
    pub const fn control() -> Self {
        Self {
            version: VERSION,
            role: Role::Control,
            lane: 0,
            token: Token([0; 16]),
        }
    }

    /// One of a connection that carries data.
    #[must_use]
    pub const fn data(token: Token, lane: u16) -> Self {
        Self {
            version: VERSION,
            role: Role::Data,
            lane,
            token,
        }
    }

    /// The answer to a first datagram.
    #[must_use]
    pub const fn welcome(self) -> Self {
        Self {
            role: Role::Welcome,
            ..self
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; PREAMBLE_LEN] {
        let mut bytes = [0; PREAMBLE_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = self.version;
        bytes[9] = self.role as u8;
        bytes[10..12].copy_from_slice(&self.lane.to_be_bytes());
        bytes[12..28].copy_from_slice(&self.token.0);
        bytes
    }

    /// From its bytes; those of another version are read as far as all versions agree.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; PREAMBLE_LEN] = bytes.get(..PREAMBLE_LEN)?.try_into().ok()?;
        if !Self::begins(bytes) {
            return None;
        }
        Some(Self {
            version: bytes[8],
            role: Role::from_number(bytes[9])?,
            lane: u16::from_be_bytes([bytes[10], bytes[11]]),
            token: Token(bytes[12..28].try_into().ok()?),
        })
    }

    /// Whether these may be the first bytes of one.
    #[must_use]
    pub fn begins(bytes: &[u8]) -> bool {
        let len = bytes.len().min(MAGIC.len());
        bytes[..len] == MAGIC[..len]
    }

    /// Fails if the other end is of another version.
    ///
    /// # Errors
    /// [`Trouble::Version`].
    pub fn matches(&self) -> Result<(), Trouble> {
        if self.version == VERSION {
            Ok(())
        } else {
            Err(Trouble::Version {
                ours: VERSION,
                theirs: self.version,
            })
        }
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Frames
    Control = 0,
    /// What is measured
    Data = 1,
    /// A first datagram
    Datagram = 2,
    /// The answer to it
    Welcome = 3,
}

impl Role {
    fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Control,
            1 => Self::Data,
            2 => Self::Datagram,
            3 => Self::Welcome,
            _ => return None,
        })
    }
}

/// By what connections of a test know each other. Nobody can guess it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 16]);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn random() -> Result<Self, Trouble> {
        let mut bytes = [0; 16];
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::rand::getrandom(&mut bytes, flags).map_err(|errno| Trouble::System("getrandom", errno))?;
        Ok(Self(bytes))
    }

    /// From its hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
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

/// The only version there is.
pub const VERSION: u8 = 1;
/// How long a preamble is.
pub const PREAMBLE_LEN: usize = 40;
/// No cookie of iperf3 has a line feed in it.
const MAGIC: &[u8; 8] = b"sockeye\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let token = Token::random().unwrap();
        let preamble = Preamble::data(token, 513);
        assert_eq!(Preamble::parse(&preamble.emit()), Some(preamble));
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        assert!(preamble.matches().is_ok());
        let older = Preamble {
            version: 0,
            ..preamble
        };
        assert!(matches!(older.matches(), Err(Trouble::Version { theirs: 0, .. })));
    }

    #[test]
    fn rubbish_is_none() {
        let good = Preamble::control().emit();
        for len in 0..PREAMBLE_LEN {
            assert_eq!(Preamble::parse(&good[..len]), None);
            assert!(Preamble::begins(&good[..len]));
        }
        let mut role = good;
        role[9] = 77;
        assert_eq!(Preamble::parse(&role), None);
        assert!(!Preamble::begins(b"sockeyes"));
        assert_eq!(Token::parse("+0000000000000000000000000000001"), None);
        assert_eq!(Token::parse(""), None);
    }
}
