//! Whom drops hit: the JSON key of a finding.

use sockeye_output::json::Object;
use sockeye_output::socket::push_process_fields;
use sockeye_verdict::{Finding, Victim};

/// Appends `victims`, if there are any.
pub(super) fn push_json(object: &mut Object<'_>, finding: &Finding) {
    if finding.victims.is_empty() {
        return;
    }
    object.objects("victims", &finding.victims, push_victim_fields);
    object.number(
        "victims_left_out",
        Some(finding.victims_left_out).filter(|count| *count > 0),
    );
}

fn push_victim_fields(fields: &mut Object<'_>, victim: &Victim) {
    let event = &victim.event;
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
    if let Some(refused) = &victim.refused {
        fields.word("full_queue", refused.queue.name());
        fields.word("refusal", refused.how.name());
        if refused.is_at_least {
            fields.key("at_least").extend_from_slice(b"[\"count\"]");
        }
    }
    fields.boolean("latest_only", victim.has_ends_of_latest_only().then_some(true));
    if let Some(owner) = &victim.owner {
        fields.objects("owners", [owner], push_process_fields);
    }
}
