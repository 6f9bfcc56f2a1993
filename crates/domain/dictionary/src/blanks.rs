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

/// Whether there is a tab, or two blanks in a row. Each step takes many bytes at a time: no byte ends a step early. The last step takes
/// bytes again that the one before had.
fn has_run(text: &[u8]) -> bool {
    let is_last_tab = text.last() == Some(&b'\t');
    let Some(last) = text.len().checked_sub(STEP + 1) else {
        return is_last_tab || text.windows(2).any(|pair| pair[0] == b'\t' || pair == b"  ");
    };
    let mut found = [0_u8; STEP];
    let mut step = |from: usize| {
        let these = text[from..].first_chunk::<STEP>();
        let next = text[from + 1..].first_chunk::<STEP>();
        if let (Some(these), Some(next)) = (these, next) {
            for ((found, &this), &next) in found.iter_mut().zip(these).zip(next) {
                let is_pair = u8::from(this == b' ') & u8::from(next == b' ');
                *found |= is_pair | u8::from(this == b'\t');
            }
        }
    };
    (0..last).step_by(STEP).for_each(&mut step);
    step(last);
    is_last_tab || found != [0; STEP]
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
