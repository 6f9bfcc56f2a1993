//! A finding as a JSON object: `docs/schema/check.schema.json`.

use super::{FindingsLayout, end};
use sockeye_model::Names;
use sockeye_output::json::Object;
use sockeye_output::socket::{push_endpoint, push_process_fields};
use sockeye_query::findings::CheckedScope;
use sockeye_verdict::{Example, Facts, Finding, Subject};

pub(super) fn push_fields(
    object: &mut Object<'_>,
    finding: &Finding,
    layout: &FindingsLayout,
    names: &dyn Names,
) {
    object.word("rule", finding.rule.name());
    object.word("severity", finding.severity.name());
    object.text("meaning", Some(finding.meaning));
    if let Some(inode) = finding.netns {
        object.number("netns_inode", Some(inode.0));
        object.text("netns", names.netns(inode));
    }
    if !finding.more_netns.is_empty() {
        object.objects("more_netns", &finding.more_netns, |fields, inode| {
            fields.number("netns_inode", Some(inode.0));
            fields.text("netns", names.netns(*inode));
        });
    }
    push_subject(object, &finding.subject, names);
    if let Some(owner) = &finding.owner {
        let list = object.key("owners");
        list.push(b'[');
        let mut fields = Object::begin(list);
        push_process_fields(&mut fields, owner);
        fields.end();
        list.push(b']');
    }
    object.number("owner_count", Some(finding.owners).filter(|owners| *owners > 1));
    if let Some(state) = &finding.owner_state {
        let mut fields = object.object("owner_state");
        fields.text("letter", Some(&char::from(state.letter).to_string()));
        fields.text("name", state.name());
        let waits_in = state.waits_in.as_bytes();
        fields.bytes("waits_in", Some(waits_in).filter(|name| !name.is_empty()));
        if let Some(tracer) = &state.tracer {
            let mut process = fields.object("tracer");
            push_process_fields(&mut process, tracer);
            process.end();
        }
        fields.end();
    }
    push_facts(object, &finding.facts);
    let mut changed = layout.limits.changed(finding.rule).peekable();
    if changed.peek().is_some() {
        let list = object.key("thresholds");
        list.push(b'[');
        for (nth, limit) in changed.enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            let mut fields = Object::begin(list);
            fields.word("name", &limit.to_string());
            fields.word("value", &limit.show(layout.limits.of(limit)));
            fields.word("default", &limit.show(limit.default()));
            fields.end();
        }
        list.push(b']');
    }
    object.number("sockets", Some(finding.sockets));
    let list = object.key("examples");
    list.push(b'[');
    for (nth, example) in finding.examples.iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        push_example(list, example, names);
    }
    list.push(b']');
    super::victims::push_json(object, finding);
    let list = object.key("remedies");
    list.push(b'[');
    for (nth, (text, is_command)) in layout.remedy_access.remedies(finding).iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = Object::begin(list);
        fields.text(if *is_command { "command" } else { "advice" }, Some(text));
        fields.end();
    }
    list.push(b']');
}

