//! Sockets found by the descriptors of all processes, for all protocols but TCP: the pass of [`super::descriptor_walk`], with
//! programs that also read the sockets.
//!
//! It misses sockets without a descriptor: those in flight in a message of a UNIX socket, registered with an io_uring
//! only, or owned by the kernel.

use super::descriptor_walk::{Batch, Lister, Work, run, work_of};
use super::kernel::{Compiled, Kernel, Start};
use super::tables::{OPTION_ENUMERATORS, WalkStats, walked_kernel};
use super::workers::{self, Job};

use crate::query::Query;
use crate::request_bits;
use crate::unavailable::Unavailable;
use sockeye_model::{Detail, Protocol, ProtocolSet, Socket, State, WalkLayout};
use sockeye_sys::bpf::{Program, Slot};
use sockeye_wire::fd_sockets::{self, FdSocket, Request, kind};
use sockeye_wire::holders::Reply;
use sockeye_wire::walk::{self, KernelClock, detail};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The programs, loaded, and their slots.
#[derive(Debug)]
pub(crate) struct OwnedSockets {
    lister: Lister,
    read_files: Program,
    slots: Mutex<Vec<Slot>>,
    kernel: WalkLayout,
}

impl OwnedSockets {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        kernel.load_best(&FD_SOCKETS, &OPTION_ENUMERATORS, Start::Any, |prepared| {
            let kernel = walked_kernel(&prepared);
            let (lister, read_files, slots) = Lister::load(prepared)?;
            Ok(Self {
                lister,
                read_files,
                slots: Mutex::new(slots),
                kernel,
            })
        })
    }

    /// Passes every socket of the query that a process has a descriptor of to `take`, once, on this thread; TCP is ignored.
    /// Cookies, tcp_info (of MPTCP) and congestion control are not available.
    ///
    /// `socket` is a socket of ours, with which the program recognizes the files of sockets. It is not reported. Each
    /// socket has its namespace set. Memory is bounded by the slots and 16 bytes per socket.
    pub(crate) fn sockets(
        &self,
        socket: BorrowedFd<'_>,
        query: &Query<'_>,
        walked: &mut WalkStats,
        take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
    ) -> Result<(), Unavailable> {
        let request = Request {
            kinds: kinds(query.protocols),
            detail: sections(query.detail),
            netns: query.scope.inode().map_or(0, |inode| inode.0),
        };
        if request.kinds == 0 {
            return Ok(());
        }
        // Other threads wait for the slots.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&mut slots, socket, &request, query, walked, take)
    }

    fn run(
        &self,
        slots: &mut Vec<Slot>,
        socket: BorrowedFd<'_>,
        request: &Request,
        query: &Query<'_>,
        walked: &mut WalkStats,
        take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
    ) -> Result<(), Unavailable> {
        let mut own = slots.pop().ok_or(Unavailable::UnexpectedReply("no slots"))?;
        let listed = self.lister.tasks(&mut own, socket);
        let outcome = match listed {
            Err(unavailable) => Err(unavailable),
            Ok((tasks, socket_operations)) => {
                let mut items = Vec::new();
                for task in &tasks {
                    items.extend(work_of(task).map(|item| (0, item)));
                }
                let pass = Pass {
                    work: Work::new(&items, socket_operations),
                    read_files: &self.read_files,
                    request: *request,
                    stopped: AtomicBool::new(false),
                };
                let mut reader = Reader {
                    query,
                    kernel: WalkLayout {
                        service_class: query.detail.contains(Detail::SERVICE_CLASS),
                        netns: true,
                        ..self.kernel
                    },
                    sample: rustix::fs::fstat(socket).map_or(0, |stat| stat.st_ino as u32),
                    seen: HashSet::default(),
                    place: Socket::new(Protocol::Udp, State::Close),
                    walked,
                    take,
                };
                pass.run(&mut own, slots, &mut reader)
            }
        };
        slots.push(own);
        outcome
    }
}

/// One pass over the descriptors of all processes.
struct Pass<'a> {
    work: Work<'a>,
    read_files: &'a Program,
    request: Request,
    /// Set when the caller stopped the pass.
    stopped: AtomicBool,
}

