//! Runs of blanks: web pages and forms show one for each.

use std::borrow::Cow;

/// Returns the text with one blank for each run of blanks and tabs.
pub(crate) fn collapsed(text: &str) -> Cow<'_, str> {
    if !has_run(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let is_blank = |byte: u8| byte == b' ' || byte == b'\t';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_blank) {
        out.push_str(&rest[..at]);
        out.push(' ');
        rest = rest[at..].trim_start_matches([' ', '\t']);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Whether there is a tab, or two blanks in a row. Each step takes many bytes at a time: no byte ends a step early.
fn has_run(text: &[u8]) -> bool {
    let next = text.get(1..).unwrap_or_default();
    let mut pairs = text.chunks(STEP).zip(next.chunks(STEP));
    let has_pair = pairs.any(|(these, next)| {
        let pairs = these.iter().zip(next);
        pairs.fold(false, |found, (&this, &next)| {
            found | (this == b'\t') | ((this == b' ') & (next == b' '))
        })
    });
    has_pair || text.last() == Some(&b'\t')
}

const STEP: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_blanks_become_one() {
        assert_eq!(collapsed("a  b\t \tc d"), "a b c d");
        assert!(matches!(collapsed("a b"), Cow::Borrowed(_)));
        assert_eq!(collapsed("é   é"), "é é");
        assert_eq!(collapsed("a\t"), "a ");
        for at in 0..70 {
            let text = format!("{}  {}", "a".repeat(at), "b".repeat(70 - at));
            assert_eq!(collapsed(&text).len(), 71, "{at}");
        }
    }
}
