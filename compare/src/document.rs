//! A document with a generated section between two markers, and manual text around it.

use std::fmt;

/// The line before the generated section.
pub const BEGIN: &str = "<!-- bench-compare: begin -->";
/// The line after it.
pub const END: &str = "<!-- bench-compare: end -->";

/// Why a document cannot take a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// This marker is missing, or there are several.
    NotOnce(&'static str),
    /// The end comes before the beginning.
    Order,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnce(marker) => write!(
                out,
                "the marker `{marker}` must stand in the document exactly once"
            ),
            Self::Order => write!(out, "`{END}` must come after `{BEGIN}`"),
        }
    }
}

impl std::error::Error for Error {}

/// Replaces everything between the markers; the rest stays as it is, byte for byte.
pub fn replace(document: &str, section: &str) -> Result<String, Error> {
    let begin = only(document, BEGIN)?;
    let end = only(document, END)?;
    if end < begin {
        return Err(Error::Order);
    }
    let before = &document[..begin + BEGIN.len()];
    let after = &document[end..];
    Ok(format!("{before}\n\n{}\n\n{after}", section.trim()))
}

fn only(document: &str, marker: &'static str) -> Result<usize, Error> {
    let mut places = document.match_indices(marker);
    match (places.next(), places.next()) {
        (Some((place, _)), None) => Ok(place),
        _ => Err(Error::NotOnce(marker)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_around_the_markers_survives() {
        let document = format!("# Title\r\n{BEGIN}\nold\n{END}\nend, no newline");
        let new = replace(&document, "new\n").expect("markers");
        assert_eq!(
            new,
            format!("# Title\r\n{BEGIN}\n\nnew\n\n{END}\nend, no newline")
        );
    }

    #[test]
    fn replace_is_idempotent() {
        let document = format!("{BEGIN}{END}");
        let once = replace(&document, "| a |").expect("markers");
        assert_eq!(replace(&once, "| a |"), Ok(once.clone()));
    }

    #[test]
    fn missing_doubled_and_swapped_markers_are_refused() {
        assert_eq!(replace("", "x"), Err(Error::NotOnce(BEGIN)));
        assert_eq!(replace(BEGIN, "x"), Err(Error::NotOnce(END)));
        assert_eq!(
            replace(&format!("{BEGIN}{BEGIN}{END}"), "x"),
            Err(Error::NotOnce(BEGIN))
        );
        assert_eq!(replace(&format!("{END}{BEGIN}"), "x"), Err(Error::Order));
    }

    #[test]
    fn report_fits_into_the_documentation() {
        let document = include_str!("../../docs/BENCHMARKS.md");
        assert!(replace(document, "x").is_ok());
    }
}
