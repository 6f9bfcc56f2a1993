//! `check --list`: the rules with their thresholds.

use sockeye_output::sheet::Sheet;
use sockeye_output::{Envelope, Format, JsonObject};
use sockeye_query::findings::RuleSelection;
use sockeye_verdict::{Limit, Rule, Scope};
use std::fmt::Write as _;

/// Appends the rules of a selection; `width` is that of the terminal, if it is one.
pub(crate) fn push_rules(
    out: &mut Vec<u8>,
    selection: &RuleSelection,
    format: Format,
    no_header: bool,
    width: Option<usize>,
    envelope: &Envelope,
) {
    match format {
        Format::Table => out.extend_from_slice(table(selection, width).as_bytes()),
        Format::Csv => {
            let columns = "rule,severity,scope,threshold,value,default,meaning";
            let mut sheet = Sheet::begin(out, envelope, no_header, columns);
            for rule in selection.rules() {
                let limits: Vec<_> = limits_of(rule).map(Some).collect();
                let limits = if limits.is_empty() { vec![None] } else { limits };
                for limit in limits {
                    let mut line = sheet.line();
                    line.word(rule.name());
                    line.word(rule.severity().name());
                    line.word(scope(rule));
                    line.text(limit.map(|limit| limit.to_string()).as_deref());
                    line.text(
                        limit
                            .map(|limit| limit.show(selection.limits.of(limit)))
                            .as_deref(),
                    );
                    line.text(limit.map(|limit| limit.show(limit.default())).as_deref());
                    line.text(Some(rule.meaning()));
                    line.end();
                }
            }
            sheet.end();
        }
        Format::Json => {
            let mut document = JsonObject::begin(out);
            envelope.push(&mut document, "check_rules");
            let list = document.key("rules");
            list.push(b'[');
            for (nth, rule) in selection.rules().enumerate() {
                if nth > 0 {
                    list.push(b',');
                }
                let mut object = JsonObject::begin(list);
                push_fields(&mut object, rule, selection);
                object.end();
            }
            list.push(b']');
            document.end();
            out.push(b'\n');
        }
        Format::Jsonl => {
            for rule in selection.rules() {
                let mut object = JsonObject::begin(out);
                envelope.push(&mut object, "check_rule");
                push_fields(&mut object, rule, selection);
                object.end();
                out.push(b'\n');
            }
            envelope.push_summary_line(out, "check_rules", |summary| {
                summary.number("rules", Some(selection.rules().count() as u64));
            });
        }
    }
}

fn table(selection: &RuleSelection, width: Option<usize>) -> String {
    let mut text = String::new();
    let width = width.unwrap_or(usize::MAX);
    for rule in selection.rules() {
        let _ = writeln!(text, "{rule}  ({})", rule.severity());
        push_wrapped(&mut text, "  ", rule.meaning(), width);
        for limit in limits_of(rule) {
            let value = limit.show(selection.limits.of(limit));
            let is_set = selection.limits.of(limit) != limit.default();
            let note = if is_set {
                format!("; {} if not set", limit.show(limit.default()))
            } else {
                String::new()
            };
            push_wrapped(
                &mut text,
                "  ",
                &format!("{limit}={value}  {}{note}", limit.help()),
                width,
            );
        }
        text.push('\n');
    }
    push_wrapped(
        &mut text,
        "",
        "A threshold is set by --set RULE.NAME=VALUE.",
        width,
    );
    text
}

fn push_wrapped(text: &mut String, indent: &str, line: &str, width: usize) {
    text.push_str(indent);
    let mut column = indent.len();
    for (nth, word) in line.split(' ').enumerate() {
        if nth > 0 && column + 1 + word.len() > width.max(20) {
            text.push('\n');
            text.push_str(indent);
            text.push_str("   ");
            column = indent.len() + 3;
        }
        if nth > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text.push('\n');
}

fn push_fields(object: &mut JsonObject<'_>, rule: Rule, selection: &RuleSelection) {
    object.word("rule", rule.name());
    object.word("severity", rule.severity().name());
    object.word("scope", scope(rule));
    object.text("meaning", Some(rule.meaning()));
    let list = object.key("thresholds");
    list.push(b'[');
    for (nth, limit) in limits_of(rule).enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = JsonObject::begin(list);
        fields.text("name", Some(&limit.to_string()));
        fields.text("about", Some(limit.help()));
        fields.text("value", Some(&limit.show(selection.limits.of(limit))));
        fields.text("default", Some(&limit.show(limit.default())));
        fields.end();
    }
    list.push(b']');
}

fn limits_of(rule: Rule) -> impl Iterator<Item = Limit> {
    Limit::ALL
        .iter()
        .copied()
        .filter(move |limit| limit.rule() == rule)
}

const fn scope(rule: Rule) -> &'static str {
    match rule.scope() {
        Scope::Sockets => "sockets",
        Scope::Namespace => "namespace",
        Scope::Host => "host",
    }
}
