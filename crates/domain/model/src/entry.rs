//! Pair of a socket and its owners that filters, folds, rules and renderers take. It borrows both.

use crate::{Owner, Socket};

/// A socket with its owners: the input of filters and renderers.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The socket.
    pub socket: &'a Socket,
    /// Its owners, sorted by pid and descriptor; empty if it has none that we can see, `None` if they were not looked up.
    pub owners: Option<&'a [Owner]>,
}

impl<'a> Entry<'a> {
    /// Creates an entry without owners.
    #[must_use]
    pub const fn new(socket: &'a Socket) -> Self {
        Self { socket, owners: None }
    }
}
