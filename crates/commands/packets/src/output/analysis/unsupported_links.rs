//! Packets with link headers that are not decoded: how many of which type.

use sockeye_output::json::Object;
use sockeye_wire::packet::LinkType;

/// Counts of packets by the type of their link header. Types after the first [`Self::TYPES_MAX`] are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnsupportedLinks {
    counts: [Option<(LinkType, u64)>; Self::TYPES_MAX],
    others: u64,
}

impl UnsupportedLinks {
    /// Most types with counts of their own.
    pub const TYPES_MAX: usize = 8;

    /// Counts a packet.
    pub(crate) fn add(&mut self, link_type: LinkType) {
        self.add_many(link_type, 1);
    }

    /// Adds the counts of the next part of a capture. The types are then in the order of their first packets, if each part has
    /// at most [`Self::TYPES_MAX`].
    pub(crate) fn add_all(&mut self, part: &Self) {
        for (link_type, packets) in part.counts() {
            self.add_many(link_type, packets);
        }
        self.others += part.others;
    }

    fn add_many(&mut self, link_type: LinkType, more: u64) {
        for count in &mut self.counts {
            let (known, packets) = count.get_or_insert((link_type, 0));
            if *known == link_type {
                *packets += more;
                return;
            }
        }
        self.others += more;
    }

    /// Returns each type with its packets, in the order of their first ones.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (LinkType, u64)> {
        self.counts.iter().flatten().copied()
    }

    /// Returns the packets of further types.
    pub(crate) const fn others(&self) -> u64 {
        self.others
    }

    /// Returns all packets.
    pub(crate) fn packets(&self) -> u64 {
        self.counts().map(|(_, packets)| packets).sum::<u64>() + self.others
    }

    /// Appends an array: number, name and packets of each type.
    pub(super) fn push_json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, (link_type, packets)) in self.counts().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let mut fields = Object::begin(out);
            fields.number("number", Some(link_type.0));
            fields.text("name", link_type.name());
            fields.number("packets", Some(packets));
            fields.end();
        }
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_counted_apart_and_bounded() {
        let mut links = UnsupportedLinks::default();
        for number in [189, 6, 189, 195, 189] {
            links.add(LinkType(number));
        }
        let counts: Vec<_> = links.counts().collect();
        assert_eq!(counts, [(LinkType(189), 3), (LinkType(6), 1), (LinkType(195), 1)]);
        for number in 300..320 {
            links.add(LinkType(number));
        }
        assert_eq!(
            (links.counts().count(), links.others()),
            (UnsupportedLinks::TYPES_MAX, 15)
        );
        assert_eq!(links.packets(), 25);
    }

    #[test]
    fn name_is_absent_if_unknown() {
        let mut links = UnsupportedLinks::default();
        links.add(LinkType(6));
        links.add(LinkType(9_999));
        let mut out = vec![];
        links.push_json(&mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            r#"[{"number":6,"name":"IEEE802_5","packets":1},{"number":9999,"packets":1}]"#
        );
    }
}
