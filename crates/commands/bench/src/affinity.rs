//! The value of `-A`: processors to pin threads to.

/// Processor of the local threads, and of the other end's.
pub(crate) type Affinity = (Option<usize>, Option<usize>);

/// Parses `0`, `0,1` or `,1`.
pub(crate) fn affinity(text: &str) -> Result<Affinity, String> {
    let (ours, theirs) = text.split_once(',').unwrap_or((text, ""));
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| "expected numbers of processors, like 0, or 0,1, or ,1".to_owned()),
    };
    let both = (number(ours)?, number(theirs)?);
    if both == (None, None) {
        return Err("expected at least one processor".to_owned());
    }
    Ok(both)
}

/// Returns the value as it was typed.
pub(crate) fn typed((ours, theirs): Affinity) -> String {
    let number = |number: Option<usize>| number.map_or_else(String::new, |number| number.to_string());
    match theirs {
        Some(_) => format!("{},{}", number(ours), number(theirs)),
        None => number(ours),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_parses_and_prints_back() {
        assert_eq!(affinity("0"), Ok((Some(0), None)));
        assert_eq!(affinity(",1"), Ok((None, Some(1))));
        assert_eq!(affinity("0,1"), Ok((Some(0), Some(1))));
        for bad in ["", ",", "a", "0,1,2", "-1"] {
            assert!(affinity(bad).is_err(), "{bad}");
        }
        assert_eq!([(Some(0), None), (None, Some(1))].map(typed), ["0", ",1"]);
    }
}
