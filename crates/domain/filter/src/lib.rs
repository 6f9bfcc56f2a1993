//! `ss`'s filter expressions, and ours: parsed once, decided by the kernel where it can, by us for the rest.
//!
//! A [`Filter`] answers five questions: does this socket match ([`Filter::matches`]), which states have to be
//! asked for ([`Filter::states`]), what else ([`Filter::needs`]), which part of it can the kernel decide
//! before a socket is even copied to us ([`Filter::program`]), and, for sources that run no such program,
//! within which ports, prefixes and namespaces is all that matches ([`Filter::bounds`]).
//!
//! What it deliberately does not do: read anything (names are looked up through [`Resolve`]), know the time,
//! or choose defaults: which states are listed when nobody names one is the caller's business.
//!
//! ```
//! use sockeye_filter::{Kernel, NoResolve, parse};
//! use sockeye_model::{Endpoint, Entry, Port, Protocol, Socket, State};
//!
//! let filter = parse("state established and ( dport = :443 or dst 10.0.0.0/8 )", &NoResolve).unwrap();
//! let mut socket = Socket::new(Protocol::Tcp, State::Established);
//! socket.peer = Endpoint::inet([10, 1, 2, 3].into(), Port(5432));
//! assert!(filter.matches(&Entry::new(&socket)));
//! assert!(filter.program(Kernel::UNPRIVILEGED).exact); // the kernel can decide all of it
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
//! [`Bounds`] are one box: a range of ports and a prefix for each end, families, namespaces. They never
//! exclude what `matches` accepts, and often say all there is to say, which they then claim:
//!
//! ```
//! use sockeye_filter::{Bounds, NoResolve, Prefix128, parse};
//!
//! let bounds = |text| parse(text, &NoResolve).unwrap().bounds();
//! let both = bounds("sport = :443 and dst 10.0.0.0/8");
//! assert_eq!((both.local_port, both.exact), (443..=443, true));
//! assert!(both.v4 && both.v6); // a v4-mapped connection is one of an IPv6 socket
//! assert_eq!(both.peer.mask.count_ones(), 104); // ::ffff:10.0.0.0/104
//!
//! let either = bounds("sport = :80 or sport = :443"); // what is in between as well
//! assert_eq!((either.local_port, either.exact), (80..=443, false));
//! assert_eq!(bounds("sport = :80 and owner = nginx").exact, false);
//! assert_eq!(bounds("sport = :80 or dport = :80").peer, Prefix128::ANY); // nothing can be said
//! assert_eq!(bounds("sport = :80 and sport = :443"), Bounds::NOTHING);
//! ```
//!
//! Decided exactly: comparisons of ports, hosts and their prefixes, `family`, `netns =`, states that hold
//! for the whole expression, and what `and`, `or` and `not` make of them as long as that is a box again.
//! Where a condition leaves the choice, they are wider: `not sport = :80` is bounded by nothing.
//!
//! # The language
//! Conditions are joined by `and` (`&`, `&&`, or nothing at all), `or` (`|`, `||`), `not` (`!`) and
//! parentheses. `and` and `or` bind alike, **from left to right**: `a or b and c` is `( a or b ) and c`. That
//! is what `ss` does, whatever its manual says of precedence. States at the very beginning hold for all that
//! follows. `#` begins a comment, `\` makes the next character an ordinary one. `=` may be left out.
//!
//! | `ss`'s words | |
//! |---|---|
//! | `state S`, `exclude S` | a run of them is united from left to right; also inside an expression. The states of TCP, `all`, `connected`, `synchronized`, `bucket`, `big`, `bound-inactive` |
//! | `src H`, `dst H` | `[FAMILY:]ADDRESS[/PREFIX][:PORT]`, also `!=`. An IPv6 address with a port wants brackets. A host's name stands for all its addresses |
//! | `sport P`, `dport P` | `=` `!=` `<` `<=` `>` `>=` or `eq` `ne` ...; a number, a service, or (ours) a range `8000-8999` |
//! | `dev I` | the interface it is bound to, by name or index; 0: none |
//! | `fwmark M[/MASK]`, `cgroup PATH`, `autobound` | as in `ss` |
//!
//! FAMILY is `inet`, `inet6`, `unix` (a pattern for the name, in any case of letters), `netlink`
//! (`PROTOCOL:PORT`), `link` (`ETHERTYPE:INTERFACE`) or `vsock` (understood; nothing is ever found). As in
//! `ss`, the listing is confined to a family that is named; if several are, each holds for its own condition.
//!
//! | our words | |
//! |---|---|
//! | `owner` `congestion` | `=` `!=` literally; `~` `!~` a pattern (`ngin*`), or without wildcards any part of the name. Names of processes count up to their 15th byte, which is all the kernel keeps |
//! | `pid` `pgid` `uid` `netns` `inode` `cookie` `mark` | numbers, all six comparisons; `uid` and `netns` also by name |
//! | `idle` `lastsnd` `lastrcv` `lastack` `rtt` `rttvar` `min_rtt` `rcv_rtt` `rto` `ato` | times: `us` `ms` `s` `m` (minutes) `h` `d`. `idle`: since data was last sent or received, whichever is later; keepalives are no data |
//! | `recvq` `sendq` `mss` `pmtu` `bytes_sent` `bytes_acked` `bytes_received` `bytes_retrans` `notsent` `snd_wnd` `rcv_wnd` `rcvbuf` `sndbuf` `rmem` `wmem` | bytes: bare, `k` `M` `G` (1000) or `Ki` `Mi` `Gi` (1024). The queues of a listener are, as in `ss`, connections |
//! | `retrans` (in its life) `lost` `unacked` `sacked` `cwnd` `ssthresh` `reordering` `drops` `backlog` (of a listener) | counts |
//! | `delivery_rate` `pacing_rate` | `kbit` `Mbit` `Gbit` (also `Mbps`, `Mbit/s`) or `kB/s` `MB/s`; all a second |
//! | `timer` | `on` `keepalive` `timewait` `persist` `off` |
//! | `proto` `family` | as in `ss`'s Netid column, and `unix`, `packet`; `inet` `inet6` `unix` ... |
//! | `peers` | `public` `private` `loopback` ([`PeerClass`]), `all`, `none` |
//! | `interface` | `dev` |
//!
//! **What is absent** (not asked for, not told, unknown to this kernel) equals nothing and differs from
//! nothing: no condition of ours holds of it, `!=` neither, and `not ( ... )` therefore does. `ss`'s own words
//! go on as in `ss`: no interface is 0, no mark is 0, and `!=` is `not ... =`.
//!
//! # Where we differ from `ss`
//! ([`ss`] does not.)
//! - `ss` takes a socket only if the kernel's bytecode *and* its own evaluation accept it, and the two compare
//!   addresses of different families differently. Its own compares the leading bits whatever the family, so
//!   that `not src 0.0.0.0` also hides sockets on `[::]`, and `dev = 0 and src 0.0.0.0` (where it sends no
//!   bytecode) finds them. Here both ways mean what the kernel means: an IPv4 prefix holds for IPv4 and
//!   v4-mapped addresses, an IPv6 prefix for sockets of IPv6.
//! - `autobound` is "the kernel chose the port, out of the ephemeral range". `not autobound` is its opposite;
//!   `ss` then also hides accepted connections.
//! - `sport` and `dport` without a family are ports of IP. In `ss` they also match pids of netlink sockets,
//!   inodes of UNIX sockets and indices of PACKET sockets.
//! - Ports over 65535, and `>=` of "any port", are refused.
//! - `connected` and `synchronized` are what `ss -h` says, without sockets that are merely bound.

