//! `-s`: counters as sentences.

use super::sentences::{ProtocolOption, TABLES, TABLES6, Table, When};
use sockeye_output::number::push_decimal;

/// The selected protocols, and the current heading. In the original the heading carries over from one file to the next,
/// so one value is used for all of them.
#[derive(Debug, Clone, Copy)]
pub struct Counters {
    /// IP and ICMP: `-w`, or no protocol option.
    pub raw: bool,
    /// TCP (`-t`).
    pub tcp: bool,
    /// UDP (`-u`).
    pub udp: bool,
    /// SCTP (`-S`).
    pub sctp: bool,
    heading: Heading,
}

/// The heading below which the next line is indented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heading {
    Title,
    Received,
    Sent,
}

impl Heading {
    const fn indent(self) -> &'static [u8] {
        match self {
            Self::Title => b"    ",
            Self::Received | Self::Sent => b"        ",
        }
    }
}

/// The counters below a title.
#[derive(Debug, Clone, Copy)]
enum Section {
    Known(&'static Table),
    /// Without sentences; shown whatever the options.
    Other,
}

impl Counters {
    /// Creates a value for the beginning of the output.
    #[must_use]
    pub const fn new(raw: bool, tcp: bool, udp: bool, sctp: bool) -> Self {
        Self {
            raw,
            tcp,
            udp,
            sctp,
            heading: Heading::Title,
        }
    }

    /// Appends a title of `snmp` or `netstat` and its counters.
    pub fn push_table<'a>(
        &mut self,
        out: &mut Vec<u8>,
        title: &[u8],
        counters: impl Iterator<Item = (&'a [u8], u64)>,
    ) {
        let section = self.begin(out, &*TABLES, title);
        for (name, value) in counters {
            self.push_counter(out, section, name, value);
        }
    }

    /// Appends the counters of `snmp6`. The part of a name up to the 6 is its protocol.
    pub fn push_snmp6<'a>(&mut self, out: &mut Vec<u8>, counters: impl Iterator<Item = (&'a [u8], u64)>) {
        let mut current: Option<(&[u8], Section)> = None;
        for (name, value) in counters {
            let section = match current {
                Some((title, section)) if contains(name, title) => section,
                _ => {
                    let end = name
                        .iter()
                        .position(|&byte| byte == b'6')
                        .map_or(name.len(), |six| six + 1);
                    let title = &name[..end];
                    let section = self.begin(out, &*TABLES6, title);
                    current = Some((title, section));
                    section
                }
            };
            self.push_counter(out, section, name, value);
        }
    }

    /// Appends the title if its protocol is selected.
    fn begin(&mut self, out: &mut Vec<u8>, tables: &'static [Table], title: &[u8]) -> Section {
        let known = tables.iter().find(|table| table.title.as_bytes() == title);
        let section = known.map_or(Section::Other, Section::Known);
        if self.is_selected(section) {
            out.extend_from_slice(title);
            out.extend_from_slice(b":\n");
        }
        if known.is_some() {
            self.heading = Heading::Title;
        }
        section
    }

    const fn is_selected(&self, section: Section) -> bool {
        match section {
            Section::Other => true,
            Section::Known(table) => match table.option {
                ProtocolOption::Raw => self.raw,
                ProtocolOption::Tcp => self.tcp,
                ProtocolOption::Udp => self.udp,
                ProtocolOption::Sctp => self.sctp,
            },
        }
    }

    fn push_counter(&mut self, out: &mut Vec<u8>, section: Section, name: &[u8], value: u64) {
        if !self.is_selected(section) {
            return;
        }
        let found = match section {
            Section::Known(table) => table.find(name),
            Section::Other => None,
        };
        let Some(&(_, sentence, when)) = found else {
            if value != 0 {
                out.extend_from_slice(self.heading.indent());
                out.extend_from_slice(name);
                out.extend_from_slice(b": ");
                push_decimal(out, value);
                out.push(b'\n');
            }
            return;
        };
        let (heading, title) = match when {
            When::Never => return,
            When::Always | When::NonZero => (Heading::Title, None),
            When::Received => (Heading::Received, Some("ICMP input histogram:\n")),
            When::Sent => (Heading::Sent, Some("ICMP output histogram:\n")),
        };
        if let Some(title) = title
            && self.heading != heading
        {
            out.extend_from_slice(self.heading.indent());
            out.extend_from_slice(title.as_bytes());
        }
        if value != 0 || when == When::Always {
            out.extend_from_slice(heading.indent());
            let (before, after) = sentence.split_once('#').unwrap_or((sentence, ""));
            out.extend_from_slice(before.as_bytes());
            push_decimal(out, value);
            out.extend_from_slice(after.as_bytes());
            out.push(b'\n');
        }
        self.heading = heading;
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_sentences_headings_or_names() {
        let mut out = Vec::new();
        let mut counters = Counters::new(true, false, true, true);
        let icmp: [(&[u8], u64); 6] = [
            (b"InMsgs", 3),
            (b"InEchos", 0),
            (b"InEchoReps", 2),
            (b"OutMsgs", 0),
            (b"OutEchos", 7),
            (b"OutNew", 1),
        ];
        counters.push_table(&mut out, b"Icmp", icmp.into_iter());
        counters.push_table(
            &mut out,
            b"IcmpMsg",
            [(&b"InType3"[..], 1), (b"InType8", 0)].into_iter(),
        );
        counters.push_table(&mut out, b"Tcp", [(&b"InSegs"[..], 1)].into_iter());
        counters.push_table(&mut out, b"Udp", [(&b"InDatagrams"[..], 0)].into_iter());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Icmp:\n    3 ICMP messages received\n    ICMP input histogram:\n        echo replies: 2\n    0 ICMP messages sent\n    \
             ICMP output histogram:\n        echo requests: 7\n        OutNew: 1\nIcmpMsg:\n        InType3: 1\nUdp:\n    \
             0 packets received\n"
        );
    }

    #[test]
    fn snmp6_names_determine_the_title() {
        let mut out = Vec::new();
        let lines: [(&[u8], u64); 4] = [
            (b"Ip6InReceives", 1),
            (b"Icmp6InMsgs", 2),
            (b"UdpLite6InErrors", 3),
            (b"Plain", 4),
        ];
        Counters::new(true, true, true, true).push_snmp6(&mut out, lines.into_iter());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Ip6:\n    1 total packets received\nIcmp6:\n    2 ICMP messages received\nUdpLite6:\n    UdpLite6InErrors: 3\nPlain:\n    \
             Plain: 4\n"
        );
    }
}
