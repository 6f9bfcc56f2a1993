//! Which tables, families and states `ss` lists: those its options select, and the defaults for the rest.

use crate::output::SsLevel;
use sockeye_model::Family;

/// A table of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Tcp,
    Mptcp,
    Dccp,
    Udp,
    Raw,
    UnixDgram,
    UnixStream,
    UnixSeqpacket,
    PacketDgram,
    PacketRaw,
    Netlink,
    Sctp,
    VsockStream,
    VsockDgram,
    Tipc,
    Xdp,
}

use Table::{
    Dccp, Mptcp, Netlink, PacketDgram, PacketRaw, Raw, Sctp, Tcp, Tipc, Udp, UnixDgram, UnixSeqpacket,
    UnixStream, VsockDgram, VsockStream, Xdp,
};

/// The tables, families and states to list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Selection {
    level: SsLevel,
    /// A bit for each [`Table`].
    tables: u32,
    /// A bit for each family's number.
    families: u64,
    /// A bit for each state's number.
    pub(super) states: u32,
    /// The family that was selected last.
    pub(super) preferred: Option<Family>,
    /// Whether any option selected tables or families.
    pub(super) is_chosen: bool,
}

impl Selection {
    pub(super) fn new(level: SsLevel) -> Self {
        Self {
            level,
            ..Self::default()
        }
    }

    pub(super) fn set_table(&mut self, table: Table, selected: bool) {
        if selected {
            self.tables |= bit(table);
            self.states |= table.default_states(self.level);
        } else {
            self.tables &= !bit(table);
        }
        self.is_chosen = true;
    }

    /// Selects the tables with a name of `-A`, or deselects them with a `!` before it. False if the name is unknown.
    pub(super) fn set_named(&mut self, name: &str) -> bool {
        let (name, selected) = match name.strip_prefix('!') {
            Some(name) => (name, false),
            None => (name, true),
        };
        let Some((_, tables)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return false;
        };
        let level = self.level;
        let mut known = tables.iter().filter(|table| table.is_known(level)).peekable();
        if known.peek().is_none() {
            return false;
        }
        for table in known {
            self.set_table(*table, selected);
        }
        true
    }

    pub(super) const fn clear_tables(&mut self) {
        self.tables = 0;
        self.is_chosen = true;
    }

    pub(super) fn add_family(&mut self, family: Family) {
        self.states |= family_states(family, self.level);
        self.families |= family_bit(family);
        self.preferred = Some(family);
        self.is_chosen = true;
    }

    /// Restricts the listing to one family, because of a condition in the filter; states and tables stay.
    pub(super) fn restrict_to(&mut self, family: Family) {
        self.families = family_bit(family);
        self.preferred = Some(family);
    }

    /// Adds what options left out: the families of the selected tables, the tables of the selected families.
    pub(super) fn complete(&mut self) {
        for table in TABLES.into_iter().filter(|table| self.tables & bit(*table) != 0) {
            if table.families() & self.families == 0 {
                self.families |= table.families();
            }
        }
        for (family, tables) in FAMILIES {
            let known = tables.iter().filter(|table| table.is_known(self.level));
            let tables = known.fold(0, |all, table| all | bit(*table));
            if self.families & family_bit(*family) != 0 && tables & self.tables == 0 {
                self.tables |= tables;
            }
        }
    }

    pub(super) const fn has(&self, table: Table) -> bool {
        self.tables & bit(table) != 0
    }

    pub(super) fn has_any(&self, tables: &[Table]) -> bool {
        tables.iter().any(|table| self.has(*table))
    }

    pub(super) fn has_family(&self, family: Family) -> bool {
        self.families & family_bit(family) != 0
    }

    pub(super) const fn is_without_tables(&self) -> bool {
        self.tables == 0
    }

    pub(super) const fn is_without_families(&self) -> bool {
        self.families == 0
    }

    pub(super) const fn is_one_table(&self) -> bool {
        self.tables.is_power_of_two()
    }

    pub(super) const fn is_one_state(&self) -> bool {
        self.states.is_power_of_two()
    }
}

impl Table {
    /// Whether `ss` has it. DCCP is gone from Linux 6.16, and from `ss` since 7.3.
    pub(super) fn is_known(self, level: SsLevel) -> bool {
        self != Dccp || level < SsLevel::V7_3
    }

    fn default_states(self, level: SsLevel) -> u32 {
        match self {
            Udp | Raw => ESTABLISHED,
            UnixDgram | PacketDgram | PacketRaw | Netlink | Xdp => CLOSE,
            Tipc => ESTABLISHED | LISTEN | CLOSE,
            _ => connected(level),
        }
    }

    fn families(self) -> u64 {
        match self {
            Tcp | Mptcp | Dccp | Udp | Raw | Sctp => family_bit(Family::Inet) | family_bit(Family::Inet6),
            UnixDgram | UnixStream | UnixSeqpacket => family_bit(Family::Unix),
            PacketDgram | PacketRaw => family_bit(Family::Packet),
            Netlink => family_bit(Family::Netlink),
            VsockStream | VsockDgram => family_bit(VSOCK),
            Tipc => family_bit(TIPC),
            Xdp => family_bit(XDP),
        }
    }
}

fn family_states(family: Family, level: SsLevel) -> u32 {
    match family {
        Family::Packet | Family::Netlink | XDP => CLOSE,
        TIPC => ESTABLISHED | LISTEN | CLOSE,
        _ => connected(level),
    }
}

