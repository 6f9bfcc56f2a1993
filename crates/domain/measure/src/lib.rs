//! Results of benchmarks and their meaning: repeats with medians, histograms of delays, limits of transfers,
//! noise of the machine, and the [`Report`] that contains all of it.
//!
//! What it deliberately does not do: measure. It generates no load, reads no clock, and prints nothing.
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

mod cliff;
mod duration;
mod file_method;
mod histogram;
mod latency;
mod limit;
mod limit_analysis;
mod noise;
mod repeats;
mod report;
mod sources;
mod transfer;
mod tunnel;
mod typed_command;

pub use cliff::{Cache, Curve, Fall, Point, ending_cache};
pub use duration::duration;
pub use file_method::{FileRanking, FileRun, FileTransfers, ZeroCopy, rank_file_methods};
pub use histogram::Histogram;
pub use latency::{Latency, Load};
pub use limit::{Limit, LimitShares};
pub use limit_analysis::{RequestedLimits, what_limited};
pub use noise::{Noise, NoiseSample};
pub use repeats::Repeats;
pub use report::{Chart, Column, Line, Partial, Report, Scale, Sentence, Setting, Table, Unit, Value};
pub use sources::{FLOOR, SourceTimes, fastest_and_slowest};
pub use transfer::{
    Datagrams, DeviceNumbers, DeviceWork, End, Interval, Sender, Side, StreamTransfer, Transfer, Work,
};
pub use tunnel::{QueueAdvice, QueueInUse, QueuePoint, QueueVerdict, judge_queue, recommend_queue};
pub use typed_command::TypedCommand;
