//! Where an address is, as a database says.

use crate::ShortText;
use core::fmt;

/// The country and the autonomous system of an address; at least one of them is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// ISO 3166 code, such as `DE`.
    pub country: Option<ShortText<2>>,
    /// Number of the autonomous system.
    pub as_number: Option<u32>,
}

/// `DE AS3320`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(country) = &self.country {
            // A database can hold anything.
            for byte in country.as_bytes() {
                write!(
                    f,
                    "{}",
                    if byte.is_ascii_alphanumeric() {
                        char::from(*byte)
                    } else {
                        '?'
                    }
                )?;
            }
        }
        match (self.country, self.as_number) {
            (Some(_), Some(number)) => write!(f, " AS{number}"),
            (None, Some(number)) => write!(f, "AS{number}"),
            (_, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_short_and_harmless() {
        let text = |country: Option<&[u8]>, as_number| {
            let country = country.map(ShortText::new);
            Place { country, as_number }.to_string()
        };
        assert_eq!(text(Some(b"DE"), Some(3320)), "DE AS3320");
        assert_eq!(text(Some(b"DE"), None), "DE");
        assert_eq!(text(None, Some(3320)), "AS3320");
        assert_eq!(text(Some(b"\x1b["), None), "??");
    }
}
