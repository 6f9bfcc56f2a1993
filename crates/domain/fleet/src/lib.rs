//! What hosts send about themselves to one ClickHouse, and what is asked of it.
//!
//! - [`SliceBuilder`], [`Slice`]: recorded samples of a host to intervals, with the flows as this end saw them
//! - [`fold_rest`]: the bound on the number of flows that a host sends
//! - [`Table`], [`Column`]: what is sent, column by column; [`encode`], [`insert_statement`], [`token`]
//! - [`SchemaOptions`]: the statements that make the tables
//! - [`question`], [`Filter`]: the statements that answer questions, and their rows
//! - [`blame()`]: whether client, network or server makes an edge slow
//! - [`skews`]: how far the clocks of hosts are apart
//! - [`RowWriter`], [`RowReader`]: ClickHouse's format of rows
//!
//! What it deliberately does not do: read a store, send, read a clock. `sockeye export clickhouse` and `sockeye fleet` do.

mod blame;
mod filter;
mod flow;
pub mod question;
mod row_binary;
mod schema;
mod skew;
mod slice;
mod tables;

pub use blame::{Blame, Cause, blame, edges_of_all};
pub use filter::{Filter, FilterError};
pub use flow::{FlowKey, FlowRow, RoundTrips, Side, TranslatedFlows, fold_rest};
pub use row_binary::{RowError, RowReader, RowWriter};
pub use schema::{HOSTS, REMEMBERED_MAX, REMEMBERED_MINUTES, SCHEMA_VERSION, SchemaOptions};
pub use skew::{Skew, skews};
pub use slice::{KEYFRAME_S, ListenerRow, Origin, SampleHead, SampleMark, Slice, SliceBuilder, SliceOptions};
pub use tables::{
    Column, CountRow, ExchangeRow, GapRow, HostRow, Table, TranslationRow, encode, insert_statement, token,
};
