//! Records of BPF walks over the kernel's TCP tables to `Socket`; `by_descriptor` shares the IP part.
//! Called per record: must not allocate.

use crate::{
    CgroupId, CongestionInfo, Cookie, Endpoint, Family, Inode, InterfaceIndex, Memory, NetnsInode, Options,
    Port, Protocol, Queues, Shutdown, Socket, State, TcpInfo, Timer,
};
use sockeye_wire::walk::{KernelClock, Kind, Memory as WireMemory, Record, detail};
use std::net::IpAddr;

/// The layout of the records of a walk: the properties of the kernel, and what was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkLayout {
    /// The bit of `inet_flags` of each of [`Options::NAMES`]; `None` if unknown.
    pub option_bits: Option<[u8; Options::NAMES.len()]>,
    /// Whether the kernel stores a cgroup with each socket.
    pub has_cgroups: bool,
    /// Whether to read net_cls class, type of service and traffic class.
    pub service_class: bool,
    /// Whether to set the namespace of each socket.
    pub netns: bool,
}

impl Socket {
    /// Reads a record of a walk over TCP's tables into this socket; `now` is the time of its run.
    #[inline]
    pub fn read_walk_record(&mut self, record: &Record<'_>, now: KernelClock, kernel: &WalkLayout) {
        self.read_inet_record(record, Some(now), kernel, Protocol::Tcp);
        if let Some(raw) = record.tcp_raw(now) {
            self.tcp_info = Some(TcpInfo::from_walk(&raw, self.state));
        }
        if let Some(congestion) = record.congestion() {
            (self.congestion, self.congestion_info) = CongestionInfo::from_walk(&congestion);
        }
    }

    /// Reads a record of any IP protocol. Without `now` the timer stays `None`.
    #[inline]
    pub(super) fn read_inet_record(
        &mut self,
        record: &Record<'_>,
        now: Option<KernelClock>,
        kernel: &WalkLayout,
        protocol: Protocol,
    ) {
        let state = State::from_number(record.state());
        self.clear(protocol, state);
        let is_v4 = record.family() == AF_INET;
        self.family = Family::from_number(u8::try_from(record.family()).unwrap_or(u8::MAX));
        // The family decides, not the address: an IPv6 socket with an IPv4 peer keeps the mapped form.
        let end = |address: std::net::Ipv6Addr, port| {
            let ip = match address.to_ipv4_mapped() {
                Some(v4) if is_v4 => IpAddr::V4(v4),
                _ => IpAddr::V6(address),
            };
            Endpoint::inet(ip, Port(port))
        };
        self.local = end(record.local(), record.local_port());
        self.peer = end(record.peer(), record.peer_port());
        self.interface = (record.interface() != 0).then_some(InterfaceIndex(record.interface()));
        self.cookie = (record.cookie() != 0).then_some(Cookie(record.cookie()));
        self.netns = kernel.netns.then_some(NetnsInode(record.netns()));
        let is_full = record.kind() == Kind::Full;
        if record.has(detail::QUEUES) || !is_full {
            self.queues = Queues::of(state, record.receive_queue(), record.send_queue());
        }
        if let Some(now) = now
            && (record.has(detail::TIMER) || !is_full)
        {
            self.timer = Timer::from_numbers(
                record.timer(),
                now.msecs(record.expires_jiffies()),
                u32::from(record.retransmits()),
            );
        }
        if record.has(detail::INODE) || !is_full {
            self.inode = (record.inode() != 0).then_some(Inode(record.inode()));
        }
        if record.has(detail::USER) || !is_full {
            self.set_uid(record.uid());
        }
        if record.has(detail::OPTIONS) || !is_full {
            self.mark = Some(record.mark());
        }
        if record.has(detail::OPTIONS) {
            self.read_options(record, kernel);
        }
        self.memory = record.memory().map(Into::into);
    }

    fn read_options(&mut self, record: &Record<'_>, kernel: &WalkLayout) {
        self.shutdown = Some(Shutdown::from_bits(record.shutdown()));
        if kernel.has_cgroups {
            self.cgroup = Some(CgroupId(record.cgroup()));
        }
        let is_v6 = self.family == Family::Inet6;
        if is_v6 && matches!(self.state, State::Listen | State::Close | State::BoundInactive) {
            self.v6only = Some(record.v6only());
        }
        self.options = kernel.option_bits.map(|places| {
            let set = |place: &u8| record.inet_flags() >> (place & 63) & 1 != 0;
            let bits = (0..).zip(&places);
            Options(bits.fold(0, |all, (bit, place)| all | u16::from(set(place)) << bit))
        });
        if kernel.service_class {
            self.class_id = Some(record.class_id());
            self.tos = Some(record.tos());
            self.tclass = is_v6.then_some(record.tclass());
        }
    }
}

impl From<WireMemory> for Memory {
    fn from(memory: WireMemory) -> Self {
        Self {
            rmem_alloc_bytes: Some(memory.0[0]),
            rcvbuf_bytes: Some(memory.0[1]),
            wmem_alloc_bytes: Some(memory.0[2]),
            sndbuf_bytes: Some(memory.0[3]),
            fwd_alloc_bytes: Some(memory.0[4]),
            wmem_queued_bytes: Some(memory.0[5]),
            optmem_bytes: Some(memory.0[6]),
            backlog_bytes: Some(memory.0[7]),
            drops: Some(memory.0[8]),
        }
    }
}

impl Queues {
    /// Converts the kernel's two numbers.
    #[inline]
    pub(super) const fn of(state: State, receive: u32, send: u32) -> Self {
        match state {
            State::Listen => Self::Accept {
                waiting: receive,
                backlog: Some(send),
            },
            // `connect` puts the socket into the table before it sets `snd_una`: until then the kernel reports a sequence
            // number. What really waits in SYN_SENT is the SYN and at most one segment of TCP Fast Open.
            State::SynSent if send > SYN_SENT_QUEUE_MAX => Self::Data {
                receive_bytes: receive,
                send_bytes: 0,
            },
            _ => Self::Data {
                receive_bytes: receive,
                send_bytes: send,
            },
        }
    }
}

/// The sequence number of a SYN, and the bytes of the largest segment.
const SYN_SENT_QUEUE_MAX: u32 = 1 + u16::MAX as u32;
const AF_INET: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_number_of_unfinished_connect_is_no_queue() {
        let data = |send_bytes| Queues::Data {
            receive_bytes: 0,
            send_bytes,
        };
        assert_eq!(Queues::of(State::SynSent, 0, 4_018_620_697), data(0));
        assert_eq!(Queues::of(State::SynSent, 0, 1), data(1));
        assert_eq!(Queues::of(State::SynSent, 0, 65_536), data(65_536));
        assert_eq!(Queues::of(State::Established, 0, 4_018_620), data(4_018_620));
    }
}
