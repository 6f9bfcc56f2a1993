//! What there was in a capture, and what of it could not be looked at.

use super::text::time;
use sockeye_output::json::{Object, json_string};
use sockeye_output::number::push_decimal;
use sockeye_output::text::harmless;
use sockeye_output::wrap::push_wrapped;

/// Counts of one capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureTally {
    /// Packets
    pub packets: u64,
    /// Of these, TCP segments
    pub segments: u64,
    /// From the first packet to the last, in nanoseconds
    pub duration_ns: u64,
    /// Connections
    pub connections: u64,
    /// Of these, those that were asked for
    pub matching: u64,
    /// Of these, those that were listed
    pub listed: u64,
    /// UDP
    pub datagrams: u64,
    /// Other packets of IP
    pub other_ip: u64,
    /// Packets of something else
    pub not_ip: u64,
    /// Parts of IP packets that were not complete, or not of TCP
    pub fragments: u64,
    /// Packets that are cut off before it is told what they are, or contradict themselves
    pub undecodable: u64,
    /// Segments with a wrong checksum
    pub bad_checksums: u64,
    /// Packets that are too long to be any
    pub too_long: u64,
    /// Packets of interfaces that the file does not describe
    pub of_unknown_interfaces: u64,
    /// Packets without a time of their own
    pub without_time: u64,
    /// Segments whose time is before that of the one before them
    pub times_backwards: u64,
    /// Connections that were given up early as there were too many at once
    pub connections_cut_short: u64,
    /// Segments whose acknowledgement was not waited for as too many were waiting
    pub not_waited_for: u64,
    /// Packets that whoever captured could not keep up with, where the file tells
    pub dropped: Option<u64>,
    /// Whether the file ends in the middle of something
    pub is_cut: bool,
    /// Whether somebody ended the reading before the end
    pub is_interrupted: bool,
}

impl CaptureTally {
    pub(super) fn push_text(&self, out: &mut Vec<u8>, interfaces: &[String], width: Option<usize>) {
        let mut line = String::new();
        let count = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let more = self.matching.saturating_sub(self.listed);
        if more > 0 && self.listed > 0 {
            let more = format!(
                "... and {} smaller {}; --top {} shows all",
                more,
                if more == 1 { "one" } else { "ones" },
                self.matching
            );
            push_wrapped(out, more.as_bytes(), "", width);
            out.push(b'\n');
        }
        if self.connections == 0 {
            line.push_str("No TCP connection");
        } else if self.matching < self.connections {
            line.push_str(&format!(
                "{} of {}",
                self.matching,
                count(self.connections, "connection")
            ));
        } else {
            line.push_str(&count(self.connections, "connection"));
        }
        line.push_str(&format!(
            " in {}, {} of TCP, {}{}{}",
            count(self.packets, "packet"),
            self.segments,
            time(self.duration_ns),
            captured_on(interfaces),
            if self.is_interrupted {
                "; interrupted, there is more"
            } else {
                ""
            }
        ));
        push_wrapped(out, line.as_bytes(), "", width);
    }

    pub(super) fn push_json_fields(&self, out: &mut Vec<u8>, interfaces: &[String]) {
        let mut fields = Object::inside(out);
        for (name, count) in self.counts() {
            fields.number(name, Some(count));
        }
        if !interfaces.is_empty() {
            let names: Vec<_> = interfaces.iter().map(|name| json_string(name)).collect();
            let list = fields.key("interfaces");
            list.extend_from_slice(format!("[{}]", names.join(",")).as_bytes());
        }
        fields.number("dropped", self.dropped);
        fields.boolean("is_cut", Some(self.is_cut));
        fields.boolean("is_interrupted", Some(self.is_interrupted));
        let out = fields.key("schema_version");
        push_decimal(out, sockeye_output::SCHEMA_VERSION.into());
    }

    /// Each count by its name in JSON.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 18] {
        [
            ("packets", self.packets),
            ("segments", self.segments),
            ("duration_ns", self.duration_ns),
            ("connections_found", self.connections),
            ("connections_matching", self.matching),
            ("connections_listed", self.listed),
            ("datagrams", self.datagrams),
            ("other_ip", self.other_ip),
            ("not_ip", self.not_ip),
            ("fragments", self.fragments),
            ("undecodable", self.undecodable),
            ("bad_checksums", self.bad_checksums),
            ("too_long", self.too_long),
            ("of_unknown_interfaces", self.of_unknown_interfaces),
            ("without_time", self.without_time),
            ("times_backwards", self.times_backwards),
            ("connections_cut_short", self.connections_cut_short),
            ("not_waited_for", self.not_waited_for),
        ]
    }
}

/// Names of interfaces, of many the first ones.
fn captured_on(interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        return String::new();
    }
    let few: Vec<_> = interfaces
        .iter()
        .take(NAMED)
        .map(|name| harmless(name.as_bytes()))
        .collect();
    let more = match interfaces.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", captured on {}{more}", few.join(", "))
}

/// So many interfaces are named.
const NAMED: usize = 4;
