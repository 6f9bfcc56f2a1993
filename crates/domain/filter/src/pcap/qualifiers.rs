//! The words before a name or number: protocol, direction, kind.

/// The words before a name or number, which following ones inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub(super) proto: Option<Proto>,
    pub(super) direction: Option<Direction>,
    pub(super) kind: Kind,
}

/// A protocol by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proto {
    Link,
    Ip,
    Ip6,
    Arp,
    Rarp,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    Igmp,
    Igrp,
    Pim,
    Vrrp,
    Ah,
    Esp,
}

/// `src`, `dst`, and their combinations
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Source,
    Destination,
    Either,
    Both,
}

/// The kind of the name or number that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No kind, which means a host
    Default,
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

impl Proto {
    pub(super) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "ether" | "link" | "ppp" | "slip" | "fddi" | "tr" | "wlan" => Self::Link,
            "ip" => Self::Ip,
            "ip6" => Self::Ip6,
            "arp" => Self::Arp,
            "rarp" => Self::Rarp,
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            "sctp" => Self::Sctp,
            "icmp" => Self::Icmp,
            "icmp6" => Self::Icmp6,
            "igmp" => Self::Igmp,
            "igrp" => Self::Igrp,
            "pim" => Self::Pim,
            "vrrp" | "carp" => Self::Vrrp,
            "ah" => Self::Ah,
            "esp" => Self::Esp,
            _ => return None,
        })
    }

    /// Returns its IP protocol number; `None` if it has none.
    pub(super) const fn number(self) -> Option<u32> {
        Some(match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
            Self::Icmp => 1,
            Self::Icmp6 => 58,
            Self::Igmp => 2,
            Self::Igrp => 9,
            Self::Pim => 103,
            Self::Vrrp => 112,
            Self::Ah => 51,
            Self::Esp => 50,
            Self::Link | Self::Ip | Self::Ip6 | Self::Arp | Self::Rarp => return None,
        })
    }
}
