//! Conversions from the kernel's formats to the records of this crate: one file per format.

mod by_descriptor;
mod connection_event;
mod inet;
mod netlink;
mod packet;
mod procfs;
mod unix;
mod vitals;
mod walk;

pub use walk::WalkLayout;

use crate::{Cookie, Family, Inode, Memory, Protocol, Queues, Socket, State, Uid};
use sockeye_wire::inet_diag::SkMemInfo;

impl Socket {
    /// Creates a socket from the fields with which every diag message begins.
    #[inline]
    fn with_identity(protocol: Protocol, family: Family, state: State, inode: u32, cookie: u64) -> Self {
        let mut socket = Self::new(protocol, state);
        socket.family = family;
        socket.inode = (inode != 0).then_some(Inode(inode));
        socket.cookie = Some(Cookie(cookie));
        socket
    }

    /// Sets the user. For a socket without a file the kernel reports 0 if it does not know the user: in TIME_WAIT
    /// (also one that waits for a FIN and is reported as FIN_WAIT2), in SYN_RECV, and before Linux 6.17 for a
    /// socket that is not accepted yet or closed already.
    #[inline]
    fn set_uid(&mut self, uid: u32) {
        self.uid = (uid != 0 || self.inode.is_some()).then_some(Uid(uid));
    }

    /// Reads the memory of a family whose queues the kernel reports only as memory: the queues contain packets,
    /// counted with the kernel's overhead, as `ss` shows them too.
    fn read_memory_and_queues(&mut self, payload: &[u8]) {
        let memory = Memory::from(SkMemInfo::new(payload));
        if let (Some(receive_bytes), Some(send_bytes)) = (memory.rmem_alloc_bytes, memory.wmem_alloc_bytes) {
            self.queues = Queues::Data {
                receive_bytes,
                send_bytes,
            };
        }
        self.memory = Some(memory);
    }
}

/// Helpers of the tests of this folder to build messages.
#[cfg(test)]
mod build {
    /// Appends attributes, each padded.
    pub(super) fn attributes(mut bytes: Vec<u8>, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        for (kind, payload) in attributes {
            bytes.extend_from_slice(&u16::try_from(payload.len() + 4).unwrap().to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(payload);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    /// Words in native byte order.
    pub(super) fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}
