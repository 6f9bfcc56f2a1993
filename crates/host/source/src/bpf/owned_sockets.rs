//! Every socket that some process holds, of all protocols but TCP: the pass of [`super::holders`], by programs that
//! also read what the descriptors lead to.
//!
//! What it does not see: a socket that nobody has a descriptor of, be it in flight in a message of a UNIX socket, held
//! by an io_uring alone, or by the kernel itself.

use super::holders::{Batch, Lister, Work, run, work_of};
use super::kernel::{Kernel, Unavailable};
use super::tables::{OPTION_ENUMERATORS, WalkStats, walked_kernel};
use super::workers::{self, Job};
use crate::query::{Detail, Families};
use sockeye_model::{Family, NetnsInode, Protocol, ProtocolSet, Socket, State, StateSet, WalkedKernel};
use sockeye_sys::bpf::{Program, Slot};
use sockeye_wire::held::{self, Held, Request, kind};
use sockeye_wire::holders::Reply;
use sockeye_wire::walk::{self, Moment, detail};
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
    kernel: WalkedKernel,
}

/// Which sockets are selection, and how much about them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection {
    /// Of which protocols. TCP is never told.
    pub(crate) protocols: ProtocolSet,
    /// IP sockets of which families.
    pub(crate) families: Families,
    /// In which states.
    pub(crate) states: StateSet,
    /// What beyond ends, state and inode. Cookies, tcp_info (of MPTCP) and congestion control are not told.
    pub(crate) detail: Detail,
    /// Where; `None`: everywhere.
    pub(crate) netns: Option<NetnsInode>,
}

impl OwnedSockets {
    pub(crate) fn load(kernel: &Kernel) -> Result<Self, Unavailable> {
        let prepared = kernel.prepare(HELD, &OPTION_ENUMERATORS)?;
        let kernel = walked_kernel(&prepared);
        let (lister, read_files, slots) = Lister::load(prepared)?;
        Ok(Self {
            lister,
            read_files,
            slots: Mutex::new(slots),
            kernel,
        })
    }

    /// Hands every socket that is wanted and that a process has a descriptor of to `take`, once, on this thread.
    ///
    /// `socket` is a descriptor of ours that is a socket: its file shows what makes one. It is not told itself. Each
    /// socket says in which namespace it lives. Memory is bounded by the slots and 16 bytes a socket.
    ///
    /// # Errors
    /// What came before stays told: see [`WalkStats::delivered`].
    pub(crate) fn sockets(
        &self,
        socket: BorrowedFd<'_>,
        selection: &Selection,
        walked: &mut WalkStats,
        take: &mut dyn FnMut(&Socket) -> ControlFlow<()>,
    ) -> Result<(), Unavailable> {
        let request = Request {
            kinds: kinds(selection.protocols),
            detail: sections(selection.detail),
            netns: selection.netns.map_or(0, |inode| inode.0),
        };
        if request.kinds == 0 {
            return Ok(());
        }
        // Whoever comes meanwhile waits for the slots.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&mut slots, socket, &request, selection, walked, take)
    }

    fn run(
        &self,
        slots: &mut Vec<Slot>,
        socket: BorrowedFd<'_>,
        request: &Request,
        selection: &Selection,
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
                    selection,
                    kernel: WalkedKernel {
                        service_class: selection.detail.contains(Detail::SERVICE_CLASS),
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
    /// Nobody wants to know more.
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

/// Hands out what runs bring.
struct Reader<'a> {
    selection: &'a Selection,
    kernel: WalkedKernel,
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
        let now = held::clock(slot).and_then(|(jiffies, ktime_ns)| {
            Some(Moment {
                hz: walk::hz(jiffies, ktime_ns)?,
                jiffies,
                ktime_ns,
            })
        });
        let mut all = held::sockets(slot, reply);
        for Held { socket, .. } in &mut all {
            // Another socket may come to lie at the address of one that is gone, and after 2^32 sockets one gets
            // the inode of another.
            let identity = u64::from(socket.inode()) << 32 | socket.identity() >> 6 & 0xffff_ffff;
            if socket.inode() == self.sample || !self.seen.insert(identity) {
                continue;
            }
            self.place.read_held(&socket, now, &self.kernel);
            if !self.matches_selection() {
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

    fn matches_selection(&self) -> bool {
        let (socket, selection) = (&self.place, self.selection);
        selection.states.contains(socket.state)
            // A type without a name can only be of a family that was asked for.
            && (selection.protocols.contains(socket.protocol) || matches!(socket.protocol, Protocol::Unknown(_)))
            && match socket.family {
                Family::Inet => selection.families.v4,
                Family::Inet6 => selection.families.v6,
                _ => true,
            }
    }
}

/// Inodes follow one another, and addresses lie close: spreads them over all bits.
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
        // 2^64 divided by the golden ratio, as Knuth has it.
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
    crate::walk::sections(detail) & !(detail::TCP_INFO | detail::CONGESTION) | detail::INODE
}

/// The compiled `bpf/held.bpf.c`.
const HELD: &[u8] = include_bytes!("../../../../../bpf/held.bpf.o");

#[cfg(test)]
mod tests;
