//! Filter expressions in the language of `ss`, with extensions: parsed once, evaluated by the kernel as far as possible
//! and by this crate for the rest.
//!
//! A [`Filter`] provides: whether a socket matches ([`Filter::matches`]), the states to request
//! ([`Filter::states`]), the other details to request ([`Filter::needs`]), the part that the kernel can evaluate
//! before it copies a socket to us ([`Filter::program`]), and, for sources that run no such program,
//! bounds on ports, addresses and namespaces ([`Filter::bounds`]).
//!
//! What it deliberately does not do: read anything (names are looked up through [`Resolve`]), use the time,
//! or choose defaults: the caller decides which states are listed if the filter names none.
//!
//! ```
//! use sockeye_filter::{KernelFeatures, NoResolve, parse};
//! use sockeye_model::{Endpoint, Entry, Port, Protocol, Socket, State};
//!
//! let filter = parse("state established and ( dport = :443 or dst 10.0.0.0/8 )", &NoResolve).unwrap();
//! let mut socket = Socket::new(Protocol::Tcp, State::Established);
//! socket.peer = Endpoint::inet([10, 1, 2, 3].into(), Port(5432));
//! assert!(filter.matches(&Entry::new(&socket)));
//! assert!(filter.program(KernelFeatures::UNPRIVILEGED).exact); // the kernel can decide all of it
//!
//! let text = "dport = )";
//! let error = parse(text, &NoResolve).unwrap_err();
//! assert_eq!(error.to_string(), "expected a port after '=', found ')'");
//! assert_eq!(
//!     error.render(text),
//!     "sockeye: filter: expected a port after '=', found ')'\n  dport = )\n          ^\n"
//! );
//! ```
//!
//! # Bounds
//! [`Bounds`] are one box: a range of ports and a prefix for each endpoint, families, namespaces. They never
//! exclude a socket that `matches` accepts. Often they are exact:
//!
//! ```
//! use sockeye_filter::{Bounds, NoResolve, Prefix128, parse};
//!
//! let bounds = |text| parse(text, &NoResolve).unwrap().bounds();
//! let both = bounds("sport = :443 and dst 10.0.0.0/8");
//! assert_eq!((both.local_port, both.exact), (443..=443, true));
//! assert!(both.v4 && both.v6); // a v4-mapped connection belongs to an IPv6 socket
//! assert_eq!(both.peer.mask.count_ones(), 104); // ::ffff:10.0.0.0/104
//!
//! let either = bounds("sport = :80 or sport = :443"); // includes what is in between
//! assert_eq!((either.local_port, either.exact), (80..=443, false));
//! assert_eq!(bounds("sport = :80 and owner = nginx").exact, false);
//! assert_eq!(bounds("sport = :80 or dport = :80").peer, Prefix128::ANY); // no bound is possible
//! assert_eq!(bounds("sport = :80 and sport = :443"), Bounds::NOTHING);
//! ```
//!
//! Exact bounds exist for comparisons of ports, hosts and prefixes, `family`, `netns =`, states that apply
//! to the whole expression, and combinations of these by `and`, `or` and `not` that are again a box.
//! Otherwise bounds are wider than the filter: `not sport = :80` has none.
//!
//! # The language
//! Conditions are joined by `and` (`&`, `&&`, or nothing at all), `or` (`|`, `||`), `not` (`!`) and
//! parentheses. `and` and `or` have equal precedence, **from left to right**: `a or b and c` is `( a or b ) and c`.
//! That is what `ss` does, in contrast to its manual. States at the very beginning apply to everything that
//! follows. `#` begins a comment, `\` makes the next character an ordinary one. `=` may be left out.
//!
//! | `ss`'s words | |
//! |---|---|
//! | `state S`, `exclude S` | consecutive ones are united from left to right; also inside an expression. The states of TCP, `all`, `connected`, `synchronized`, `bucket`, `big`, `bound-inactive` |
//! | `src H`, `dst H` | `[FAMILY:]ADDRESS[/PREFIX][:PORT]`, also `!=`. An IPv6 address with a port needs brackets. A host name means all its addresses |
//! | `sport P`, `dport P` | `=` `!=` `<` `<=` `>` `>=` or `eq` `ne` ...; a number, a service, or (ours) a range `8000-8999` |
//! | `dev I` | the interface it is bound to, by name or index; 0: none |
//! | `fwmark M[/MASK]`, `cgroup PATH`, `autobound` | as in `ss` |
//!
//! FAMILY is `inet`, `inet6`, `unix` (a pattern for the name, in any case of letters), `netlink`
//! (`PROTOCOL:PORT`), `link` (`ETHERTYPE:INTERFACE`) or `vsock` (accepted; never matches). As in
//! `ss`, the listing is restricted to a family that is named; if several are, each applies to its own condition.
//!
//! | our words | |
//! |---|---|
//! | `owner` `congestion` | `=` `!=` literally; `~` `!~` a pattern (`ngin*`), or without wildcards any part of the name. Process names are compared up to 15 bytes, which is all that the kernel stores |
//! | `pid` `pgid` `uid` `netns` `inode` `cookie` `mark` | numbers, all six comparisons; `uid` and `netns` also by name |
//! | `idle` `lastsnd` `lastrcv` `lastack` `rtt` `rttvar` `min_rtt` `rcv_rtt` `rto` `ato` | times: `us` `ms` `s` `m` (minutes) `h` `d`. `idle`: since data was last sent or received, whichever is later; keepalive probes are no data |
//! | `recvq` `sendq` `mss` `pmtu` `bytes_sent` `bytes_acked` `bytes_received` `bytes_retrans` `notsent` `snd_wnd` `rcv_wnd` `rcvbuf` `sndbuf` `rmem` `wmem` | bytes: no unit, `k` `M` `G` (1000) or `Ki` `Mi` `Gi` (1024). The queues of a listener count connections, as in `ss` |
//! | `retrans` (since the start) `lost` `unacked` `sacked` `cwnd` `ssthresh` `reordering` `drops` `backlog` (of a listener) | counts |
//! | `delivery_rate` `pacing_rate` | `kbit` `Mbit` `Gbit` (also `Mbps`, `Mbit/s`) or `kB/s` `MB/s`; all per second |
//! | `timer` | `on` `keepalive` `timewait` `persist` `off` |
//! | `proto` `family` | as in `ss`'s Netid column, and `unix`, `packet`; `inet` `inet6` `unix` ... |
//! | `peers` | `public` `private` `loopback` ([`PeerClass`]), `all`, `none` |
//! | `interface` | `dev` |
//!
//! **Absent values** (not requested, not reported, unknown to this kernel) match no condition of the second table, not even
//! `!=`; so `not ( ... )` matches. The words of `ss` treat them as `ss` does: no interface is 0, no mark is 0, and `!=` is
//! `not ... =`.
//!
//! # Differences from `ss`
//! (The module [`ss`] has none.)
//! - `ss` accepts a socket only if the kernel's bytecode *and* its own evaluation accept it, and the two compare
//!   addresses of different families differently. Its own compares the leading bits whatever the family, so
//!   that `not src 0.0.0.0` also hides sockets on `[::]`, and `dev = 0 and src 0.0.0.0` (for which it sends no
//!   bytecode) finds them. Here the kernel's rule always applies: an IPv4 prefix matches IPv4 and
//!   v4-mapped addresses, an IPv6 prefix matches IPv6 sockets.
//! - `autobound` means "the kernel chose the port from the ephemeral range". `not autobound` is its opposite;
//!   `ss` then also hides accepted connections.
//! - `sport` and `dport` without a family are IP ports. In `ss` they also match pids of netlink sockets,
//!   inodes of UNIX sockets and indices of PACKET sockets.
//! - Ports over 65535, and `>=` of "any port", are refused.
//! - `connected` and `synchronized` are as `ss -h` documents them, without bound sockets.

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_filter;

