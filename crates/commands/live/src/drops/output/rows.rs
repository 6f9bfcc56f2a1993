//! The columns of drops.

use super::super::rows::DropRow;
use super::push_headers;
use sockeye_model::FirewallRuleName;
use sockeye_output::csv::Line;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;
use sockeye_wire::drops::Headers;
use std::net::{IpAddr, SocketAddr};

/// Drops as records: `docs/schema/drops.schema.json`, `$defs/drop`.
#[derive(Debug)]
pub(in super::super) struct Drops;

impl Record for Drops {
    type Row<'a> = &'a DropRow;

    const KEY: &'static str = "drops";
    const ROW: &'static str = "drop";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type DropColumn = Column<Drops>;

/// All columns, in the order of CSV.
static COLUMNS: &[DropColumn] = &[
    DropColumn::value(
        "class",
        "Class",
        Left,
        "What it means: loss, policy, refusal, normal",
        |row, _| row.class.map_or(Value::Absent, |class| Value::Word(class.name())),
    ),
    DropColumn::value("reason", "Reason", Left, "The kernel's reason", |row, _| {
        text(row.reason.as_deref())
    }),
    DropColumn::value("count", "Count", Right, "Number of packets", |row, _| {
        Value::Number(row.count)
    }),
    DropColumn::value(
        "estimated",
        "Estimated",
        Right,
        "How many of them are estimated from a sample (--cpu)",
        |row, _| Value::number(Some(row.estimated).filter(|estimated| *estimated > 0)),
    ),
    DropColumn::value(
        "bytes",
        "Bytes",
        Right,
        "Their length, from the network header on",
        |row, _| Value::number(row.bytes),
    ),
    DropColumn::value("protocol", "Proto", Left, "Protocol", |row, _| {
        text(row.protocol_name.as_deref())
    }),
    DropColumn::composite(
        "process",
        "Owner",
        Left,
        "Process that owns the socket",
        &Owner,
        &["comm", "pid", "other_owners", "owner_by"],
        &["process", "other_owners", "owner_by"],
    ),
    DropColumn::value(
        "sockets",
        "Sockets",
        Right,
        "Number of sockets of the owner, if there are several",
        |row, _| Value::number(Some(row.sockets).filter(|sockets| *sockets > 1)),
    ),
    DropColumn::composite(
        "local",
        "Local",
        Left,
        "Local address of the socket",
        &Local,
        &["local_ip", "local_port"],
        &["local"],
    ),
    DropColumn::composite(
        "peer",
        "Peer",
        Left,
        "Peer of the socket",
        &Peer,
        &["peer_ip", "peer_port"],
        &["peer"],
    ),
    DropColumn::composite(
        "seen_packets",
        "Latest packet",
        Left,
        "Addresses of a packet, the latest of some; in JSON all that were kept",
        &Packet,
        &["source_ip", "source_port", "destination_ip", "destination_port"],
        &["seen_packets"],
    ),
    DropColumn::value("device", "Device", Left, "Network device", |row, _| {
        row.device
            .as_ref()
            .map_or(Value::Absent, |device| Value::Name(device.as_bytes()))
    }),
    DropColumn::composite(
        "netns",
        "Netns",
        Left,
        "Network namespace",
        &Netns,
        &["netns", "netns_inode"],
        &["netns", "netns_inode"],
    ),
    DropColumn::composite(
        "function",
        "Place",
        Left,
        "Function of the kernel that dropped",
        &Place,
        &["function", "module"],
        &["function", "module"],
    )
    .for_later(1),
    DropColumn::composite(
        "firewall_rule",
        "Rule",
        Left,
        "Rule of the packet filter that dropped the kept packets, or how many it can be",
        &Rule,
        &[
            "firewall_family",
            "firewall_table",
            "firewall_chain",
            "firewall_handle",
            "firewall_rules",
        ],
        &["firewall_rule", "firewall_rules"],
    ),
    DropColumn::value(
        "evicted",
        "Evicted",
        Left,
        "Whether everything but the reason was evicted",
        |row, _| {
            if row.is_evicted {
                Value::Bool(true)
            } else {
                Value::Absent
            }
        },
    ),
];

fn text(text: Option<&str>) -> Value<'_> {
    Value::text(text.map(str::as_bytes))
}

