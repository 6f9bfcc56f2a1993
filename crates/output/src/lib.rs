//! Listings of sockets and flows as tables, JSON, JSON lines and CSV, and graphs of captured connections, into anything that
//! can be written to.
//!
//! A [`SocketWriter`] or [`FlowWriter`] is made from a layout, then takes rows one by one. Rows stream:
//! a table looks at the first 2,048 of them for the widths of its columns and holds nothing afterwards;
//! only sorting keeps all rows, rendered. No row costs an allocation.
//!
//! Text from outside (names of processes, hosts, paths) is made harmless for a terminal. Absent values
//! are `-` in tables, empty in CSV, and have no key in JSON.
//!
//! - **Tables** are for eyes: decimal units (`1.2M`), times as one says them (`1h58m`), addresses as `ss`
//!   writes them. A terminal's width never costs data: gaps shrink, then rows continue on further lines.
//! - **JSON** has everything that is known, whatever columns were chosen, after the schemas in
//!   `docs/schema`. Numbers are exact, those above 2^53 too. Text that is not UTF-8 has U+FFFD in place of
//!   what is wrong, and its bytes in hexadecimal beside it, under its name with `_hex`.
//! - **JSON lines** are the same objects; a last line `{"summary":...}` only if something was lost or the
//!   listing was interrupted.
//! - **CSV** has exact numbers in the units its header names, one or more fields a column. Text from
//!   outside that a spreadsheet would take for a formula (`=`, `+`, `-`, `@` in front) gets a `'` in front.
//!
//! - **Graphs** of one connection ([`write_graph`]) are made from its points: pictures, a page to look around in, characters.
//!
//! What it deliberately does not do: look names up (it asks [`sockeye_model::Names`]), decide whether a
//! terminal wants colours or how wide it is, filter, fold, or choose the top N.
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
/// Output formats, styles and the summary that ends a listing.
pub mod format;
pub mod json;
pub mod listing;
pub mod number;
pub mod picture;
pub mod report;
/// Buffered output of rows.
pub mod rows;
pub mod severity;
pub mod socket;
pub mod table;
#[cfg(test)]
mod tests;
pub mod text;
pub mod unit;
pub mod wrap;

pub use format::{Coverage, Format, SCHEMA_VERSION, Style, Summary};
pub use json::{Object as JsonObject, json_string};
pub use listing::{Align, SortKey, UnknownColumn};
pub use picture::GraphTheme;
pub use report::{ChartFormat, ReportLayout, push_report, write_charts};
pub use socket::{Details, SocketLayout, SocketWriter, Sockets};
pub use text::harmless;
