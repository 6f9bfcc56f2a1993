//! The secret that both ends may share, and what they prove with it.
//!
//! All is HMAC-SHA256. Each input is preceded by its length (`u64`, big-endian), so that no two lists of inputs are the
//! same bytes:
//!
//! ```text
//! key     = HMAC(secret, "session", version, client's nonce, server's nonce)
//! client  = HMAC(key, "client", request)                         32 bytes, before the request
//! server  = HMAC(key, "server", token)                           in the answer
//! data    = HMAC(key, "data", role, number, token)               first 12 bytes, in preambles
//! confirm = HMAC(key, "confirm", number, token, welcome's nonce) first 12 bytes
//! ```
//!
//! Without a secret its place is taken by no bytes: the same messages, which prove nothing then. Both nonces are new for
//! each session, so recorded messages are worth nothing in another one.

use super::nonce::Nonce;
use super::preamble::{Preamble, Role, TAG_LEN, Token, VERSION};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use sockeye_sys::private_file::{self, PrivateFileError};
use std::fmt;
use std::path::{Path, PathBuf};

/// A secret that both ends share.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Reads the secret from a file that only its owner can access. One newline at its end does not belong to it.
    ///
    /// # Errors
    /// If it cannot be read, others can access it, it is empty, or too long.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let mut bytes = private_file::read(path, SECRET_MAX)?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if bytes.trim_ascii().is_empty() {
            return Err(SecretError::Empty(path.to_owned()));
        }
        Ok(Self(bytes))
    }

    /// Whether it is so short that it can be found from a recorded session, by trying all.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.0.len() < SECRET_MIN
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a file is no secret.
#[derive(Debug)]
pub enum SecretError {
    /// It cannot be read, or others can.
    File(PrivateFileError),
    /// There is nothing in it.
    Empty(PathBuf),
}

impl From<PrivateFileError> for SecretError {
    fn from(error: PrivateFileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Empty(path) => {
                let path = path.display();
                write!(
                    f,
                    "the secret in {path} is empty; `openssl rand -hex 32 > {path}` makes one"
                )
            }
        }
    }
}

impl std::error::Error for SecretError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => error.source(),
            Self::Empty(_) => None,
        }
    }
}

/// The key of one session.
#[derive(Clone)]
pub(super) struct SessionKey([u8; 32]);

impl SessionKey {
    pub(super) fn new(secret: Option<&Secret>, client: &Nonce, server: &Nonce) -> Self {
        let secret = secret.map_or(&[][..], |secret| &secret.0);
        let mac = mac(secret, &[b"session", &[VERSION], client, server]);
        Self(mac.finalize().into_bytes().into())
    }

    /// Proof of a client that it knows the key, for this request.
    pub(super) fn client_proof(&self, request: &[u8]) -> [u8; PROOF_LEN] {
        let mac = mac(&self.0, &[b"client", request]);
        mac.finalize().into_bytes().into()
    }

    pub(super) fn is_client_proof(&self, request: &[u8], proof: &[u8]) -> bool {
        mac(&self.0, &[b"client", request]).verify_slice(proof).is_ok()
    }

    /// Proof of a server that it knows the key, in hexadecimal digits.
    pub(super) fn server_proof(&self, token: Token) -> String {
        let mac = mac(&self.0, &[b"server", &token.0]);
        hex(&mac.finalize().into_bytes())
    }

    pub(super) fn is_server_proof(&self, token: Token, proof: &str) -> bool {
        let mac = mac(&self.0, &[b"server", &token.0]);
        unhex::<PROOF_LEN>(proof).is_some_and(|proof| mac.verify_slice(&proof).is_ok())
    }

    /// Returns the preamble of a data connection, or a first datagram.
    pub(super) fn preamble(&self, role: Role, token: Token, number: u16) -> Preamble {
        Preamble {
            version: VERSION,
            role,
            number,
            token,
            tag: self.data_tag(role, number, token),
        }
    }

    /// Returns the client's answer to a welcome.
    pub(super) fn confirmation(&self, welcome: Preamble) -> Preamble {
        Preamble {
            role: Role::Confirm,
            tag: self.confirm_tag(welcome.number, welcome.token, &welcome.tag),
            ..welcome
        }
    }

    /// Tag of a data connection, or of the first datagram.
    fn data_tag(&self, role: Role, number: u16, token: Token) -> [u8; TAG_LEN] {
        shortened(self.data_mac(role, number, token))
    }

