//! Taking sockets on several threads at once.

use crate::outcome::DumpContext;
use sockeye_model::Socket;
use std::ops::ControlFlow;

/// Takes sockets on other threads too, where a source reads on several: the walk over hash tables does. Each socket is taken once, by one
/// of them.
pub trait SocketThreads: Sync {
    /// Whether other threads may begin. It is asked again and again; until then the calling thread takes all sockets.
    fn may_begin(&self) -> bool;

    /// Is called on another thread, and calls `read` once with what takes that thread's sockets. After `read` no more follow.
    fn on_thread(&self, read: &mut dyn FnMut(TakeSocket<'_>));
}

/// Takes a socket, until it breaks.
pub type TakeSocket<'a> = &'a mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>;
