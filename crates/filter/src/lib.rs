//! `ss`'s filter expressions, and ours: parsed once, decided by the kernel where it can, by us for the rest.
//!
//! The language is that of `ss(8)`, whole, with words of ours for what only we know: see [`parse`] for its
//! grammar. A [`Filter`] answers four questions: does this socket match ([`Filter::matches`]), which states
//! have to be asked for ([`Filter::states`]), what else ([`Filter::needs`]), and which part of it can the
//! kernel decide before a socket is even copied to us ([`Filter::program`]).
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

mod compile;
mod display;
mod error;
mod eval;
mod expr;
mod field;
mod filter;
mod glob;
mod host;
mod lexer;
mod parse;
mod peers;
mod resolve;
mod states;
mod units;

pub use error::ParseError;
pub use filter::{Filter, Kernel, Needs, Program};
pub use peers::PeerClass;
pub use resolve::{NoResolve, Resolve};

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
/// As [`parse`]; to be rendered over [`join_words`].
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
