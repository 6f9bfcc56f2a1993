//! Small graphs, one character high.

/// Returns a graph of the last values that fit: from 0, or from the smallest one if all are large, to the largest one.
pub(super) fn spark(values: &[Option<u64>], width: usize, is_utf8: bool) -> String {
    let levels: &[char] = if is_utf8 { &BLOCKS } else { &ASCII };
    let shown = &values[values.len().saturating_sub(width)..];
    let known = || shown.iter().flatten().copied();
    let (Some(min), Some(max)) = (known().min(), known().max()) else {
        return String::new();
    };
    // Values from 1000 to 1010 would be a flat line from 0.
    let floor = if min > max / 2 {
        min - (max - min).min(min)
    } else {
        0
    };
    let level = |value: u64| {
        let (height, range) = (u128::from(value - floor), u128::from((max - floor).max(1)));
        let steps = levels.len() - 1;
        levels[usize::try_from(height * steps as u128 / range)
            .unwrap_or(steps)
            .min(steps)]
    };
    shown.iter().map(|value| value.map_or(' ', level)).collect()
}

const BLOCKS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];
const ASCII: [char; 6] = ['_', '.', '-', '=', '+', '#'];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[Option<u64>], width: usize, expected: &str) {
        assert_eq!(spark(values, width, false), expected, "{values:?}");
    }

    #[test]
    fn values_become_levels() {
        check(&[], 5, "");
        check(&[None, None], 5, "");
        check(&[Some(0), None, Some(50), Some(100)], 9, "_ -#");
        check(&[Some(1), Some(2), Some(3)], 2, "-#");
        check(&[Some(0); 3], 9, "___");
        check(&[Some(u64::MAX), Some(0)], 9, "#_");
        check(&[Some(1000), Some(1005), Some(1010)], 9, "-=#");
    }

    #[test]
    fn blocks_are_used_where_the_terminal_shows_them() {
        assert_eq!(spark(&[Some(0), Some(7)], 9, true), "\u{2581}\u{2588}");
    }
}