    pub(super) fn is_data_tag(&self, role: Role, number: u16, token: Token, tag: &[u8; TAG_LEN]) -> bool {
        self.data_mac(role, number, token)
            .verify_truncated_left(tag)
            .is_ok()
    }

    /// Tag of the datagram that answers the server's welcome.
    fn confirm_tag(&self, number: u16, token: Token, nonce: &[u8; TAG_LEN]) -> [u8; TAG_LEN] {
        shortened(self.confirm_mac(number, token, nonce))
    }

    pub(super) fn is_confirm_tag(
        &self,
        number: u16,
        token: Token,
        nonce: &[u8; TAG_LEN],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        self.confirm_mac(number, token, nonce)
            .verify_truncated_left(tag)
            .is_ok()
    }

    fn data_mac(&self, role: Role, number: u16, token: Token) -> Hmac<Sha256> {
        let role = [role as u8];
        mac(&self.0, &[b"data", &role, &number.to_be_bytes(), &token.0])
    }

    fn confirm_mac(&self, number: u16, token: Token, nonce: &[u8; TAG_LEN]) -> Hmac<Sha256> {
        mac(&self.0, &[b"confirm", &number.to_be_bytes(), &token.0, nonce])
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

fn mac(key: &[u8], inputs: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for input in inputs {
        mac.update(&(input.len() as u64).to_be_bytes());
        mac.update(input);
    }
    mac
}

fn shortened(mac: Hmac<Sha256>) -> [u8; TAG_LEN] {
    let whole: [u8; PROOF_LEN] = mac.finalize().into_bytes().into();
    let mut tag = [0; TAG_LEN];
    tag.copy_from_slice(&whole[..TAG_LEN]);
    tag
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| {
            char::from(digit)
                .to_digit(16)
                .and_then(|it| u8::try_from(it).ok())
        };
        *byte = digit(digits[0])? << 4 | digit(digits[1])?;
    }
    Some(bytes)
}

/// Length of a proof, in bytes.
pub(super) const PROOF_LEN: usize = 32;
/// Longest secret, in bytes.
const SECRET_MAX: usize = 4096;
/// Bytes that a secret should have at least.
const SECRET_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &[u8], client: u8, server: u8) -> SessionKey {
        SessionKey::new(Some(&Secret(secret.to_vec())), &[client; 16], &[server; 16])
    }

    #[test]
    fn proofs_hold_for_the_same_secret_and_nonces_only() {
        let token = Token([7; 16]);
        let mine = key(b"secret", 1, 2);
        let (proof, answer) = (mine.client_proof(b"request"), mine.server_proof(token));
        let tag = mine.data_tag(Role::Data, 3, token);
        let confirm = mine.confirm_tag(3, token, &[9; 12]);
        for (theirs, holds) in [
            (key(b"secret", 1, 2), true),
            (key(b"Secret", 1, 2), false),
            (key(b"secret", 2, 1), false),
            (key(b"secret", 1, 3), false),
            (SessionKey::new(None, &[1; 16], &[2; 16]), false),
        ] {
            assert_eq!(theirs.is_client_proof(b"request", &proof), holds);
            assert_eq!(theirs.is_server_proof(token, &answer), holds);
            assert_eq!(theirs.is_data_tag(Role::Data, 3, token, &tag), holds);
            assert_eq!(theirs.is_confirm_tag(3, token, &[9; 12], &confirm), holds);
        }
        assert!(!mine.is_client_proof(b"another", &proof));
        assert!(!mine.is_client_proof(b"request", &proof[..31]));
        assert!(!mine.is_server_proof(Token([8; 16]), &answer));
        assert!(!mine.is_server_proof(token, &hex(&mine.client_proof(&token.0))));
        assert!(!mine.is_data_tag(Role::Data, 4, token, &tag));
        assert!(!mine.is_data_tag(Role::Datagram, 3, token, &tag));
        assert!(!mine.is_confirm_tag(3, token, &[8; 12], &confirm));
    }

    #[test]
    fn hexadecimal_digits_read_back() {
        assert_eq!(unhex::<3>(&hex(&[0, 0xab, 9])), Some([0, 0xab, 9]));
        for text in ["", "00ab0", "00ab0g", "+0ab09", "00ab0900"] {
            assert_eq!(unhex::<3>(text), None);
        }
    }
}
