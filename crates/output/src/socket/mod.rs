//! Listings of sockets: their columns, and a writer for them.

mod columns;
mod composites;
mod endpoint;
mod memory;
mod owners;
mod row;
pub mod state;
mod tcp_field;
mod tcp_json;
pub mod tcp_words;
mod workloads;
mod writer;

pub use columns::{LOCAL_FIELDS, PEER_FIELDS};
pub use endpoint::{push_endpoint, push_endpoint_csv};
pub use owners::push_process_fields;
pub use row::{SocketRow, TcpValues};
pub use tcp_field::{MptcpField, TcpField};
pub use writer::{Details, SocketLayout, SocketWriter};

use crate::json::Object;
use crate::listing::{Column, Record, Value};

/// The kind of record that is a socket: `docs/schema/sockets.schema.json`, `$defs/socket`.
#[derive(Debug)]
pub struct Sockets;

impl Record for Sockets {
    type Row<'a> = SocketRow<'a>;

    const KEY: &'static str = "sockets";
    const ROW: &'static str = "socket";

    fn columns() -> &'static [Column<Self>] {
        columns::all()
    }

    fn push_objects(object: &mut Object<'_>, row: &SocketRow<'_>) {
        let socket = row.entry.socket;
        if let Some(info) = &socket.tcp_info {
            tcp_json::push_tcp_info(object, info);
        }
        if let Some(info) = &socket.mptcp_info {
            let mut fields = object.object("mptcp_info");
            info.visit(|name, value| fields.number(name, value));
            fields.end();
        }
        if let Some(rates) = &row.rates {
            let mut fields = object.object("rates");
            for (name, rate) in [
                ("sent_bytes_per_s", rates.sent_bytes_per_s),
                ("received_bytes_per_s", rates.received_bytes_per_s),
                ("retrans_segs_per_s", rates.retrans_segs_per_s),
            ] {
                if let Some(rate) = rate {
                    fields.float(name, rate);
                }
            }
            fields.end();
        }
    }
}

/// Returns a further value of a row; for columns that are not those of all sockets.
pub fn further_value<'r>(row: &'r SocketRow<'_>, index: u8) -> Value<'r> {
    row.more.get(usize::from(index)).copied().unwrap_or(Value::Absent)
}
