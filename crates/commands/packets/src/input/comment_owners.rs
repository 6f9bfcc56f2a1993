//! Whose connections are, as far as comments of packets tell: `sockeye capture` writes them.

use crate::output::EndOwners;
use sockeye_trace::{Connection, Endpoint};
use std::collections::HashMap;

/// Owners by connection and end.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<u32, [Option<Owned>; 2]>);

/// An end, and whose it is.
type Owned = (Endpoint, Box<str>);

impl Owners {
    /// What a comment says of a segment of this connection; a comment of somebody else says nothing.
    pub(super) fn note(&mut self, connection: u32, ends: (Endpoint, Endpoint), comment: &str) {
        let Some(told) = Told::read(comment) else { return };
        if self.0.len() >= CONNECTIONS_MAX && !self.0.contains_key(&connection) {
            return;
        }
        let known = self.0.entry(connection).or_default();
        // The lower one first, so that both ways find the same place.
        let is_higher = (ends.0.ip, ends.0.port) > (ends.1.ip, ends.1.port);
        for (place, end, owner) in [
            (usize::from(is_higher), ends.0, told.sender),
            (usize::from(!is_higher), ends.1, told.receiver),
        ] {
            if let Some(owner) = owner {
                known[place] = Some((end, owner.into()));
            }
        }
    }

    /// Of a connection that is over.
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

/// `sent by iperf3(3124), for nginx(7)`, or one of both.
#[derive(Debug, PartialEq, Eq)]
struct Told<'a> {
    sender: Option<&'a str>,
    receiver: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn read(comment: &'a str) -> Option<Self> {
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
        let told = [sender, receiver];
        told.iter()
            .flatten()
            .all(is_owner)
            .then_some(Self { sender, receiver })
    }
}

/// Of more connections at once, owners are not kept.
const CONNECTIONS_MAX: usize = 120_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_ours_and_of_others() {
        let check = |comment, expected: Option<(Option<&str>, Option<&str>)>| {
            let told = Told::read(comment).map(|told| (told.sender, told.receiver));
            assert_eq!(told, expected, "{comment}");
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
