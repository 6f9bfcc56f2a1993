//! The known name that was probably meant by one that is none.

/// Returns the known name that is most like `typed`; `None` if none is like it. Upper case does not matter.
///
/// Alike are names that begin with it, from three letters on, and names that a third of its letters, four at most, makes it: letters more
/// or less, others, or two swapped.
///
/// ```
/// use sockeye_model::nearest_name;
///
/// assert_eq!(nearest_name("dprot", ["sport", "dport"]), Some("dport"));
/// assert_eq!(nearest_name("Estab", ["established"]), Some("established"));
/// assert_eq!(nearest_name("xyzzy", ["sport", "dport"]), None);
/// ```
pub fn nearest_name<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |name: &str| name.to_lowercase().chars().collect::<Vec<char>>();
    let typed = letters(typed);
    if !(2..=TYPED_MAX).contains(&typed.len()) {
        return None;
    }
    let allowed = (typed.len() / 3).clamp(1, CHANGES_MAX);
    let mut nearest: Option<(usize, &str)> = None;
    for name in known {
        let candidate = letters(name);
        let changes = if candidate.len() > typed.len() && typed.len() >= 3 && candidate.starts_with(&typed) {
            1
        } else if candidate.len().abs_diff(typed.len()) > allowed {
            continue;
        } else {
            distance(&typed, &candidate)
        };
        if changes <= allowed && nearest.is_none_or(|(least, _)| changes < least) {
            nearest = Some((changes, name));
        }
    }
    nearest.map(|(_, name)| name)
}

/// Returns the edit distance: insertions, deletions, replacements and swaps of adjacent letters.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = [
        vec![0; b.len() + 1],
        (0..=b.len()).collect::<Vec<_>>(),
        vec![0; b.len() + 1],
    ];
    for i in 1..=a.len() {
        rows[2][0] = i;
        for j in 1..=b.len() {
            let differ = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[1][j - 1] + differ)
                .min(rows[1][j] + 1)
                .min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

/// Letters of a name that may be a typo; a longer one is none.
const TYPED_MAX: usize = 60;
/// Letters that may be wrong, however long the name is.
const CHANGES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_have_a_nearest_name() {
        let known = [
            "established",
            "time-wait",
            "dport",
            "rtt",
            "check.thresholds.accept-queue.share",
        ];
        let check = |typed: &str, expected: Option<&str>| {
            assert_eq!(nearest_name(typed, known), expected, "{typed}");
        };
        check("establshed", Some("established"));
        check("estab", Some("established"));
        check("dprot", Some("dport"));
        check("TIME_WAIT", Some("time-wait"));
        check("rt", Some("rtt"));
        check(
            "check.treshold.accept-que.share",
            Some("check.thresholds.accept-queue.share"),
        );
        check("check.accept-queue.share", None);
        check("xyzzy", None);
        check("r", None);
        check("", None);
        check(&"é".repeat(10_000), None);
        check("\u{130}", None);
    }

    #[test]
    fn the_first_of_equally_near_names_is_taken() {
        assert_eq!(nearest_name("port", ["sport", "dport"]), Some("sport"));
    }
}
