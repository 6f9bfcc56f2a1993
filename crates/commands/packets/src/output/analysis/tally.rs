//! Counts of a capture: packets, connections, and what was skipped.

use super::UnsupportedLinks;
use super::quantity::time;
use sockeye_model::counted;
use sockeye_output::json::{Object, json_string};
use sockeye_output::text::harmless;
use sockeye_output::wrap::push_wrapped;

/// Counts of one capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureTally {
    /// Packets.
    pub packets: u64,
    /// Packets that are TCP segments.
    pub segments: u64,
    /// Nanoseconds from the first packet to the last.
    pub duration_ns: u64,
    /// Connections.
    pub connections: u64,
    /// Connections that match the filter.
    pub matching: u64,
    /// Connections that were listed.
    pub listed: u64,
    /// UDP datagrams.
    pub datagrams: u64,
    /// Other IP packets.
    pub other_ip: u64,
    /// Packets of other protocols than IP.
    pub not_ip: u64,
    /// Packets with link headers of types that are not decoded.
    pub unsupported_links: UnsupportedLinks,
    /// Fragments of IP packets that were incomplete or not TCP.
    pub fragments: u64,
    /// Packets that are truncated before the end of their headers, or malformed.
    pub undecodable: u64,
    /// Segments with a wrong checksum.
    pub bad_checksums: u64,
    /// Packets that are longer than the limit.
    pub too_long: u64,
    /// Packets of interfaces that the file does not describe.
    pub of_unknown_interfaces: u64,
    /// Packets without a timestamp.
    pub without_time: u64,
    /// Segments with an earlier timestamp than the segment before.
    pub times_backwards: u64,
    /// Connections that were concluded early because there were too many at once.
    pub connections_cut_short: u64,
    /// Segments without a tracked acknowledgement because too many were outstanding.
    pub not_waited_for: u64,
    /// Packets lost while capturing; `None` if the file does not have the count.
    pub dropped: Option<u64>,
    /// Whether the file ends in the middle of a packet.
    pub is_cut: bool,
    /// Whether a signal ended the reading early.
    pub is_interrupted: bool,
}

impl CaptureTally {
    /// Adds packets that are no segments, or that have a wrong checksum, of a part of the capture.
    pub(crate) fn add_packets(&mut self, part: &Self) {
        self.datagrams += part.datagrams;
        self.other_ip += part.other_ip;
        self.not_ip += part.not_ip;
        self.unsupported_links.add_all(&part.unsupported_links);
        self.fragments += part.fragments;
        self.undecodable += part.undecodable;
        self.bad_checksums += part.bad_checksums;
    }

    pub(super) fn push_text(&self, out: &mut Vec<u8>, interfaces: &[String], width: Option<usize>) {
        let mut line = String::new();
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
                counted(self.connections, "connection")
            ));
        } else {
            line.push_str(&counted(self.connections, "connection"));
        }
        line.push_str(&format!(
            " in {}, {} of TCP, {}{}{}",
            counted(self.packets, "packet"),
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
        let links = &self.unsupported_links;
        if links.packets() > 0 {
            let mut types: Vec<_> = links
                .counts()
                .map(|(link_type, _)| link_type.to_string())
                .collect();
            if links.others() > 0 {
                types.push("others".to_owned());
            }
            let text = format!(
                "Not looked at: {} of link types that are not supported ({}).",
                counted(links.packets(), "packet"),
                types.join(", ")
            );
            push_wrapped(out, text.as_bytes(), "", width);
        }
    }

    pub(super) fn push_json_fields(&self, fields: &mut Object<'_>, interfaces: &[String]) {
        for (name, count) in self.counts() {
            fields.number(name, Some(count));
        }
        if !interfaces.is_empty() {
            let names: Vec<_> = interfaces.iter().map(|name| json_string(name)).collect();
            let list = fields.key("interfaces");
            list.extend_from_slice(format!("[{}]", names.join(",")).as_bytes());
        }
        if self.unsupported_links.packets() > 0 {
            self.unsupported_links.push_json(fields.key("unsupported_links"));
        }
        fields.number("dropped", self.dropped);
        fields.boolean("is_cut", Some(self.is_cut));
        fields.boolean("is_interrupted", Some(self.is_interrupted));
    }

    /// Returns each count with its name in JSON.
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

/// Returns the names of the first interfaces, as the end of a sentence.
fn captured_on(interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        return String::new();
    }
    let few: Vec<_> = interfaces
        .iter()
        .take(NAMES_MAX)
        .map(|name| harmless(name.as_bytes()))
        .collect();
    let more = match interfaces.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(", captured on {}{more}", few.join(", "))
}

/// Limit for names of interfaces.
const NAMES_MAX: usize = 4;
