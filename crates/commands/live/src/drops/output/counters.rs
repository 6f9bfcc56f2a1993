//! The columns of counters that moved.

use sockeye_drops::{CounterLine, CounterSubject, Part};
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value, push_json_row};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;

/// A counter with the names of what it belongs to.
#[derive(Debug, Clone)]
pub(in super::super) struct NamedLine {
    pub(in super::super) line: CounterLine,
    /// Name as `nstat` writes it, or what it is.
    pub(in super::super) name: String,
    /// The device, the socket or the rule.
    pub(in super::super) of: Option<String>,
    pub(in super::super) netns_name: Option<String>,
    /// Name of its entry for `sockeye explain`.
    pub(in super::super) explain: Option<&'static str>,
    /// What `check` advises, as it is typed here for the namespace.
    pub(in super::super) advice: Option<String>,
    /// Whether drops were watched: else nothing is explained, and nothing remains.
    pub(in super::super) is_watched: bool,
}

impl NamedLine {
    /// Returns what no drop explains; `None` if that is unknown.
    fn remainder(&self) -> Option<i64> {
        self.line.remainder.filter(|_| self.is_watched)
    }
}

/// Counters as records: `docs/schema/drops.schema.json`, `$defs/counter`.
#[derive(Debug)]
pub(in super::super) struct DropCounters;

impl Record for DropCounters {
    type Row<'a> = &'a NamedLine;

    const KEY: &'static str = "counters";
    const ROW: &'static str = "drop_counter";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type CounterColumn = Column<DropCounters>;

/// All columns, in the order of CSV.
static COLUMNS: &[CounterColumn] = &[
    CounterColumn::value("counter", "Counter", Left, "The counter", |line, _| {
        Value::Text(line.name.as_bytes())
    }),
    CounterColumn::value(
        "of",
        "Of",
        Left,
        "The device, the socket or the rule that has it",
        |line, _| Value::text(line.of.as_deref().map(str::as_bytes)),
    ),
    CounterColumn::composite(
        "moved",
        "Moved",
        Right,
        "By how much it moved",
        &MovedBy,
        &["moved"],
        &["moved"],
    ),
    CounterColumn::composite(
        "explained",
        "Explained by",
        Left,
        "The drops that explain it: number, reason, owner",
        &Explained,
        &["explained_by"],
        &["explained_by"],
    )
    .uncapped(),
    CounterColumn::composite(
        "remainder",
        "Remainder",
        Right,
        "What no drop explains; negative: more drops were seen than it counts",
        &Remainder,
        &["remainder"],
        &["remainder"],
    ),
    CounterColumn::composite(
        "netns",
        "Netns",
        Left,
        "Network namespace",
        &Netns,
        &["netns", "netns_inode"],
        &["netns", "netns_inode"],
    ),
    CounterColumn::value(
        "explain",
        "Explain",
        Left,
        "Its entry for sockeye explain",
        |line, _| Value::text(line.explain.map(str::as_bytes)),
    ),
    CounterColumn::value(
        "advice",
        "Advice",
        Left,
        "What sockeye check advises",
        |line, _| Value::text(line.advice.as_deref().map(str::as_bytes)),
    )
    .for_later(1),
];

struct MovedBy;
struct Explained;
struct Remainder;
struct Netns;

impl Composite<DropCounters> for MovedBy {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&NamedLine) -> Tint {
        if let Some(delta) = row.line.moved.delta {
            out.extend_from_slice(format!("+{delta}").as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&NamedLine) {
        line.number(row.line.moved.delta);
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&NamedLine) {
        object.number("moved", row.line.moved.delta);
    }

    fn sort_value(&self, row: &&NamedLine) -> Option<SortValue> {
        row.line.moved.delta.map(SortValue::Number)
    }
}

impl Composite<DropCounters> for Explained {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&NamedLine) -> Tint {
        push_parts(out, &row.line.parts, SHOWN_MAX);
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&NamedLine) {
        let mut text = Vec::new();
        push_parts(&mut text, &row.line.parts, usize::MAX);
        line.bytes(Some(&text));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&NamedLine) {
        if !row.is_watched {
            return;
        }
        let out = object.key("explained_by");
        out.push(b'[');
        for (number, part) in row.line.parts.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            fields.number("count", Some(part.count));
            fields.text("cause", Some(&part.cause));
            fields.text("owner_name", part.owner.as_deref());
            fields.end();
        }
        out.push(b']');
    }

