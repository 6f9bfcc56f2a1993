//! Names of interface types, and the form of their addresses.

/// An interface type (`ARPHRD_*` of `include/uapi/linux/if_arp.h`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Hardware {
    kind: u16,
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) address: AddressForm,
}

/// The form of a hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressForm {
    /// Not written.
    None,
    /// A blank without an address.
    Empty,
    /// This number of bytes, with colons and lowercase digits.
    Lowercase(usize),
    /// This number of bytes, with colons and uppercase digits.
    Uppercase(usize),
    /// Sixteen bytes with dashes.
    Unknown,
}

impl Hardware {
    /// Returns the type with this number.
    pub(super) fn of(kind: u16) -> &'static Self {
        KINDS.iter().find(|known| known.kind == kind).unwrap_or(&UNKNOWN)
    }
}

impl AddressForm {
    /// Appends the address. Missing bytes are zeros; bytes after the eighth are not shown.
    pub(super) fn push(self, out: &mut Vec<u8>, address: &[u8]) {
        let mut known = [0; 16];
        let len = address.len().min(8);
        known[..len].copy_from_slice(&address[..len]);
        let mut push = |len: usize, digits: &[u8; 16], between: u8| {
            for (nth, byte) in known[..len].iter().enumerate() {
                if nth > 0 {
                    out.push(between);
                }
                out.extend_from_slice(&[digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
            }
        };
        match self {
            Self::None | Self::Empty => {}
            Self::Lowercase(len) => push(len, b"0123456789abcdef", b':'),
            Self::Uppercase(len) => push(len, b"0123456789ABCDEF", b':'),
            Self::Unknown => push(16, b"0123456789ABCDEF", b'-'),
        }
    }
}

const fn kind(kind: u16, name: &'static str, title: &'static str, address: AddressForm) -> Hardware {
    Hardware {
        kind,
        name,
        title,
        address,
    }
}

const KINDS: &[Hardware] = &[
    kind(1, "ether", "Ethernet", AddressForm::Lowercase(6)),
    kind(27, "eui64", "Generic EUI-64", AddressForm::Uppercase(8)),
    kind(256, "slip", "Serial Line IP", AddressForm::None),
    kind(257, "cslip", "VJ Serial Line IP", AddressForm::None),
    kind(258, "slip6", "6-bit Serial Line IP", AddressForm::None),
    kind(259, "cslip6", "VJ 6-bit Serial Line IP", AddressForm::None),
    kind(264, "adaptive", "Adaptive Serial Line IP", AddressForm::None),
    kind(512, "ppp", "Point-to-Point Protocol", AddressForm::None),
    kind(513, "hdlc", "(Cisco)-HDLC", AddressForm::None),
    kind(516, "lapb", "LAPB", AddressForm::None),
    kind(768, "tunnel", "IPIP Tunnel", AddressForm::Empty),
    kind(770, "frad", "Frame Relay Access Device", AddressForm::None),
    kind(772, "loop", "Local Loopback", AddressForm::None),
    kind(776, "sit", "IPv6-in-IPv4", AddressForm::None),
];

const UNKNOWN: Hardware = kind(u16::MAX, "unspec", "UNSPEC", AddressForm::Unknown);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_form_depends_on_the_type() {
        let check = |kind: u16, expected: &str| {
            let mut out = Vec::new();
            Hardware::of(kind)
                .address
                .push(&mut out, &[2, 0xfc, 0, 0, 0, 0x1a]);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(1, "02:fc:00:00:00:1a");
        check(27, "02:FC:00:00:00:1A:00:00");
        check(772, "");
        check(65534, "02-FC-00-00-00-1A-00-00-00-00-00-00-00-00-00-00");
    }
}
