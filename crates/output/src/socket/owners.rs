//! Owners of a socket, in every format.

use super::Sockets;
use super::row::SocketRow;
use crate::csv::Line;
use crate::json::Object;
use crate::listing::{Composite, SortValue};
use crate::number::push_decimal;
use crate::table::Tint;
use crate::text::push_clean;
use sockeye_model::{Owner, Process};

/// Owner processes.
pub(super) struct Owners;

impl Composite<Sockets> for Owners {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        push_owners(out, row.entry.owners.unwrap_or_default());
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        line.outside(|out| push_owners(out, row.entry.owners.unwrap_or_default()));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        let Some(owners) = row.entry.owners else { return };
        let out = object.key("owners");
        out.push(b'[');
        for (nth, owner) in owners.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            push_process_fields(&mut fields, &owner.process);
            fields.number("fd", Some(owner.fd.0));
            fields.end();
        }
        out.push(b']');
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        let first = row.entry.owners?.first()?;
        Some(SortValue::Text(first.process.comm.as_bytes().into()))
    }
}

/// Appends `nginx(812,fd=6),nginx(813,fd=6)`.
fn push_owners(out: &mut Vec<u8>, owners: &[Owner]) {
    for (nth, owner) in owners.iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        push_clean(out, owner.process.comm.as_bytes());
        out.push(b'(');
        push_decimal(out, owner.process.pid.0.into());
        out.extend_from_slice(b",fd=");
        push_decimal(out, owner.fd.0.into());
        out.push(b')');
    }
}

/// Appends `comm`, `pid` and `pgid`.
pub fn push_process_fields(object: &mut Object<'_>, process: &Process) {
    object.bytes("comm", Some(process.comm.as_bytes()));
    object.number("pid", Some(process.pid.0));
    object.number("pgid", process.pgid.map(|pgid| pgid.0));
}
