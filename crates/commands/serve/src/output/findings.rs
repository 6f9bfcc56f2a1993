//! What a recorded check found. A check of now is shown by the document of `check` itself.

use super::moments::push_list;
use crate::recorded::RecordedFindings;
use sockeye_history::{FindingRecord, Period, PeriodEnd, RemedyText, Unseen};
use sockeye_output::{Envelope, JsonObject};

/// Appends what a check found: `docs/schema/serve.schema.json`, `$defs/recorded_findings`.
pub(crate) fn push_recorded_findings(out: &mut Vec<u8>, now: &Envelope, recorded: &RecordedFindings) {
    let mut object = JsonObject::begin(out);
    now.push(&mut object, "recorded_findings");
    object.number("checked_us", Some(recorded.check.at_ms * 1000));
    push_list(object.key("findings"), &recorded.findings, push_finding);
    push_list(object.key("not_judged"), &recorded.unseen, push_unseen);
    object.end();
}

fn push_finding(out: &mut Vec<u8>, period: &Period<FindingRecord>) {
    let found = &period.what;
    let mut fields = JsonObject::begin(out);
    fields.text("severity", Some(&found.severity.name));
    fields.text("rule", Some(&found.rule));
    fields.text("about", Some(&found.subject));
    fields.number("from_us", Some(period.began_ms * 1000));
    let (state, ended_us) = match period.end {
        PeriodEnd::There => ("there", None),
        PeriodEnd::At(at_ms) => ("ended", Some(at_ms * 1000)),
        PeriodEnd::Unknown => ("unknown", None),
    };
    fields.word("state", state);
    fields.number("to_us", ended_us);
    fields.number("last_seen_us", Some(period.last_ms * 1000));
    let owner = found.owner.as_ref();
    fields.text("comm", owner.map(|(_, comm)| comm.as_str()));
    fields.number("pid", owner.map(|(pid, _)| pid.0));
    fields.number("netns_inode", found.netns.map(|netns| netns.0));
    fields.number("sockets", Some(found.sockets));
    fields.text("example", found.example.as_deref());
    let mut facts = fields.object("facts");
    for (name, value) in &found.facts {
        facts.number(name, Some(*value));
    }
    facts.end();
    fields.text("meaning", Some(&found.meaning));
    push_list(
        fields.key("remedies"),
        &found.remedies,
        |out, remedy: &RemedyText| {
            let mut fields = JsonObject::begin(out);
            let key = if remedy.is_command { "command" } else { "advice" };
            fields.text(key, Some(&remedy.text));
            fields.end();
        },
    );
    fields.end();
}

fn push_unseen(out: &mut Vec<u8>, unseen: &Unseen) {
    let mut fields = JsonObject::begin(out);
    fields.text("kind", unseen.part.as_deref());
    fields.text("text", Some(&unseen.why));
    fields.end();
}
