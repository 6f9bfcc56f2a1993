//! Columns of a rate that was measured several times.

use sockeye_measure::{Column, Repeats, Unit, Value};

/// Returns the columns for [`rate_values`].
pub(crate) fn rate_columns() -> [Column; 5] {
    [
        Column::new("rate", "bytes_per_s", Unit::BytesPerSecond),
        Column::new("lowest", "lowest_bytes_per_s", Unit::BytesPerSecond),
        Column::new("highest", "highest_bytes_per_s", Unit::BytesPerSecond),
        Column::new("spread", "spread_permille", Unit::Permille),
        Column::new("repeats", "repeats", Unit::Count),
    ]
}

/// Returns median, range, spread and number of the repeats.
pub(crate) fn rate_values(rates: &Repeats) -> [Value; 5] {
    let range = rates.range();
    [
        rates.median().into(),
        range.map(|range| range.0).into(),
        range.map(|range| range.1).into(),
        rates.spread_permille().into(),
        Value::Whole(rates.len() as u64),
    ]
}
