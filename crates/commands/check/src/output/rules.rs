//! `check --list`: the rules, and from where on they find something.

use super::rules::Judges;
use sockeye_console::args::FormatArg;
use sockeye_console::stdout;
use sockeye_output::JsonObject;
use sockeye_query::args::ListingArgs;
use sockeye_verdict::{Limit, Rule, Scope};
use std::fmt::Write as _;

pub(super) fn print(judges: &Judges, common: &ListingArgs) -> anyhow::Result<()> {
    let mut out = Vec::new();
    match common.format {
        FormatArg::Table => out = table(judges).into_bytes(),
        FormatArg::Csv => {
            if !common.no_header {
                out.extend_from_slice(b"rule,severity,scope,threshold,value,default,meaning\r\n");
            }
            for rule in judges.rules() {
                let limits: Vec<_> = of(rule).map(Some).collect();
                let limits = if limits.is_empty() { vec![None] } else { limits };
                for limit in limits {
                    let value = |number| limit.map_or_else(String::new, |limit| limit.show(number));
                    let line = format!(
                        "{rule},{},{},{},{},{},\"{}\"\r\n",
                        rule.severity(),
                        scope(rule),
                        limit.map_or_else(String::new, |limit| limit.to_string()),
                        value(limit.map_or(0, |limit| judges.limits.of(limit))),
                        value(limit.map_or(0, Limit::default)),
                        rule.meaning().replace('"', "\"\""),
                    );
                    out.extend_from_slice(line.as_bytes());
                }
            }
        }
        FormatArg::Json => {
            out.extend_from_slice(b"{\"rules\":[");
            for (nth, rule) in judges.rules().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                push_json(&mut out, rule, judges);
            }
            out.extend_from_slice(b"]}\n");
        }
        FormatArg::Jsonl => {
            for rule in judges.rules() {
                push_json(&mut out, rule, judges);
                out.push(b'\n');
            }
        }
    }
    stdout::write(&out)
}

fn table(judges: &Judges) -> String {
    let mut text = String::new();
    let width = stdout::width().unwrap_or(usize::MAX);
    for rule in judges.rules() {
        let _ = writeln!(text, "{rule}  ({})", rule.severity());
        push_wrapped(&mut text, "  ", rule.meaning(), width);
        for limit in of(rule) {
            let value = limit.show(judges.limits.of(limit));
            let is_set = judges.limits.of(limit) != limit.default();
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

fn push_json(out: &mut Vec<u8>, rule: Rule, judges: &Judges) {
    let mut object = JsonObject::begin(out);
    object.word("rule", rule.name());
    object.word("severity", rule.severity().name());
    object.word("scope", scope(rule));
    object.text("meaning", Some(rule.meaning()));
    let list = object.key("thresholds");
    list.push(b'[');
    for (nth, limit) in of(rule).enumerate() {
        if nth > 0 {
            list.push(b',');
        }
        let mut fields = JsonObject::begin(list);
        fields.text("name", Some(&limit.to_string()));
        fields.text("about", Some(limit.help()));
        fields.text("value", Some(&limit.show(judges.limits.of(limit))));
        fields.text("default", Some(&limit.show(limit.default())));
        fields.end();
    }
    list.push(b']');
    object.end();
}

fn of(rule: Rule) -> impl Iterator<Item = Limit> {
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
