//! Taking the entries of a listing on several threads at once.

use sockeye_model::Entry;
use std::ops::ControlFlow;

/// Takes entries on other threads too, as [`sockeye_source::SocketThreads`] takes sockets.
pub trait EntryThreads: Sync {
    /// Whether other threads may begin.
    fn may_begin(&self) -> bool;

    /// Is called on another thread, and calls `read` once with what takes that thread's entries.
    fn on_thread(&self, read: &mut dyn FnMut(TakeEntry<'_>));
}

/// Takes an entry, and whether it matches, until it breaks.
pub type TakeEntry<'a> = &'a mut dyn FnMut(&Entry<'_>, bool) -> ControlFlow<()>;