    fn sort_value(&self, row: &&NamedLine) -> Option<SortValue> {
        Some(SortValue::Number(row.line.parts.first()?.count))
    }
}

/// Appends `36 by accept queue of gunicorn(4711), 2 by SOCKET_FILTER`.
fn push_parts(out: &mut Vec<u8>, parts: &[Part], most: usize) {
    for (number, part) in parts.iter().take(most).enumerate() {
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(format!("{} by ", part.count).as_bytes());
        push_clean(out, part.cause.as_bytes());
        if let Some(owner) = &part.owner {
            out.extend_from_slice(b" of ");
            push_clean(out, owner.as_bytes());
        }
    }
    if parts.len() > most {
        let rest: u64 = parts[most..].iter().map(|part| part.count).sum();
        out.extend_from_slice(format!(", {rest} by {} others", parts.len() - most).as_bytes());
    }
}

impl Composite<DropCounters> for Remainder {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&NamedLine) -> Tint {
        let Some(remainder) = row.remainder() else {
            return Tint::None;
        };
        out.extend_from_slice(remainder.to_string().as_bytes());
        match remainder {
            0 => Tint::None,
            _ => Tint::Yellow,
        }
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&NamedLine) {
        let text = row.remainder().map(|remainder| remainder.to_string());
        line.text(text.as_deref());
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&NamedLine) {
        if let Some(remainder) = row.remainder() {
            object
                .key("remainder")
                .extend_from_slice(remainder.to_string().as_bytes());
        }
    }

    fn sort_value(&self, row: &&NamedLine) -> Option<SortValue> {
        row.remainder()
            .map(|remainder| SortValue::Number(remainder.unsigned_abs()))
    }
}

impl Composite<DropCounters> for Netns {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&NamedLine) -> Tint {
        match (&row.netns_name, row.line.moved.netns) {
            (Some(name), _) => push_clean(out, name.as_bytes()),
            (None, Some(inode)) => out.extend_from_slice(inode.to_string().as_bytes()),
            (None, None) => {}
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&NamedLine) {
        line.text(row.netns_name.as_deref());
        line.number(row.line.moved.netns.map(|netns| netns.0));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&NamedLine) {
        object.text("netns", row.netns_name.as_deref());
        object.number("netns_inode", row.line.moved.netns.map(|netns| netns.0));
    }

    fn sort_value(&self, row: &&NamedLine) -> Option<SortValue> {
        row.line
            .moved
            .netns
            .map(|netns| SortValue::Number(netns.0.into()))
    }
}

/// Returns the name of a counter.
pub(in super::super) fn counter_name(subject: &CounterSubject) -> String {
    match subject {
        CounterSubject::Protocol(counter) => counter.to_string(),
        CounterSubject::Backlog => "softnet_stat.dropped".to_owned(),
        CounterSubject::Qdisc(_) => "qdisc drops".to_owned(),
        CounterSubject::Received(_) => "rx_dropped".to_owned(),
        CounterSubject::Sent(_) => "tx_dropped".to_owned(),
        CounterSubject::Socket(_) => "sk_drops".to_owned(),
        CounterSubject::FirewallRule(_) => "nft packets".to_owned(),
    }
}

/// Writes the counters into a document of drops.
pub(in super::super) fn push_counter_lines(object: &mut Object<'_>, lines: &[NamedLine]) {
    let out = object.key(DropCounters::KEY);
    out.push(b'[');
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        push_json_row::<DropCounters>(out, &line);
    }
    out.push(b']');
}

/// Writes the number of drops of each reason into the summary.
pub(in super::super) fn push_sums(object: &mut Object<'_>, by_reason: &[(String, u64)]) {
    let out = object.key("counted_by_reason");
    out.push(b'[');
    for (number, (reason, count)) in by_reason.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        let mut fields = Object::begin(out);
        fields.text("reason", Some(reason));
        fields.number("count", Some(*count));
        fields.end();
    }
    out.push(b']');
}

/// Parts that a table shows.
const SHOWN_MAX: usize = 3;
