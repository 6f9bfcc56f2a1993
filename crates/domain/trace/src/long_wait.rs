//! Acknowledgements that come so late that the data waited on the path.

/// Whether the last data waited on the path for its acknowledgement; receivers may delay one on purpose.
pub(crate) fn is_long_wait(waited_ns: u64, round_trip_ns: u64) -> bool {
    waited_ns > (2 * round_trip_ns).max(LONG_WAIT_NS)
}

const LONG_WAIT_NS: u64 = 50_000_000;
