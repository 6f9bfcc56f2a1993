//! From what the kernel said to what we know: one file for each thing it says it in.

mod held;
mod inet;
mod netlink;
mod packet;
mod procfs;
mod unix;
mod vitals;
mod walk;

pub use walk::WalkedKernel;

use crate::{Cookie, Family, Inode, Memory, Protocol, Queues, Socket, State, Uid};
use sockeye_wire::inet_diag::SkMemInfo;

impl Socket {
    /// A socket with its names, as every kind of diag message begins.
    #[inline]
    fn named(protocol: Protocol, family: Family, state: State, inode: u32, cookie: u64) -> Self {
        let mut socket = Self::new(protocol, state);
        socket.family = family;
        socket.inode = (inode != 0).then_some(Inode(inode));
        socket.cookie = Some(Cookie(cookie));
        socket
    }

    /// Its user. Without a file a 0 means that nobody knows: TIME_WAIT (also one that still waits for a FIN,
    /// which shows as FIN_WAIT2), SYN_RECV, and before Linux 6.17 whatever was not accepted yet or is
    /// closed already.
    #[inline]
    fn take_uid(&mut self, uid: u32) {
        self.uid = (uid != 0 || self.inode.is_some()).then_some(Uid(uid));
    }

    /// Its memory, of a family whose queues the kernel does not tell apart from it: all that waits
    /// there is packets, counted with the kernel's overhead, as `ss` shows them too.
    fn take_memory_and_queues(&mut self, payload: &[u8]) {
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

/// What the tests of this folder build messages from.
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

    /// Words in the kernel's order.
    pub(super) fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}