/// Writes an absent cell or a text.
pub(super) fn push_text(out: &mut Vec<u8>, text: Option<&str>) -> Tint {
    push_clean(out, text.unwrap_or_default().as_bytes());
    Tint::None
}

fn sort_text(text: Option<String>) -> Option<SortValue> {
    text.map(|text| SortValue::Text(text.as_bytes().into()))
}

pub(super) struct Owner;
struct Local;
struct Peer;
struct Packet;
struct Netns;
struct Place;
struct Rule;

impl Composite<Drops> for Owner {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        push_text(out, row.owner_text().as_deref())
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        Self::push_fields_csv(line, row);
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        Self::push_fields_json(object, row);
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        sort_text(row.owner_text())
    }
}

impl Owner {
    pub(super) fn push_fields_csv(line: &mut Line<'_>, row: &DropRow) {
        let owner = row.owner.as_ref();
        line.bytes(owner.map(|owner| owner.process.comm.as_bytes()));
        line.number(owner.map(|owner| owner.process.pid.0));
        line.number(owner.map(|owner| owner.others as u64));
        line.word(row.owner_by().unwrap_or(""));
    }

    pub(super) fn push_fields_json(object: &mut Object<'_>, row: &DropRow) {
        if let Some(owner) = &row.owner {
            let mut process = object.object("process");
            process.bytes("comm", Some(owner.process.comm.as_bytes()));
            process.number("pid", Some(owner.process.pid.0));
            process.end();
            object.number("other_owners", Some(owner.others as u64));
        }
        if let Some(owner_by) = row.owner_by() {
            object.word("owner_by", owner_by);
        }
    }
}

impl Composite<Drops> for Local {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        push_text(out, local_text(row).as_deref())
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        line.text(row.local.map(|end| end.ip().to_string()).as_deref());
        line.number(row.local.filter(|_| row.sockets == 1).map(|end| end.port()));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        let port = |end: SocketAddr| Some(end.port()).filter(|_| row.sockets == 1);
        push_end_json(object, "local", row.local.map(|end| (end.ip(), port(end))));
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        sort_text(local_text(row))
    }
}

/// Returns the local address: of several sockets `10.0.0.1:many`.
fn local_text(row: &DropRow) -> Option<String> {
    let local = row.local?;
    Some(match (row.sockets, local) {
        (1, local) => local.to_string(),
        (_, SocketAddr::V4(local)) => format!("{}:many", local.ip()),
        (_, SocketAddr::V6(local)) => format!("[{}]:many", local.ip()),
    })
}

impl Composite<Drops> for Peer {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        push_text(out, row.peer.map(|end| end.to_string()).as_deref())
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        push_end_csv(line, row.peer);
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        push_end_json(object, "peer", row.peer.map(|end| (end.ip(), Some(end.port()))));
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        sort_text(row.peer.map(|end| end.to_string()))
    }
}

impl Composite<Drops> for Packet {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        if let Some(headers) = row.samples.last() {
            push_headers(out, headers);
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        push_headers_csv(line, row.samples.last());
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        if !row.samples.is_empty() {
            object.objects("seen_packets", &row.samples, push_headers_json);
        }
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        let mut text = Vec::new();
        push_headers(&mut text, row.samples.last()?);
        Some(SortValue::Text(text.as_slice().into()))
    }
}

/// Writes the addresses of a packet.
pub(super) fn push_headers_json(fields: &mut Object<'_>, headers: &Headers) {
    push_end_json(fields, "source", Some((headers.source, headers.source_port)));
    push_end_json(
        fields,
        "destination",
        Some((headers.destination, headers.destination_port)),
    );
}

/// Writes them as four fields.
pub(super) fn push_headers_csv(line: &mut Line<'_>, headers: Option<&Headers>) {
    let ends = headers.map(|headers| {
        [
            (headers.source, headers.source_port),
            (headers.destination, headers.destination_port),
        ]
    });
    for place in 0..2 {
        let end = ends.map(|ends| ends[place]);
        line.text(end.map(|(ip, _)| ip.to_string()).as_deref());
        line.number(end.and_then(|(_, port)| port));
    }
}

/// Writes an address and, if there is one, a port.
fn push_end_json(object: &mut Object<'_>, key: &str, end: Option<(IpAddr, Option<u16>)>) {
    if let Some((ip, port)) = end {
        let mut fields = object.object(key);
        fields.text("ip", Some(&ip.to_string()));
        fields.number("port", port);
        fields.end();
    }
}

