//! Owner processes of connections, from the packet comments that `sockeye capture` writes.

use crate::output::EndOwners;
use sockeye_trace::{Connection, Endpoint};
use std::collections::HashMap;

/// Owners by connection number and end.
#[derive(Debug, Default)]
pub(super) struct CommentOwners(HashMap<u32, [Option<EndOwner>; 2]>);

/// An end and its owner.
type EndOwner = (Endpoint, Box<str>);

impl CommentOwners {
    /// Adds the owners that the comment of a segment names; comments of other programs are ignored.
    pub(super) fn add(&mut self, connection: u32, ends: (Endpoint, Endpoint), comment: &str) {
        let Some(named) = OwnerComment::parse(comment) else {
            return;
        };
        if self.0.len() >= CONNECTIONS_MAX && !self.0.contains_key(&connection) {
            return;
        }
        let known = self.0.entry(connection).or_default();
        // The lower end first, so that both directions have the same order.
        let is_higher = (ends.0.ip, ends.0.port) > (ends.1.ip, ends.1.port);
        for (index, end, owner) in [
            (usize::from(is_higher), ends.0, named.sender),
            (usize::from(!is_higher), ends.1, named.receiver),
        ] {
            if let Some(owner) = owner {
                known[index] = Some((end, owner.into()));
            }
        }
    }

    /// Removes and returns the owners of a connection that is complete.
    pub(super) fn take(&mut self, connection: &Connection) -> EndOwners {
        let known = self.0.remove(&connection.number).unwrap_or_default();
        let of = |end: Endpoint| {
            let found = known.iter().flatten().find(|(known, _)| *known == end)?;
            Some(found.1.clone())
        };
        EndOwners {
            client: of(connection.client),
            server: of(connection.server),
        }
    }
}

/// A comment of the form `sent by iperf3(3124), for nginx(7)`, or one of its parts.
#[derive(Debug, PartialEq, Eq)]
struct OwnerComment<'a> {
    sender: Option<&'a str>,
    receiver: Option<&'a str>,
}

impl<'a> OwnerComment<'a> {
    fn parse(comment: &'a str) -> Option<Self> {
        let (sender, receiver) = match comment.strip_prefix("sent by ") {
            None => (None, Some(comment.strip_prefix("for ")?)),
            Some(rest) => match rest.rsplit_once(", for ") {
                None => (Some(rest), None),
                Some((sender, receiver)) => (Some(sender), Some(receiver)),
            },
        };
        let is_owner = |text: &&str| {
            let number = text.strip_suffix(", ...").unwrap_or(text);
            let number = number.strip_suffix(')').and_then(|text| text.rsplit_once('('));
            number.is_some_and(|(_, number)| number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        [sender, receiver]
            .iter()
            .flatten()
            .all(is_owner)
            .then_some(Self { sender, receiver })
    }
}

/// Limit for connections with owners at a time.
const CONNECTIONS_MAX: usize = 120_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owner_comments_are_parsed() {
        let check = |comment, expected: Option<(Option<&str>, Option<&str>)>| {
            let found = OwnerComment::parse(comment).map(|named| (named.sender, named.receiver));
            assert_eq!(found, expected, "{comment}");
        };
        check("sent by curl(17)", Some((Some("curl(17)"), None)));
        check("for a b(1), nginx(2)", Some((None, Some("a b(1), nginx(2)"))));
        check(
            "for nginx(2), nginx(3), ...",
            Some((None, Some("nginx(2), nginx(3), ..."))),
        );
        check("sent by a(1), for b(2)", Some((Some("a(1)"), Some("b(2)"))));
        check("sent by pigeon", None);
        check("for later", None);
        check("look at this", None);
        check("", None);
    }
}
