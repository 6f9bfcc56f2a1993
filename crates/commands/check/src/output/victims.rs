//! Whom drops hit: the lines and the JSON key of a finding.

use sockeye_output::json::Object;
use sockeye_output::socket::push_process_fields;
use sockeye_output::text::push_clean;
use sockeye_output::wrap::push_wrapped;
use sockeye_verdict::{Finding, Victim};
use std::net::SocketAddr;

/// Appends a line for each: `dropped 2626 SOCKET_RCVBUFF  127.0.0.53:53 <-> 127.0.0.1:40910  dnscache(8)`.
pub(super) fn push_text(out: &mut Vec<u8>, finding: &Finding, width: Option<usize>) {
    for victim in &finding.victims {
        let mut line = format!("dropped {}", victim.event.count).into_bytes();
        if let Some(reason) = &victim.event.reason {
            line.push(b' ');
            push_clean(&mut line, reason.as_bytes());
        }
        let end = |end: Option<SocketAddr>| end.map_or_else(|| "*".to_owned(), |end| end.to_string());
        if victim.local.is_some() || victim.peer.is_some() {
            // Without a socket the kernel's drops are counted by their place: only the latest packet's ends are known.
            let latest = if victim.event.socket.is_none() && victim.event.count > 1 {
                "the latest "
            } else {
                ""
            };
            let ends = format!("  {latest}{} <-> {}", end(victim.local), end(victim.peer));
            line.extend_from_slice(ends.as_bytes());
        }
        if let Some(owner) = &victim.owner {
            line.extend_from_slice(b"  ");
            push_clean(&mut line, owner.comm.as_bytes());
            line.extend_from_slice(format!("({})", owner.pid).as_bytes());
        }
        push_wrapped(out, &line, "    ", width);
    }
    if finding.victims_left_out > 0 {
        let text = format!("    ... and drops of {} more\n", finding.victims_left_out);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends `victims`, if there are any.
pub(super) fn push_json(object: &mut Object<'_>, finding: &Finding) {
    if finding.victims.is_empty() {
        return;
    }
    let list = object.key("victims");
    list.push(b'[');
    for (nth, victim) in finding.victims.iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        push_victim(list, victim);
    }
    list.push(b']');
    object.number(
        "victims_left_out",
        Some(finding.victims_left_out).filter(|count| *count > 0),
    );
}

fn push_victim(out: &mut Vec<u8>, victim: &Victim) {
    let event = &victim.event;
    let mut fields = Object::begin(out);
    fields.number("count", Some(event.count));
    fields.text("reason", event.reason.as_deref());
    fields.number("netns_inode", event.netns.map(|netns| netns.0));
    fields.bytes(
        "device",
        event.device.as_ref().map(sockeye_model::ShortText::as_bytes),
    );
    fields.number("protocol_number", event.transport);
    fields.number("inode", event.socket.map(|inode| inode.0));
    for (name, end) in [("local", victim.local), ("peer", victim.peer)] {
        if let Some(end) = end {
            let mut fields = fields.object(name);
            fields.text("ip", Some(&end.ip().to_string()));
            fields.number("port", Some(end.port()));
            fields.end();
        }
    }
    if let Some(owner) = &victim.owner {
        let list = fields.key("owners");
        list.push(b'[');
        let mut process = Object::begin(list);
        push_process_fields(&mut process, owner);
        process.end();
        list.push(b']');
    }
    fields.end();
}
