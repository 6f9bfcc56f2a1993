//! The numbers that snoop files have for link types (RFC 1761, and `sys/dlpi.h` of Solaris).

use super::LinkType;

/// Returns the type of a link header, which snoop numbers differently; `None` if there is no equivalent.
pub(super) const fn link_type(datalink: u32) -> Option<LinkType> {
    Some(match datalink {
        0 | 4 => LinkType::ETHERNET,
        2 => LinkType(6), // token ring
        8 => LinkType::FDDI,
        _ => return None,
    })
}

/// Returns the name of snoop's number of a link type; `None` if unknown.
pub(super) const fn datalink_name(datalink: u32) -> Option<&'static str> {
    Some(match datalink {
        1 => "token bus",
        3 => "metro net",
        5 => "HDLC",
        6 => "character synchronous",
        7 => "channel to channel",
        9 => "other",
        10 => "frame relay LAPF",
        11 => "multiprotocol over frame relay",
        12 => "character asynchronous",
        13 => "X.25",
        14 => "loopback",
        16 => "Fibre Channel",
        17 => "ATM",
        18 => "ATM classical IP",
        19 => "X.25 LAPB",
        20 => "ISDN",
        21 => "HIPPI",
        22 => "100VG-AnyLAN Ethernet",
        23 => "100VG-AnyLAN token ring",
        24 => "ISO 8802-3 and Ethernet",
        25 => "100BaseT",
        26 => "InfiniBand",
        _ => return None,
    })
}