impl Pass<'_> {
    fn run(&self, own: &mut Slot, slots: &mut Vec<Slot>, reader: &mut Reader<'_>) -> Result<(), Unavailable> {
        let workers = self.work.threads_useful() - 1;
        let read = &mut |slot: &Slot, reply: &Reply| self.read(slot, reply, reader);
        let batches = workers::run(self, Batch::default(), workers, own, slots, read)?;
        reader.walked.losses.vanished_processes += batches.iter().map(|batch| batch.vanished).sum::<u64>();
        Ok(())
    }

    fn read(&self, slot: &Slot, reply: &Reply, reader: &mut Reader<'_>) {
        if reader.read(slot.bytes(), reply).is_break() {
            self.stop();
        }
    }
}

impl Job for Pass<'_> {
    type State = Batch;
    type Reply = Reply;

    fn fill(&self, batch: &mut Batch, slot: &mut Slot) -> Result<Option<Reply>, Unavailable> {
        if self.stopped.load(Ordering::Relaxed) || !batch.request(&self.work, slot.bytes_mut()) {
            return Ok(None);
        }
        self.request.write(slot.bytes_mut());
        let reply = run(self.read_files, slot)?;
        batch.settle(slot.bytes(), &reply)?;
        Ok(Some(reply))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Passes on the sockets of each run.
struct Reader<'a> {
    query: &'a Query<'a>,
    kernel: WalkLayout,
    /// Inode of the socket that was opened for this pass.
    sample: u32,
    seen: HashSet<u64, BuildHasherDefault<Spread>>,
    place: Socket,
    walked: &'a mut WalkStats,
    take: &'a mut dyn FnMut(&Socket) -> ControlFlow<()>,
}

impl Reader<'_> {
    fn read(&mut self, slot: &[u8], reply: &Reply) -> ControlFlow<()> {
        if self.walked.stopped {
            return ControlFlow::Break(());
        }
        let now = fd_sockets::clock(slot).and_then(|(jiffies, ktime_ns)| {
            Some(KernelClock {
                hz: walk::hz(jiffies, ktime_ns)?,
                jiffies,
                ktime_ns,
            })
        });
        let mut all = fd_sockets::sockets(slot, reply);
        for FdSocket { socket, .. } in &mut all {
            // Another socket may come to lie at the address of one that is gone, and after 2^32 sockets one gets
            // the inode of another.
            let identity = u64::from(socket.inode()) << 32 | socket.identity() >> 6 & 0xffff_ffff;
            if socket.inode() == self.sample || !self.seen.insert(identity) {
                continue;
            }
            self.place.read_by_descriptor(&socket, now, &self.kernel);
            if !self.query.matches(&self.place) {
                continue;
            }
            self.walked.delivered += 1;
            if (self.take)(&self.place).is_break() {
                self.walked.stopped = true;
                return ControlFlow::Break(());
            }
        }
        self.walked.losses.broken_records += u64::from(all.is_broken());
        ControlFlow::Continue(())
    }
}

/// A hasher that spreads consecutive inodes and close addresses over all bits.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio (Knuth's multiplicative hash).
        let spread = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ spread >> 32;
    }
}

fn kinds(protocols: ProtocolSet) -> u32 {
    protocols.iter().fold(0, |all, protocol| {
        all | match protocol {
            Protocol::Udp => kind::UDP,
            Protocol::UdpLite => kind::UDP_LITE,
            Protocol::Raw => kind::RAW,
            Protocol::Mptcp => kind::MPTCP,
            Protocol::UnixStream | Protocol::UnixDgram | Protocol::UnixSeqpacket => kind::UNIX,
            Protocol::PacketRaw | Protocol::PacketDgram => kind::PACKET,
            Protocol::Netlink => kind::NETLINK,
            Protocol::Tcp | Protocol::Unknown(_) => 0,
        }
    })
}

/// The bits of a request for these flags. The program reads the inode anyway.
fn sections(detail: Detail) -> u32 {
    request_bits::sections(detail) & !(detail::TCP_INFO | detail::CONGESTION) | detail::INODE
}

/// The compiled `bpf/fd_sockets.bpf.c`.
const FD_SOCKETS: Compiled = Compiled {
    in_place: include_bytes!("../../../../../bpf/fd_sockets.bpf.o"),
    by_copy: include_bytes!("../../../../../bpf/fd_sockets_read.bpf.o"),
};

#[cfg(test)]
mod tests;
