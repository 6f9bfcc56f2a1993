//! HTTP/1.1, and HTTP/2 for gRPC, for commands that answer or send requests: connections and their limits, so that no peer can take more than its share.
//!
//! - [`serve`]: accepts connections and answers their requests
//! - [`Listener`]: where they come from: a TCP port or a UNIX socket, or a [`TlsListener`]
//! - [`Place`]: what a connection has while others may wait for one
//! - [`Answer`], [`AnswerBody`]: what is answered
//! - [`post`]: sends a request to a [`Target`], [`call`] calls a method there by gRPC; [`TlsClient`]: whom to trust there
//!
//! What it deliberately does not do: decide what is answered and to whom.

mod body;
mod client;
mod grpc;
mod listener;
mod places;
mod server;
mod stream;
mod timer;
mod tls;
mod tls_client;

pub use body::{Answer, AnswerBody};
pub use client::{PostError, PostLimits, REPLY_BYTES, Reply, TIMEOUT, Target, post};
pub use grpc::{GrpcReply, call};
pub use listener::Listener;
pub use places::Place;
pub use server::serve;
pub use tls::{TlsError, TlsIdentity, TlsListener, TlsStream};
pub use tls_client::TlsClient;
