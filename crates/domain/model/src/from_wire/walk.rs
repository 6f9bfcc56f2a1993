use crate::{
    CgroupId, CongestionInfo, Cookie, Endpoint, Family, Inode, InterfaceIndex, Memory, NetnsInode, Options,
    Port, Protocol, Queues, Shutdown, Socket, State, TcpInfo, Timer,
};
use sockeye_wire::walk::{KernelClock, Kind, Memory as WireMemory, Record, detail};
use std::net::IpAddr;

/// What has to be known of a kernel to make sense of what a walk over its tables read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkedKernel {
    /// Which bit of `inet_flags` each of [`Options::NAMES`] is; `None` where it is not known.
    pub option_bits: Option<[u8; Options::NAMES.len()]>,
    /// Whether it keeps a cgroup with each socket.
    pub has_cgroups: bool,
    /// Whether class and type of service are wanted.
    pub service_class: bool,
    /// Whether each socket is to say where it lives.
    pub netns: bool,
}

impl Socket {
    /// Reads one record of a walk over TCP's tables into this place; `now` is when its run began.
    #[inline]
    pub fn read_walked(&mut self, record: &Record<'_>, now: KernelClock, kernel: &WalkedKernel) {
        self.read_full(record, Some(now), kernel, Protocol::Tcp);
        if let Some(raw) = record.tcp_raw(now) {
            self.tcp_info = Some(TcpInfo::from_walk(&raw, self.state));
        }
        if let Some(congestion) = record.congestion() {
            (self.congestion, self.congestion_info) = CongestionInfo::from_walk(&congestion);
        }
    }

    /// Likewise, of any protocol with IP addresses. Without a moment nobody knows when timers will run off.
    #[inline]
    pub(super) fn read_full(
        &mut self,
        record: &Record<'_>,
        now: Option<KernelClock>,
        kernel: &WalkedKernel,
        protocol: Protocol,
    ) {
        let state = State::from_number(record.state());
        self.clear(protocol, state);
        let is_v4 = record.family() == AF_INET;
        self.family = Family::from_number(u8::try_from(record.family()).unwrap_or(u8::MAX));
        // By its family, not by its address: an IPv6 socket that talks IPv4 keeps the mapped form.
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
            self.take_uid(record.uid());
        }
        if record.has(detail::OPTIONS) || !is_full {
            self.mark = Some(record.mark());
        }
        if record.has(detail::OPTIONS) {
            self.take_walked_options(record, kernel);
        }
        self.memory = record.memory().map(Into::into);
    }

    fn take_walked_options(&mut self, record: &Record<'_>, kernel: &WalkedKernel) {
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
    /// From the kernel's two numbers.
    #[inline]
    pub(super) const fn of(state: State, receive: u32, send: u32) -> Self {
        match state {
            State::Listen => Self::Accept {
                waiting: receive,
                backlog: Some(send),
            },
            _ => Self::Data {
                receive_bytes: receive,
                send_bytes: send,
            },
        }
    }
}

const AF_INET: u16 = 2;
