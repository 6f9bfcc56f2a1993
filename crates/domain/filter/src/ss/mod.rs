//! The filter language of `ss` itself (iproute2 6.1.0), oddities included: for whoever has to answer exactly
//! as `ss` does. [`crate::parse()`] reads what users mean; this reads what `ss` makes of it.
//!
//! `ss` judges a socket up to twice. Of inet sockets the kernel is asked first, by bytecode
//! ([`Filter::kernel`]); what it lists, and every socket of another family, `ss` then judges by itself
//! ([`Filter::accepts`]). The two disagree in places, so that a socket is listed if **both** accept it.
//!
//! ```
//! use sockeye_filter::{Kernel, NoResolve, ss};
//! use sockeye_model::{Endpoint, Family, Port, Protocol, Socket, State};
//!
//! let words = ["not".to_owned(), "src = 0.0.0.0".to_owned()];
//! let filter = ss::parse(&words, None, &ss::Context::default(), &NoResolve).unwrap();
//! let mut socket = Socket::new(Protocol::Tcp, State::Listen);
//! socket.family = Family::Inet6;
//! socket.local = Endpoint::inet("::".parse().unwrap(), Port(80));
//! // The kernel compares families, `ss` the leading bits alone: `not src 0.0.0.0` hides sockets on [::].
//! assert!(filter.kernel().program(Kernel::FULL).exact);
//! assert!(!filter.accepts(&socket));
//!
//! let mistake = ss::parse(&["dst".to_owned()], None, &ss::Context::default(), &NoResolve).unwrap_err();
//! assert_eq!(
//!     mistake.to_string(),
//!     "ss: bison bellows (while parsing filter): \"syntax error!\" Sorry."
//! );
//! assert_eq!((mistake.exit_code(), mistake.shows_usage()), (255, true));
//! assert_eq!(mistake.explanation(), "expected an address after 'dst', found the end of the filter");
//! ```
//!
//! # The grammar
//! Tokens are separated by spaces and tabs and by nothing else: `(sport = 80)` is one odd word. `\` makes the
//! next character part of a word, but not a word of an operator: `\(` still opens. `and`, `or` and
//! juxtaposition bind alike, from left to right, each taking a single condition, negation or parenthesis on
//! its right; the precedences that `ssfilter.y` declares decide nothing.
//!
//! # What `ss` does that one might not expect
//! - Its own comparison of addresses is one of leading bits, whatever the families: `dst 0.0.0.0` holds for
//!   `::`, and `src netlink:genl` (16) is compared with the first four bytes of any address.
//! - Ports are numbers of 32 bits: over 65535 they match nothing, -1 is any, and the kernel is told the lower
//!   half where they are compared by `<` or `>`. Of UNIX sockets they are inodes, of netlink sockets port ids
//!   (of the other end: -1), of PACKET sockets interfaces.
//! - The peer of a UNIX socket has no name here: `dst unix:*` holds for all, `dst unix:/run/x` for none.
//! - With `-x`, or after `unix:`, the word after `sport` is a pattern for a name as well.
//! - The CID of a vsock condition is forgotten as soon as it was read.
//! - Of a name with several addresses the kernel is told the first alone, which is then all that is listed.
//! - `dst 10` is `10.0.0.0`, but `dst 256` is `0.0.1.0`: what is no address to `ss` is one to the resolver.
//! - A condition on `dev` anywhere keeps the whole filter from the kernel.
//! - A condition of another family in a filter for inet sockets makes the kernel refuse it
//!   ([`Filter::is_refused`]). Where `ss` then meets `unix:` and an inet socket, it takes the address for a
//!   pointer and mostly crashes; here such a socket is an unnamed one, which it is to `ss` at address 0.
//! - A numeric netlink protocol changes what the name before it stands for, if that is named again.
//! - Lines of a filter file that begin with `#` are comments, and so are those that begin with `0`.

mod eval;
mod host;
mod kernel;
mod lex;
mod mistake;
mod number;
mod parse;
mod tree;

pub use mistake::{HostFault, Mistake};

use crate::{Needs, Resolve};
use sockeye_model::{Family, Socket};
use tree::{Expr, Test};

/// What of the command line the meaning of a filter depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context {
    /// The last family that an option named (`-4`, `-x`, `-f link`, ...): `ss`'s `preferred_family`. Words
    /// without a family are of this one. vsock is `Family::Unknown(40)`.
    pub preferred: Option<Family>,
    /// The UDP table is selected: names of ports are looked up in its services,
    pub udp: bool,
    /// and in these, if the TCP table is.
    pub tcp: bool,
}

/// A filter as `ss` understands it.
///
/// Displayed, it is its tree, for tests and the curious.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    tree: Option<Expr>,
    family: Option<Family>,
}

/// Reads a filter: the words of the command line that follow the options and the leading states, and then
/// the text of `-F FILE`, line by line.
///
/// # Errors
/// At the first thing `ss` would stop at.
pub fn parse(
    words: &[String],
    file: Option<&str>,
    context: &Context,
    resolve: &dyn Resolve,
) -> Result<Filter, Mistake> {
    parse::parse(words, file, context, resolve)
}

impl Filter {
    /// Whether there was none: everything is accepted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tree.is_none()
    }

    /// The family that conditions on addresses or ports confined the listing to, in place of all families
    /// that were selected before: the one the last of them named, or that was preferred then. `None`: they
    /// did not touch that.
    ///
    /// It is `ss`'s preferred family from then on, too.
    #[must_use]
    pub const fn family(&self) -> Option<Family> {
        self.family
    }

    /// `ss`'s own judgement (`run_ssfilter()`), of a socket of any family.
    #[must_use]
    pub fn accepts(&self, socket: &Socket) -> bool {
        self.tree.as_ref().is_none_or(|tree| eval::accepts(tree, socket))
    }

    /// What `ss` has the kernel decide of inet sockets, as one of our own filters, for its
    /// [`program`](crate::Filter::program). Empty where `ss` sends none or the kernel refuses it.
    ///
    /// The kernel knows whether a port was chosen by it (`autobound`), our own `matches` does not.
    #[must_use]
    pub fn kernel(&self) -> crate::Filter {
        match self.tree.as_ref().map(kernel::told) {
            Some(kernel::Told::Expr(expr)) => crate::Filter::new(expr),
            _ => crate::Filter::default(),
        }
    }

    /// Whether the kernel answers `EINVAL` to what `ss` sends it, if there is an inet table to be read
    /// ([`Filter::family`]). `ss` says so (`RTNETLINK answers: Invalid
    /// argument`, once for each attempt) and then reads `/proc/net`, with [`Filter::accepts`] alone.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.tree.as_ref().map(kernel::told), Some(kernel::Told::Refused))
    }

    /// What has to be asked for: marks and cgroups.
    ///
    /// With `fwmark` and without CAP_NET_ADMIN the kernel answers `EPERM` to the whole of it, and `ss` goes on
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
