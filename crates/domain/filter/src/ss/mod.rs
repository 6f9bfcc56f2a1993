//! The filter language of `ss` itself (iproute2 6.1 to 7.3) with its oddities, for results that match `ss` exactly.
//! [`crate::parse()`] implements what users mean; this implements what `ss` does.
//!
//! `ss` evaluates a socket up to twice. For inet sockets the kernel filters first, by bytecode
//! ([`Filter::kernel`]); `ss` then evaluates what the kernel lists, and every socket of another family, itself
//! ([`Filter::accepts`]). The two disagree in some cases, so a socket is listed if **both** accept it.
//!
//! ```
//! use sockeye_filter::{KernelFeatures, NoResolve, ss};
//! use sockeye_model::{Endpoint, Family, Port, Protocol, Socket, State};
//!
//! let words = ["not".to_owned(), "src = 0.0.0.0".to_owned()];
//! let filter = ss::parse(&words, None, &ss::Context::default(), &NoResolve).unwrap();
//! let mut socket = Socket::new(Protocol::Tcp, State::Listen);
//! socket.family = Family::Inet6;
//! socket.local = Endpoint::inet("::".parse().unwrap(), Port(80));
//! // The kernel compares families, `ss` the leading bits alone: `not src 0.0.0.0` hides sockets on [::].
//! assert!(filter.kernel().program(KernelFeatures::FULL).exact);
//! assert!(!filter.accepts(&socket));
//!
//! let error = ss::parse(&["dst".to_owned()], None, &ss::Context::default(), &NoResolve).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "ss: bison bellows (while parsing filter): \"syntax error!\" Sorry."
//! );
//! assert_eq!((error.exit_code(), error.shows_usage()), (255, true));
//! assert_eq!(error.explanation(), "expected an address after 'dst', found the end of the filter");
//! ```
//!
//! # The grammar
//! Only spaces and tabs separate tokens: `(sport = 80)` is one odd word. `\` makes the
//! next character part of a word, but does not quote an operator: `\(` still opens. `and`, `or` and
//! juxtaposition have equal precedence, from left to right, each taking a single condition, negation or parenthesis on
//! its right; the precedences that `ssfilter.y` declares have no effect.
//!
//! # Oddities of `ss`
//! - Its own comparison of addresses compares leading bits, whatever the families: `dst 0.0.0.0` matches
//!   `::`, and `src netlink:genl` (16) is compared with the first four bytes of any address.
//! - Ports are numbers of 32 bits, since 6.5 of 64, of which the kernel gets 32: over 65535 they match nothing, -1 means
//!   any, and for `<` and `>` the kernel gets the lowest 16 bits. For UNIX sockets they are inodes, for netlink sockets port ids (of the peer: -1), for PACKET sockets
//!   interfaces.
//! - The peer of a UNIX socket has no name here: `dst unix:*` matches all, `dst unix:/run/x` none.
//! - With `-x`, or after `unix:`, the word after `sport` is a pattern for a name too.
//! - The CID of a vsock condition is parsed and dropped.
//! - Of a name with several addresses the kernel gets only the first, so only sockets with that are listed.
//! - `dst 10` is `10.0.0.0`, but `dst 256` is `0.0.1.0`: `ss` rejects it as an address and the resolver accepts it.
//! - A condition on `dev` anywhere keeps the whole filter from the kernel.
//! - A condition of another family in a filter for inet sockets makes the kernel refuse it
//!   ([`Filter::is_refused`]). If `ss` then evaluates `unix:` for an inet socket, it uses the address as a
//!   pointer and mostly crashes; here such a socket is unnamed, as it is for `ss` at address 0.
//! - A numeric netlink protocol changes the number of the name before it, if that name is used again.
//! - Lines of a filter file that begin with `#` or with `0` are comments.

mod error;
mod eval;
mod host;
mod kernel;
mod lex;
mod number;
mod parse;
mod tree;

pub use error::{HostError, ParseError};
pub use number::unsigned;

use crate::{Needs, Resolve};
use sockeye_model::{Family, Socket};
use tree::{Expr, Test};

/// The options of the command line on which the meaning of a filter depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context {
    /// The last family that an option named (`-4`, `-x`, `-f link`, ...): `ss`'s `preferred_family`. Words
    /// without a family belong to it. vsock is `Family::Unknown(40)`.
    pub preferred: Option<Family>,
    /// Whether the UDP table is selected: port names are looked up among its services,
    pub udp: bool,
    /// and among these, if the TCP table is selected.
    pub tcp: bool,
    /// Whether words mean what they mean in iproute2 6.15, not what they mean in 6.1: ports have 64 bits, so that more
    /// numbers are ports that match nothing, and the Ethernet protocol `cfm` has a name.
    pub since_6_15: bool,
}

/// A filter as `ss` interprets it.
///
/// Its display form is the tree, for tests and debugging.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    tree: Option<Expr>,
    family: Option<Family>,
}

/// Parses a filter: the words of the command line that follow the options and the leading states, and then
/// the text of `-F FILE`, line by line.
///
/// # Errors
/// The first error at which `ss` would stop.
pub fn parse(
    words: &[String],
    file: Option<&str>,
    context: &Context,
    resolve: &dyn Resolve,
) -> Result<Filter, ParseError> {
    parse::parse(words, file, context, resolve)
}

impl Filter {
    /// Whether the filter is empty, so that everything is accepted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tree.is_none()
    }

    /// Returns the family to which conditions on addresses or ports restrict the listing, in place of all families
    /// selected before: the one that the last of them named, or that was preferred then. `None`: they
    /// do not restrict it.
    ///
    /// It is also `ss`'s preferred family from then on.
    #[must_use]
    pub const fn family(&self) -> Option<Family> {
        self.family
    }

    /// Evaluates a socket of any family as `ss` does (`run_ssfilter()`).
    #[must_use]
    pub fn accepts(&self, socket: &Socket) -> bool {
        self.tree.as_ref().is_none_or(|tree| eval::accepts(tree, socket))
    }

    /// Returns the filter that `ss` sends to the kernel for inet sockets, as one of our own filters, for its
    /// [`program`](crate::Filter::program). Empty if `ss` sends none or the kernel refuses it.
    ///
    /// `autobound` can only be decided by the kernel, not by our own `matches`.
    #[must_use]
    pub fn kernel(&self) -> crate::Filter {
        match self.tree.as_ref().map(kernel::kernel_part) {
            Some(kernel::KernelPart::Expr(expr)) => crate::Filter::new(expr),
            _ => crate::Filter::default(),
        }
    }

    /// Whether the kernel returns `EINVAL` for the bytecode of `ss`, if an inet table is read
    /// ([`Filter::family`]). `ss` reports it (`RTNETLINK answers: Invalid
    /// argument`, once for each attempt) and then reads `/proc/net`, with [`Filter::accepts`] alone.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(
            self.tree.as_ref().map(kernel::kernel_part),
            Some(kernel::KernelPart::Refused)
        )
    }

    /// Returns what the filter needs: marks and cgroups.
    ///
    /// With `fwmark` and without CAP_NET_ADMIN the kernel returns `EPERM` for the whole request, and `ss` continues
    /// as in [`Filter::is_refused`].
    #[must_use]
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        if let Some(tree) = &self.tree {
            tree.visit(&mut |test| match test {
                Test::Mark { .. } => needs.mark = true,
                Test::Cgroup { .. } => needs.cgroup = true,
                _ => {}
            });
        }
        needs.kernel_only = self.kernel().needs().kernel_only;
        needs
    }
}
