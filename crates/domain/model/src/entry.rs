use crate::{Owner, Socket};

/// A socket and what was looked up about it elsewhere: what filters judge and renderers print.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The socket.
    pub socket: &'a Socket,
    /// Who holds it; empty when nobody (visible to us) does, `None` when nobody was asked.
    pub owners: Option<&'a [Owner]>,
}

impl<'a> Entry<'a> {
    /// A socket whose owners nobody asked for.
    #[must_use]
    pub const fn new(socket: &'a Socket) -> Self {
        Self { socket, owners: None }
    }
}