/// Appends how much was checked.
pub(super) fn push_checked(object: &mut Object<'_>, checked: &CheckedScope) {
    let mut fields = object.object("checked");
    fields.number("sockets", Some(checked.seen.sockets));
    fields.number("sockets_without_info", Some(checked.seen.without_info));
    fields.number("sockets_left_out", Some(checked.seen.left_out));
    fields.number("namespaces", Some(checked.seen.namespaces));
    fields.number("devices", Some(checked.seen.devices));
    fields.number("rules", Some(checked.rules as u64));
    fields.number("findings_hidden", Some(checked.hidden as u64));
    fields.number("took_ms", Some(checked.took_ms));
    fields.number("interval_ms", checked.interval_ms);
    fields.boolean("drops_watched", checked.drops_watched);
    if !checked.on_host_only.is_empty() {
        let list = fields.key("on_host_only");
        list.push(b'[');
        for (nth, rule) in checked.on_host_only.iter().enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            list.extend_from_slice(format!("\"{rule}\"").as_bytes());
        }
        list.push(b']');
    }
    fields.end();
    let list = object.key("not_judged");
    list.push(b'[');
    for (nth, gap) in checked.not_judged.iter().enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = Object::begin(list);
        fields.word("kind", gap.kind);
        fields.number("count", Some(gap.count));
        fields.text("text", Some(&gap.text));
        if !gap.rules.is_empty() {
            let rules = fields.key("rules");
            rules.push(b'[');
            for (nth, rule) in gap.rules.iter().enumerate() {
                if nth > 0 {
                    rules.push(b',');
                }
                rules.extend_from_slice(format!("\"{rule}\"").as_bytes());
            }
            rules.push(b']');
        }
        fields.text("remedy", gap.remedy.as_deref());
        fields.end();
    }
    list.push(b']');
}

fn push_subject(object: &mut Object<'_>, subject: &Subject, names: &dyn Names) {
    let mut fields = object.object("subject");
    match subject {
        Subject::Sockets => fields.word("kind", "sockets"),
        Subject::Listener(local) => {
            fields.word("kind", "listener");
            push_endpoint(&mut fields, "local", local, &end(*local), names);
        }
        Subject::Service { local, peer } => {
            fields.word("kind", "service");
            push_endpoint(&mut fields, "local", local, &end(*local), names);
            push_endpoint(&mut fields, "peer", peer, &end(*peer), names);
        }
        Subject::NextHop { ip, device } => {
            fields.word("kind", "next_hop");
            fields.text("ip", Some(&ip.to_string()));
            fields.bytes("device", device.as_ref().map(sockeye_model::ShortText::as_bytes));
        }
        Subject::Device(name) => {
            fields.word("kind", "device");
            fields.bytes("device", Some(name.as_bytes()));
        }
        Subject::Qdisc { device, kind } => {
            fields.word("kind", "qdisc");
            fields.bytes("device", Some(device.as_bytes()));
            fields.bytes("qdisc", Some(kind.as_bytes()));
        }
        Subject::FirewallRule(name) => {
            fields.word("kind", "firewall_rule");
            fields.text("family", Some(&name.family.to_string()));
            fields.text("table", Some(&name.table));
            fields.text("chain", Some(&name.chain));
            fields.number("handle", name.handle);
        }
        Subject::Counter(counter) => {
            fields.word("kind", "counter");
            fields.text("counter", Some(&counter.to_string()));
        }
        Subject::Processor(number) => {
            fields.word("kind", "processor");
            fields.number("processor", Some(*number));
        }
        Subject::Table(name) => {
            fields.word("kind", "table");
            fields.bytes("table", Some(name.as_bytes()));
        }
        Subject::Namespace => fields.word("kind", "namespace"),
        Subject::Host => fields.word("kind", "host"),
        Subject::Process => fields.word("kind", "process"),
    }
    fields.end();
}

fn push_example(out: &mut Vec<u8>, example: &Example, names: &dyn Names) {
    let socket = example.socket();
    let mut object = Object::begin(out);
    object.word("netid", socket.protocol.name());
    object.word("state", socket.state.snake_name());
    push_endpoint(&mut object, "local", &socket.local, &socket, names);
    push_endpoint(&mut object, "peer", &socket.peer, &socket, names);
    object.number("inode", example.inode.map(|inode| inode.0));
    if let Some(uid) = socket.uid {
        object.number("uid", Some(uid.0));
        object.text("user", names.user(uid));
    }
    push_facts(&mut object, &example.facts);
    object.end();
}

fn push_facts(object: &mut Object<'_>, facts: &Facts) {
    let mut fields = object.object("facts");
    for fact in facts.iter() {
        fields.number(fact.name, Some(fact.value));
    }
    fields.end();
}
