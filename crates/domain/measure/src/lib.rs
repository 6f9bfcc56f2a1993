//! What a benchmark measured, and what it means: repeats with their medians, histograms of delays, what limited a transfer,
//! how noisy the machine was, and the [`Report`] that all of it is told by.
//!
//! What it deliberately does not do: measure. It makes no load, reads no clock, and prints nothing.
//!
//! ```
//! use sockeye_measure::{Column, Report, Table, Unit, Value};
//!
//! let mut report = Report::new("memory");
//! let mut table = Table::new("rates", vec![Column::new("size", "size_bytes", Unit::Bytes),
//!                                          Column::new("rate", "bytes_per_s", Unit::BytesPerSecond)]);
//! table.row(vec![Value::Whole(64), Value::Real(1.5e9)]);
//! report.tables.push(table);
//! ```

mod again;
mod cliff;
mod file_way;
mod histogram;
mod latency;
mod limit;
mod noise;
mod repeats;
mod report;
mod sources;
mod transfer;
mod tunnel;

pub use again::Again;
pub use cliff::{Cache, Curve, Fall, Point, ending_cache};
pub use file_way::{FileRanking, FileRun, FileTransfers, ZeroCopy, rank_file_ways};
pub use histogram::Histogram;
pub use latency::{Latency, Load};
pub use limit::{Asked, Limit, LimitShares, what_limited};
pub use noise::{Noise, NoiseSample};
pub use repeats::Repeats;
pub use report::{Chart, Column, Line, Partial, Report, Scale, Sentence, Setting, Table, Unit, Value};
pub use sources::{FLOOR, SourceTimes, fastest_and_slowest};
pub use transfer::{Datagrams, DeviceNumbers, DeviceWork, End, Interval, Lane, Sender, Side, Transfer, Work};
pub use tunnel::{QueueAdvice, QueueInUse, QueuePoint, QueueVerdict, judge_queue, recommend_queue};