// Tests name the crate as its users do.
#[cfg(test)]
extern crate self as sockeye_filter;

mod bounds;
mod compile;
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
pub mod netns;
mod parse;
pub mod pcap;
mod peers;
mod resolve;
pub mod ss;
mod states;
#[cfg(test)]
mod tests;
mod units;

pub use bounds::{Bounds, Prefix128};
pub use error::{ParseError, nearest};
pub use filter::{Filter, Kernel, Needs, Program};
pub use peers::PeerClass;
pub use resolve::{NoResolve, Resolve};
pub use units::Quantity;

/// Reads an expression. An empty one matches everything.
///
/// See the [crate] for the language. Errors name the place and what was expected there.
///
/// # Errors
/// At the first thing that cannot be understood or looked up.
pub fn parse(text: &str, resolve: &dyn Resolve) -> Result<Filter, ParseError> {
    parse::parse(text, resolve).map(Filter::new)
}

/// Reads an expression from the words of a command line; spaces within them separate as well, as in `ss`.
///
/// # Errors
/// As [`parse()`]; to be rendered over [`join_words`].
pub fn parse_words<S: AsRef<str>>(words: &[S], resolve: &dyn Resolve) -> Result<Filter, ParseError> {
    parse(&join_words(words), resolve)
}

/// The text that [`parse_words`] reads, over which its errors are rendered.
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
