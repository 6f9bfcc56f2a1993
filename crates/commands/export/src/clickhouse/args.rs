//! Arguments of `export clickhouse`.

use clap::Args;
use sockeye_console::server_args::ServerArgs;
use sockeye_fleet::KEYFRAME_S;
use std::path::PathBuf;

/// Send what `sockeye record` records to ClickHouse, flow by flow, for the questions of `sockeye fleet`
///
/// Flows as this host saw them, listeners, findings, counters and gaps, an insert a table and minute. What could not be sent is sent later,
/// as long as the recorder keeps it; what is sent twice is stored once. `sockeye fleet schema --apply` creates the tables.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClickhouseArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// The file that is recorded; otherwise that of the host, or your own
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,
    /// File that has the last sample that was sent; otherwise the store's name with -clickhouse
    #[arg(long, value_name = "FILE")]
    pub(super) cursor: Option<PathBuf>,
    /// Seconds of an interval: one that divides five minutes
    #[arg(long, value_name = "SECS", default_value = "60", value_parser = interval)]
    pub(super) send_interval: u32,
    /// The most flows of an interval that are sent one by one: largest, busiest, troubled; the rest is one row a side, port and service
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) flows: u32,
    /// Send what is there, and end
    #[arg(long)]
    pub(super) once: bool,
}

fn interval(text: &str) -> Result<u32, String> {
    let is_divisor = |seconds: &u32| *seconds >= 5 && KEYFRAME_S.is_multiple_of(*seconds);
    let seconds = text.parse().ok().filter(is_divisor);
    seconds.ok_or_else(|| format!("expected seconds from 5 on that divide {KEYFRAME_S}"))
}

const EXAMPLES: &str = "\
Examples:
  sockeye export clickhouse                          the server on this host, without a password
  sockeye export clickhouse --url http://clickhouse:8123 --user sockeye --password-file /etc/sockeye/clickhouse
  sockeye export clickhouse --once                   what was recorded until now

Exit status: 0 ended, 1 a failure, 2 usage error, or another exporter sends from there.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_divides_five_minutes() {
        assert_eq!(interval("60"), Ok(60));
        assert_eq!(interval("10"), Ok(10));
        for bad in ["0", "1", "7", "301", "600", "x"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
