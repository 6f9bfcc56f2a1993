//! The other network namespace, as a program of the world gets it.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io;
use std::os::fd::AsFd;

/// Moves this process, which has one thread, into the other network namespace, which is its standard input.
pub(super) fn enter_far() -> io::Result<()> {
    let far = io::stdin();
    Ok(move_into_link_name_space(
        far.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}
