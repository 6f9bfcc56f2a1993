//! Numbers that each processor counts for itself.

use rustix::io::Errno;
use sockeye_sys::bpf::Table;

/// Reads a number of a map, summed over all processors.
pub(crate) fn sum_at(table: &Table, index: u32) -> Result<u64, Errno> {
    let mut values = vec![0; table.values_bytes()];
    table.lookup(&index.to_ne_bytes(), &mut values)?;
    Ok(sum_of(&values))
}

/// Returns the sum of 64-bit numbers, one of each processor.
pub(crate) fn sum_of(values: &[u8]) -> u64 {
    let words = values.chunks_exact(8).filter_map(<[u8]>::first_chunk);
    words.map(|word| u64::from_ne_bytes(*word)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_add_up_and_a_cut_number_is_none() {
        let values = [3_u64.to_ne_bytes(), 4_u64.to_ne_bytes()].concat();
        assert_eq!(sum_of(&values), 7);
        assert_eq!(sum_of(&values[..12]), 3);
        assert_eq!(sum_of(&[]), 0);
    }
}