fn push_end_csv(line: &mut Line<'_>, end: Option<SocketAddr>) {
    line.text(end.map(|end| end.ip().to_string()).as_deref());
    line.number(end.map(|end| end.port()));
}

impl Composite<Drops> for Netns {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        match (&row.netns_name, row.netns) {
            (Some(name), _) => push_clean(out, name.as_bytes()),
            (None, Some(inode)) => out.extend_from_slice(inode.to_string().as_bytes()),
            (None, None) => {}
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        line.text(row.netns_name.as_deref());
        line.number(row.netns.map(|netns| netns.0));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        object.text("netns", row.netns_name.as_deref());
        object.number("netns_inode", row.netns.map(|netns| netns.0));
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        row.netns.map(|netns| SortValue::Number(netns.0.into()))
    }
}

impl Composite<Drops> for Place {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        if row.is_evicted {
            out.extend_from_slice(b"(evicted)");
        }
        push_text(out, row.place.as_deref());
        if let Some(module) = &row.module {
            push_clean(out, format!(" [{module}]").as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        line.text(row.place.as_deref());
        line.text(row.module.as_deref());
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        object.text("function", row.place.as_deref());
        object.text("module", row.module.as_deref());
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        sort_text(row.place.clone())
    }
}

impl Composite<Drops> for Rule {
    fn push_cell(&self, out: &mut Vec<u8>, row: &&DropRow) -> Tint {
        push_rule(out, row)
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &&DropRow) {
        push_rule_csv(line, row);
    }

    fn push_json(&self, object: &mut Object<'_>, row: &&DropRow) {
        push_rule_json(object, row);
    }

    fn sort_value(&self, row: &&DropRow) -> Option<SortValue> {
        sort_text(rule_cell(row))
    }
}

pub(super) fn push_rule(out: &mut Vec<u8>, row: &DropRow) -> Tint {
    push_text(out, rule_cell(row).as_deref())
}

/// Returns the rule, or of how many it is one.
pub(super) fn rule_cell(row: &DropRow) -> Option<String> {
    let of_several = || (!row.rules.is_empty()).then(|| format!("one of {} rules", row.rules.len()));
    row.rule.as_ref().map(rule_text).or_else(of_several)
}

pub(super) fn push_rule_csv(line: &mut Line<'_>, row: &DropRow) {
    let rule = row.rule.as_ref();
    line.text(rule.map(|rule| rule.family.to_string()).as_deref());
    line.text(rule.map(|rule| &*rule.table));
    line.text(rule.map(|rule| &*rule.chain));
    line.number(rule.and_then(|rule| rule.handle));
    let rules: Vec<String> = row.rules.iter().map(rule_text).collect();
    line.text((!rules.is_empty()).then(|| rules.join("; ")).as_deref());
}

pub(super) fn push_rule_json(object: &mut Object<'_>, row: &DropRow) {
    if let Some(rule) = &row.rule {
        let mut fields = object.object("firewall_rule");
        push_rule_fields(&mut fields, rule);
        fields.end();
    }
    if !row.rules.is_empty() {
        object.objects("firewall_rules", &row.rules, push_rule_fields);
    }
}

fn push_rule_fields(fields: &mut Object<'_>, rule: &FirewallRuleName) {
    fields.text("family", Some(&rule.family.to_string()));
    fields.text("table", Some(&rule.table));
    fields.text("chain", Some(&rule.chain));
    fields.number("handle", rule.handle);
}

/// Returns a rule as nft names it: `inet filter input 7`; of a chain's policy `policy` in place of the number.
pub(in super::super) fn rule_text(rule: &FirewallRuleName) -> String {
    let handle = rule
        .handle
        .map_or_else(|| "policy".to_owned(), |handle| handle.to_string());
    format!("{} {} {} {handle}", rule.family, rule.table, rule.chain)
}

/// Returns the names of the columns of a table.
pub(in super::super) fn table_columns(netns: bool, rule: bool, estimated: bool, sockets: bool) -> String {
    let estimated = if estimated { ",estimated" } else { "" };
    let sockets = if sockets { ",sockets" } else { "" };
    let rule = if rule { ",firewall_rule" } else { "" };
    let netns = if netns { ",netns" } else { "" };
    format!("class,reason,count{estimated},process{sockets},seen_packets,device{netns}{rule},function")
}