mod bounds;
mod compile;
mod condition;
mod conversation;
mod display;
mod error;
mod eval;
mod expr;
mod field;
mod filter;
mod glob;
mod host;
mod lexer;
mod needs;
pub mod netns;
mod of_flow;
mod parse;
mod partial;
pub mod pcap;
mod peers;
mod program;
mod resolve;
pub mod ss;
mod states;
#[cfg(test)]
mod tests;
mod units;
pub mod words;

pub use bounds::{Bounds, Prefix128};
pub use error::{ParseError, nearest};
pub use filter::Filter;
pub use needs::Needs;
pub use partial::{SocketConditions, Undecidable};
pub use peers::PeerClass;
pub use program::{KernelFeatures, Program};
pub use resolve::{NoResolve, Resolve};
pub use units::Quantity;

/// Parses an expression. An empty one matches everything.
///
/// See the [crate] for the language.
///
/// # Errors
/// The position of the first error in syntax or of an unknown name, and what was expected there.
pub fn parse(text: &str, resolve: &dyn Resolve) -> Result<Filter, ParseError> {
    parse::parse(text, resolve).map(Filter::new)
}

/// Parses an expression from the words of a command line; spaces within them separate tokens too, as in `ss`.
///
/// # Errors
/// As [`parse()`]; positions refer to [`join_words`].
pub fn parse_words<S: AsRef<str>>(words: &[S], resolve: &dyn Resolve) -> Result<Filter, ParseError> {
    parse(&join_words(words), resolve)
}

/// Returns the text that [`parse_words`] parses and to which its errors refer.
#[must_use]
pub fn join_words<S: AsRef<str>>(words: &[S]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word.as_ref());
    }
    text
}