const fn bit(table: Table) -> u32 {
    1 << table as u32
}

fn family_bit(family: Family) -> u64 {
    1_u64.checked_shl(family.number().into()).unwrap_or(0)
}

/// All states, a bit for each number; also bit 0, which no state has. Since 6.15 with those of sockets that are only bound,
/// which the kernel reports then.
pub(super) fn all(level: SsLevel) -> u32 {
    if level >= SsLevel::V6_15 {
        (1 << 14) - 1
    } else {
        (1 << 12) - 1
    }
}

/// Adds SYN_RECV to states with NEW_SYN_RECV: the kernel lists half-open connections for either. So they are listed by
/// default since 6.15, and with `exclude syn-recv`.
pub(super) const fn with_half_open(states: u32) -> u32 {
    if states & NEW_SYN_RECV != 0 {
        states | SYN_RECV
    } else {
        states
    }
}

/// The states that are listed by default.
pub(super) fn connected(level: SsLevel) -> u32 {
    all(level) & !(LISTEN | CLOSE | TIME_WAIT | SYN_RECV)
}

const ESTABLISHED: u32 = 1 << 1;
const SYN_SENT: u32 = 1 << 2;
const SYN_RECV: u32 = 1 << 3;
const TIME_WAIT: u32 = 1 << 6;
pub(super) const CLOSE: u32 = 1 << 7;
const LISTEN: u32 = 1 << 10;
pub(super) const LISTENING: u32 = LISTEN | CLOSE;
const NEW_SYN_RECV: u32 = 1 << 12;
pub(super) const BOUND_INACTIVE: u32 = 1 << 13;

/// Returns the states with this name, which may be in upper or lower case.
pub(super) fn states_named(word: &str, level: SsLevel) -> Option<u32> {
    let word = word.to_ascii_lowercase();
    let all = all(level);
    Some(match &*word {
        "all" => all,
        "connected" => all & !(CLOSE | LISTEN),
        "synchronized" => all & !(CLOSE | LISTEN | SYN_SENT),
        "bucket" => SYN_RECV | TIME_WAIT,
        "big" => all & !(SYN_RECV | TIME_WAIT),
        "bound-inactive" if level >= SsLevel::V6_15 => BOUND_INACTIVE,
        "unknown" => 1,
        "established" => ESTABLISHED,
        "syn-sent" => SYN_SENT,
        "syn-recv" | "syn-rcv" => SYN_RECV,
        "fin-wait-1" => 1 << 4,
        "fin-wait-2" => 1 << 5,
        "time-wait" => TIME_WAIT,
        "unconnected" | "close" | "closed" => CLOSE,
        "close-wait" => 1 << 8,
        "last-ack" => 1 << 9,
        "listening" => LISTEN,
        "closing" => 1 << 11,
        _ => return None,
    })
}

const TIPC: Family = Family::Unknown(30);
const VSOCK: Family = Family::Unknown(40);
const XDP: Family = Family::Unknown(44);

/// All tables; TIPC is last.
const TABLES: [Table; 16] = [
    Tcp,
    Mptcp,
    Dccp,
    Udp,
    Raw,
    UnixDgram,
    UnixStream,
    UnixSeqpacket,
    PacketDgram,
    PacketRaw,
    Netlink,
    Sctp,
    VsockStream,
    VsockDgram,
    Xdp,
    Tipc,
];

/// Families in the order of their numbers, with their tables.
const FAMILIES: &[(Family, &[Table])] = &[
    (Family::Unix, UNIX),
    (Family::Inet, INET),
    (Family::Inet6, INET),
    (Family::Netlink, &[Netlink]),
    (Family::Packet, PACKET),
    (TIPC, &[Tipc]),
    (VSOCK, &[VsockStream, VsockDgram]),
    (XDP, &[Xdp]),
];

const INET: &[Table] = &[Udp, Dccp, Tcp, Mptcp, Sctp, Raw];
const UNIX: &[Table] = &[UnixStream, UnixDgram, UnixSeqpacket];
const PACKET: &[Table] = &[PacketRaw, PacketDgram];

/// Names for `-A`. As in ss, `all` lacks TIPC.
const NAMES: &[(&str, &[Table])] = &[
    ("all", TABLES.split_at(TABLES.len() - 1).0),
    ("inet", INET),
    ("udp", &[Udp]),
    ("dccp", &[Dccp]),
    ("tcp", &[Tcp]),
    ("mptcp", &[Mptcp]),
    ("sctp", &[Sctp]),
    ("raw", &[Raw]),
    ("unix", UNIX),
    ("unix_stream", &[UnixStream]),
    ("u_str", &[UnixStream]),
    ("unix_dgram", &[UnixDgram]),
    ("u_dgr", &[UnixDgram]),
    ("unix_seqpacket", &[UnixSeqpacket]),
    ("u_seq", &[UnixSeqpacket]),
    ("packet", PACKET),
    ("packet_raw", &[PacketRaw]),
    ("p_raw", &[PacketRaw]),
    ("packet_dgram", &[PacketDgram]),
    ("p_dgr", &[PacketDgram]),
    ("netlink", &[Netlink]),
    ("tipc", &[Tipc]),
    ("vsock", &[VsockStream, VsockDgram]),
    ("vsock_stream", &[VsockStream]),
    ("v_str", &[VsockStream]),
    ("vsock_dgram", &[VsockDgram]),
    ("v_dgr", &[VsockDgram]),
    ("xdp", &[Xdp]),
];
