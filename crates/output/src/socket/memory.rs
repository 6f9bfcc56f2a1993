//! Memory of a socket, in every format.

use super::Sockets;
use super::row::SocketRow;
use crate::csv::Line;
use crate::json::Object;
use crate::listing::{Composite, SortValue};
use crate::number::{push_human, push_short};
use crate::table::Tint;
use sockeye_model::Memory as Figures;

/// Memory in use and its limits.
pub(super) struct Memory;

impl Composite<Sockets> for Memory {
    fn push_cell(&self, out: &mut Vec<u8>, row: &SocketRow<'_>) -> Tint {
        if let Some(memory) = &row.entry.socket.memory {
            push_memory(out, memory);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &SocketRow<'_>) {
        for (name, value) in fields(&row.entry.socket.memory.unwrap_or_default()) {
            // A separate column.
            if name != "drops" {
                line.number(value);
            }
        }
    }

    fn push_json(&self, object: &mut Object<'_>, row: &SocketRow<'_>) {
        if let Some(memory) = &row.entry.socket.memory {
            let mut object = object.object("memory");
            for (name, value) in fields(memory) {
                object.number(name, value);
            }
            object.end();
        }
    }

    fn sort_value(&self, row: &SocketRow<'_>) -> Option<SortValue> {
        bytes_in_use(row.entry.socket.memory.as_ref()?).map(SortValue::Number)
    }
}

/// Each field with its name, in the kernel's order.
const fn fields(memory: &Figures) -> [(&'static str, Option<u32>); 9] {
    // A field added to the model is an error here until it is listed.
    let Figures {
        rmem_alloc_bytes,
        rcvbuf_bytes,
        wmem_alloc_bytes,
        sndbuf_bytes,
        fwd_alloc_bytes,
        wmem_queued_bytes,
        optmem_bytes,
        backlog_bytes,
        drops,
    } = *memory;
    [
        ("rmem_alloc_bytes", rmem_alloc_bytes),
        ("rcvbuf_bytes", rcvbuf_bytes),
        ("wmem_alloc_bytes", wmem_alloc_bytes),
        ("sndbuf_bytes", sndbuf_bytes),
        ("fwd_alloc_bytes", fwd_alloc_bytes),
        ("wmem_queued_bytes", wmem_queued_bytes),
        ("optmem_bytes", optmem_bytes),
        ("backlog_bytes", backlog_bytes),
        ("drops", drops),
    ]
}

/// Returns the bytes of memory that a socket uses.
fn bytes_in_use(memory: &Figures) -> Option<u64> {
    let parts = [
        memory.rmem_alloc_bytes,
        memory.wmem_queued_bytes,
        memory.fwd_alloc_bytes,
    ];
    let known = parts.into_iter().flatten().map(u64::from);
    (parts != [None; 3]).then(|| known.sum())
}

/// Appends `rcv 0/131K snd 0/2.6M`: used of allowed; then other memory in use, if any is.
fn push_memory(out: &mut Vec<u8>, memory: &Figures) {
    let mut between = "";
    for (word, used, limit) in [
        ("rcv ", memory.rmem_alloc_bytes, memory.rcvbuf_bytes),
        ("snd ", memory.wmem_alloc_bytes, memory.sndbuf_bytes),
    ] {
        let Some(used) = used else { continue };
        push_short(out, between.as_bytes());
        between = " ";
        push_short(out, word.as_bytes());
        push_human(out, used.into());
        if let Some(limit) = limit {
            out.push(b'/');
            push_human(out, limit.into());
        }
    }
    for (word, value) in [
        ("queued ", memory.wmem_queued_bytes),
        ("fwd ", memory.fwd_alloc_bytes),
        ("opt ", memory.optmem_bytes),
        ("backlog ", memory.backlog_bytes),
        ("drops ", memory.drops),
    ] {
        let Some(value) = value.filter(|&value| value > 0) else {
            continue;
        };
        push_short(out, between.as_bytes());
        between = " ";
        push_short(out, word.as_bytes());
        push_human(out, value.into());
    }
}
