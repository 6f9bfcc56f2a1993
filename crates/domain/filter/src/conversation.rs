//! Filters for connections of which only the endpoints are known, as in a capture.

use crate::Filter;
use crate::expr::{Expr, Test};
use sockeye_model::Entry;

impl Filter {
    /// Whether a connection matches with either of its endpoints as the source; `there` and `back` are the same
    /// connection, seen from either endpoint.
    ///
    /// The whole expression has to match in the same direction, but a negated part must match in neither:
    /// `not dport = :443` excludes all connections with port 443 at either endpoint.
    #[must_use]
    pub fn matches_either_way(&self, there: &Entry<'_>, back: &Entry<'_>) -> bool {
        if self.is_empty() {
            return true;
        }
        let is_of_family = self
            .confined_to
            .is_none_or(|family| family == there.socket.family);
        is_of_family && (holds(self.expr(), there, back) || holds(self.expr(), back, there))
    }

    /// Returns the canonical form of the first condition on more than the endpoints, which a capture cannot decide; `None` if
    /// there is none.
    #[must_use]
    pub fn beyond_endpoints(&self) -> Option<String> {
        let mut found = None;
        self.expr().visit(&mut |test| {
            let is_about_endpoints = matches!(
                test,
                Test::Port(..) | Test::Host(_) | Test::Family(_) | Test::Protocol(_) | Test::Peers(_)
            );
            if !is_about_endpoints && found.is_none() {
                found = Some(test.to_string());
            }
        });
        found
    }
}

fn holds(expr: &Expr, there: &Entry<'_>, back: &Entry<'_>) -> bool {
    match expr {
        Expr::And(all) => all.iter().all(|one| holds(one, there, back)),
        Expr::Or(any) => any.iter().any(|one| holds(one, there, back)),
        Expr::Not(inner) => !holds(inner, there, back) && !holds(inner, back, there),
        Expr::All | Expr::Test(_) => expr.matches(there),
    }
}

#[cfg(test)]
mod tests {
    use crate::{NoResolve, parse};
    use sockeye_model::{Endpoint, Entry, Family, Port, Protocol, Socket, State};

    /// A connection of 10.0.0.1:50000 to 192.0.2.7:443.
    #[track_caller]
    fn check(text: &str, expected: bool) {
        let mut there = Socket::new(Protocol::Tcp, State::Established);
        there.family = Family::Inet;
        there.local = Endpoint::inet([10, 0, 0, 1].into(), Port(50_000));
        there.peer = Endpoint::inet([192, 0, 2, 7].into(), Port(443));
        let mut back = there.clone();
        std::mem::swap(&mut back.local, &mut back.peer);
        let filter = parse(text, &NoResolve).unwrap();
        let (there, back) = (Entry::new(&there), Entry::new(&back));
        assert_eq!(filter.matches_either_way(&there, &back), expected, "{text}");
        assert_eq!(filter.matches_either_way(&back, &there), expected, "{text}");
    }

    #[test]
    fn all_conditions_match_in_the_same_direction() {
        check("", true);
        check("dport = :443", true);
        check("sport = :443", true);
        check("src 10.0.0.1 and dport = :443", true);
        check("src 192.0.2.7 and dport = :443", false);
        check("src 10.0.0.0/8 and dst 192.0.2.0/24", true);
        check("dport = :80 or src 192.0.2.7", true);
        check("src inet6:*", false);
    }

    #[test]
    fn negated_condition_matches_in_neither_direction() {
        check("not dport = :443", false);
        check("dport != :443", false);
        check("not dport = :80", true);
        check("src 10.0.0.1 and not dst 192.0.2.7", false);
        check("not ( src 10.0.0.1 and dport = :80 )", true);
    }

    #[test]
    fn condition_beyond_endpoints_is_returned() {
        let beyond = |text| parse(text, &NoResolve).unwrap().beyond_endpoints();
        assert_eq!(beyond("sport = :80 and ( src 10.0.0.0/8 or dport > 1024 )"), None);
        assert_eq!(beyond("sport = :80 and cwnd > 5").as_deref(), Some("cwnd > 5"));
        assert!(beyond("state established").is_some());
    }
}
