//! Why a server did not do what it was asked.

use sockeye_http::PostError;
use std::fmt;

/// A failed request.
#[derive(Debug)]
pub enum ServerError {
    /// No answer came.
    Unreachable(PostError),
    /// The server answered with an error.
    Refused {
        /// Status of HTTP.
        status: u16,
        /// ClickHouse's number of the error; `None`: it is not ClickHouse's, as of a proxy.
        code: Option<u32>,
        /// What it says, without its stack.
        text: String,
    },
    /// The answer has more bytes than are read.
    TooLarge(usize),
    /// The rows could not be compressed, or the client not be started.
    Local(std::io::Error),
}

impl ServerError {
    /// Whether the same request would fail again: a wrong password, no right, a table or database that does not exist.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { code: Some(code), .. } => {
                let mut place = 0;
                while place < REFUSALS.len() {
                    if REFUSALS[place] == *code {
                        return true;
                    }
                    place += 1;
                }
                false
            }
            Self::Refused { status, .. } => matches!(*status, 401 | 403 | 404),
            Self::TooLarge(_) => true,
            Self::Unreachable(_) | Self::Local(_) => false,
        }
    }

    /// Whether the server does not support this combination of settings.
    pub(crate) const fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: Some(SUPPORT_IS_DISABLED),
                ..
            }
        )
    }

    /// Whether the database, or a table of it, does not exist.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: Some(UNKNOWN_TABLE | UNKNOWN_DATABASE),
                ..
            }
        )
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => error.fmt(f),
            Self::Refused { status, text, .. } if text.is_empty() => write!(f, "the server answers {status}"),
            Self::Refused { text, .. } => write!(f, "the server says: {text}"),
            Self::TooLarge(bytes) => write!(
                f,
                "the answer has more than {bytes} bytes: ask for a shorter time"
            ),
            Self::Local(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable(error) => error.source(),
            Self::Refused { .. } | Self::TooLarge(_) => None,
            Self::Local(error) => error.source(),
        }
    }
}

/// The same file: SUPPORT_IS_DISABLED.
const SUPPORT_IS_DISABLED: u32 = 344;
pub(crate) const UNKNOWN_COMPRESSION_METHOD: u32 = 89;
pub(crate) const UNKNOWN_SETTING: u32 = 115;
const UNKNOWN_TABLE: u32 = 60;
const UNKNOWN_DATABASE: u32 = 81;

/// `src/Common/ErrorCodes.cpp`: THERE_IS_NO_COLUMN, NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE, SYNTAX_ERROR,
/// UNKNOWN_DATABASE, UNKNOWN_SETTING, UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, ACCESS_DENIED, AUTHENTICATION_FAILED.
const REFUSALS: [u32; 12] = [
    8,
    16,
    47,
    UNKNOWN_TABLE,
    62,
    UNKNOWN_DATABASE,
    UNKNOWN_SETTING,
    192,
    193,
    194,
    497,
    516,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: Option<u32>) -> ServerError {
        ServerError::Refused {
            status,
            code,
            text: String::new(),
        }
    }

    #[test]
    fn what_fails_again_is_a_refusal() {
        assert!(refused(403, Some(516)).is_refusal());
        assert!(refused(404, Some(60)).is_refusal() && refused(404, Some(60)).is_missing());
        assert!(refused(401, None).is_refusal());
        // MEMORY_LIMIT_EXCEEDED, TOO_MANY_PARTS, and a proxy without a server.
        for (status, code) in [(500, Some(241)), (500, Some(252)), (502, None)] {
            assert!(!refused(status, code).is_refusal(), "{code:?}");
        }
    }
}
