//! Numbers over time as one line of blocks.

/// Returns a block for each number, the largest highest; a space where there is none. A number that is not 0 is never the lowest block,
/// which is 0.
#[must_use]
pub fn sparkline(numbers: &[Option<u64>]) -> String {
    let max = numbers.iter().flatten().copied().max().unwrap_or(0).max(1);
    let block = |number: &Option<u64>| match number {
        None => ' ',
        Some(0) => BLOCKS[0],
        Some(number) => {
            let height = u128::from(*number) * (BLOCKS.len() as u128 - 1);
            BLOCKS[height.div_ceil(max.into()) as usize]
        }
    };
    numbers.iter().map(block).collect()
}

const BLOCKS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_proportion_and_gaps_are_spaces() {
        assert_eq!(sparkline(&[Some(0), Some(1), None, Some(50), Some(100)]), "▁▂ ▅█");
        assert_eq!(sparkline(&[Some(0), Some(0)]), "▁▁");
        assert_eq!(sparkline(&[Some(u64::MAX)]), "█");
        assert_eq!(sparkline(&[]), "");
    }
}
