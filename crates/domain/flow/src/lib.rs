//! Folds sockets into host flows: peers, direction, number and quality of connections.
//!
//! Add the listeners first ([`Listeners::add`]), because they decide the direction, and where there is none, ports
//! do ([`Fold::with_ended_servers`]); then each connection ([`Fold::add`]); [`Fold::finish`] returns the flows. Two folds give rates.
//!
//! What it deliberately does not do: read sockets, read a clock (elapsed time is an argument), keep sockets,
//! or sort flows.
//!
//! ```
//! use sockeye_flow::{Fold, Listeners};
//! use sockeye_model::{Direction, Endpoint, Entry, GroupBy, Port, Protocol, Socket, State};
//!
//! let mut listener = Socket::new(Protocol::Tcp, State::Listen);
//! listener.local = Endpoint::inet([0, 0, 0, 0].into(), Port(443));
//! let mut listeners = Listeners::default();
//! listeners.add(&listener);
//!
//! let mut connection = Socket::new(Protocol::Tcp, State::Established);
//! connection.local = Endpoint::inet([10, 0, 0, 1].into(), Port(443));
//! connection.peer = Endpoint::inet([10, 0, 0, 7].into(), Port(51234));
//! let mut fold = Fold::new(GroupBy::Host, &listeners);
//! fold.add(&Entry::new(&connection));
//!
//! let flows = fold.finish().flows;
//! let flow = flows.reader().read(0).clone();
//! assert_eq!(flow.key.direction, Direction::Passive);
//! assert_eq!((flow.key.port, flow.connections), (Some(Port(443)), 1));
//! ```

mod difference;
mod flow_owners;
mod fold;
mod folded_flows;
mod index;
mod key_table;
mod listeners;
mod sample;
mod socket_sample;
mod undecided;

pub use difference::{Change, FlowDifference, differences};
pub use fold::ended::{Ended, EndedIn};
pub use fold::{Fold, FoldResult};
pub use folded_flows::{FlowReader, FoldedFlows};
pub use listeners::Listeners;
pub use sample::Sample;
pub use socket_sample::SocketSample;
