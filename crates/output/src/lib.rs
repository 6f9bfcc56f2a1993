//! Listings of sockets and other records as tables, JSON, JSON lines and CSV; reports with charts; pictures. All output
//! goes to a `Write` or a `Vec<u8>`.
//!
//! A [`SocketWriter`] is created from a layout, then takes rows one by one. Rows stream: a table buffers the first 2,048
//! of them to find the widths of its columns, and none afterwards; only sorting buffers all rows, rendered. No row costs
//! an allocation.
//!
//! Text from outside (names of processes, hosts, paths) is escaped for terminals. Absent values
//! are `-` in tables, empty in CSV, and have no key in JSON.
//!
//! - **Tables** are for people: decimal units (`1.2M`), times such as `1h58m`, addresses in the format of `ss`. Nothing
//!   is cut at the width of a terminal: gaps shrink, then rows continue on further lines.
//! - **JSON** has every known value, whatever columns were chosen, as the schemas in `docs/schema` describe. Numbers are
//!   exact, also above 2^53. In text that is not UTF-8, U+FFFD replaces each invalid sequence; a second key, with the
//!   suffix `_hex`, has the exact bytes in hexadecimal.
//! - **JSON lines** are the same objects; the last line has the summary.
//! - Every document and every line begins with the keys of an [`Envelope`]: type, time, host, boot, version.
//! - **CSV** has exact numbers in the units that its header names, one or more fields per column, after the time and the
//!   host. Columns that no row fills are left out, unless columns were chosen. Text from
//!   outside that a spreadsheet would take for a formula (`=`, `+`, `-`, `@` in front) gets a `'` in front.
//!
//! Reports of benchmarks ([`push_report`]) and their charts ([`write_charts`]) are here too, and the drawing of scenes as
//! SVG, PNG and pixels ([`picture`]).
//!
//! What it deliberately does not do: look names up (it calls [`sockeye_model::Names`]), detect whether the output is a
//! terminal and how wide it is, filter, fold, or choose the top N.
//!
//! ```
//! use sockeye_model::{Endpoint, Entry, NoNames, Port, Protocol, Socket, State};
//! use sockeye_output::{SocketLayout, SocketWriter, Summary};
//!
//! let mut socket = Socket::new(Protocol::Tcp, State::Listen);
//! socket.local = Endpoint::inet([127, 0, 0, 1].into(), Port(80));
//! socket.peer = Endpoint::inet([0, 0, 0, 0].into(), Port(0));
//!
//! let mut out = Vec::new();
//! let mut listing = SocketWriter::new(&mut out, SocketLayout::default());
//! listing.begin()?;
//! listing.row(&Entry::new(&socket), &NoNames)?;
//! listing.finish(&Summary::default())?;
//! assert_eq!(
//!     String::from_utf8_lossy(&out),
//!     "State   Recv-Q  Send-Q  Local Address:Port  Peer Address:Port\n\
//!      LISTEN       -       -  127.0.0.1:80        0.0.0.0:*\n"
//! );
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod address;
pub mod csv;
pub mod date;
pub mod envelope;
pub mod fact;
pub mod flow;
/// Output formats, styles and the summary that ends a listing.
pub mod format;
pub mod heading;
pub mod json;
pub mod listing;
pub mod number;
pub mod parquet;
pub mod picture;
mod place;
pub mod report;
/// Buffered output of rows.
pub mod rows;
pub mod severity;
pub mod sheet;
pub mod socket;
mod sparkline;
pub mod table;
#[cfg(test)]
mod tests;
pub mod text;
pub mod unit;
pub mod wrap;

pub use envelope::{Envelope, Origin};
pub use format::{Coverage, Format, SCHEMA_VERSION, Style, Summary};
pub use json::{Object as JsonObject, json_string};
pub use listing::{Align, SortKey, UnknownColumn};
pub use picture::GraphTheme;
pub use report::{ChartFormat, ReportLayout, push_report, write_charts};
pub use socket::{Details, SocketLayout, SocketWriter, Sockets};
pub use text::{harmless, is_hidden};

pub use sparkline::sparkline;
