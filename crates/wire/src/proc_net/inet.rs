use super::columns::Columns;
use crate::{Error, Layer};

/// One line of `tcp`, `udp`, `udplite`, `raw`, or of one of these with a 6 behind it.
///
/// ```text
/// sl: local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ref pointer ...
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InetLine {
    /// Whether the addresses are IPv6's.
    pub is_v6: bool,
    /// `local_address`; of a RAW socket the port is the protocol it listens to
    pub local: Address,
    /// `rem_address`
    pub remote: Address,
    /// `st`: the kernel's TCP state number, also for UDP and RAW (1 connected, 7 not)
    pub state: u8,
    /// `tx_queue`: bytes not acknowledged; of UDP and RAW the memory of what is being sent
    pub send_queue: u32,
    /// `rx_queue`: bytes to be read, or of a TCP listener the connections waiting to be accepted
    pub receive_queue: u32,
    /// `tr`: 0 none, 1 retransmission, 2 keepalive, 3 TIME_WAIT, 4 zero window probe
    pub timer: u8,
    /// `tm->when`: hundredths of a second (`USER_HZ`) until the timer fires; above `i64::MAX` overdue
    pub expires_ticks: u64,
    /// `retrnsmt`: timeouts of the retransmission timer
    pub retransmits: u32,
    /// `uid`, as the reader's user namespace names it; 0 for TIME_WAIT, which has none
    pub uid: u32,
    /// `timeout`: unanswered probes, of zero windows or keepalive
    pub probes: u32,
    /// `inode`: 0 where no file holds the socket
    pub inode: u64,
    /// `ref`: references held to it
    pub references: i64,
    /// What follows the pointer.
    pub tail: Tail,
}

/// An address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// In network order, of which IPv4 uses the first four.
    pub bytes: [u8; 16],
    /// In host order.
    pub port: u16,
}

/// The last columns of a line, which differ by protocol and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// None (TIME_WAIT, SYN_RECV, and UDP before Linux 2.6.27), or a number of columns that has no meaning yet.
    None,
    /// `drops` of UDP and RAW: packets lost for want of room.
    Drops(u64),
    /// Of a full TCP socket. For a listener only `ssthresh` means anything: the queue of Fast Open.
    Tcp {
        /// Retransmission timeout in hundredths of a second, rounded down
        rto_ticks: u64,
        /// Delayed ACK timeout in hundredths of a second, rounded down
        ato_ticks: u64,
        /// Bit 0 interactive ("pingpong"), above it the count of quick ACKs
        quick_ack: u64,
        /// Congestion window in segments
        snd_cwnd: u32,
        /// Slow start threshold in segments; -1 while in the first slow start
        ssthresh: i64,
    },
}

impl InetLine {
    /// One line.
    ///
    /// # Errors
    /// When a column is missing or not the number it should be; so for the header.
    #[inline]
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        let mut columns = Columns::new(line, Layer::ProcNetInet);
        columns.decimal(); // sl
        columns.byte(b':');
        let (local, is_v6) = Address::parse(&mut columns);
        let (remote, remote_is_v6) = Address::parse(&mut columns);
        let state = columns.hex_u8();
        let send_queue = columns.hex_u32();
        columns.byte(b':');
        let receive_queue = columns.hex_u32();
        let timer = columns.hex_u8();
        columns.byte(b':');
        let expires_ticks = columns.hex();
        let retransmits = columns.hex_u32();
        let uid = columns.decimal_u32();
        let probes = columns.decimal_u32();
        let inode = columns.decimal();
        let references = columns.signed();
        columns.word(); // pointer: hashed, hidden as zeros, or "(ptrval)"
        let tail = Tail::parse(&mut columns);
        columns.finish(Self {
            is_v6: is_v6 || remote_is_v6,
            local,
            remote,
            state,
            send_queue,
            receive_queue,
            timer,
            expires_ticks,
            retransmits,
            uid,
            probes,
            inode,
            references,
            tail,
        })
    }
}

impl Address {
    /// The kernel prints each four bytes of an address as one number in its own byte order (`%08X` of a
    /// `__be32`), and the port as a number.
    #[inline]
    fn parse(columns: &mut Columns<'_>) -> (Self, bool) {
        columns.more();
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&columns.eight().to_ne_bytes());
        let is_v6 = !columns.has_byte(b':');
        if is_v6 {
            for word in bytes[4..].chunks_exact_mut(4) {
                word.copy_from_slice(&columns.eight().to_ne_bytes());
            }
            columns.byte(b':');
        }
        let port = columns.hex_u16();
        (Self { bytes, port }, is_v6)
    }
}

impl Tail {
    #[inline]
    fn parse(columns: &mut Columns<'_>) -> Self {
        if !columns.more() {
            return Self::None;
        }
        let first = columns.decimal();
        if !columns.more() {
            return Self::Drops(first);
        }
        let second = columns.decimal();
        let mut rest = [0; 3];
        for column in &mut rest {
            if !columns.more() {
                return Self::None;
            }
            *column = columns.signed();
        }
        let [quick_ack, snd_cwnd, ssthresh] = rest;
        match (u64::try_from(quick_ack), u32::try_from(snd_cwnd)) {
            (Ok(quick_ack), Ok(snd_cwnd)) => Self::Tcp {
                rto_ticks: first,
                ato_ticks: second,
                quick_ack,
                snd_cwnd,
                ssthresh,
            },
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// As the kernel prints an IPv4 address: a number in its own byte order.
    fn v4(bytes: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(bytes))
    }

    fn line(rest: &str) -> String {
        format!(
            "  12: {}:1F90 {}:9C40 01 00000010:00000020 01:00000014 00000003  1000        2 54321 4 {rest}",
            v4([127, 0, 0, 1]),
            v4([10, 1, 2, 3]),
        )
    }

    #[test]
    fn reads_each_column() {
        let text = line("ffff8881045ad580 20 4 30 10 -1\n");
        let found = InetLine::parse(text.as_bytes()).unwrap();
        assert!(!found.is_v6);
        assert_eq!(
            (found.local.bytes[..4].as_ref(), found.local.port),
            (&[127, 0, 0, 1][..], 8080)
        );
        assert_eq!(
            (found.remote.bytes[..4].as_ref(), found.remote.port),
            (&[10, 1, 2, 3][..], 40000)
        );
        assert_eq!((found.state, found.send_queue, found.receive_queue), (1, 16, 32));
        assert_eq!((found.timer, found.expires_ticks, found.retransmits), (1, 20, 3));
        assert_eq!(
            (found.uid, found.probes, found.inode, found.references),
            (1000, 2, 54321, 4)
        );
        assert_eq!(
            found.tail,
            Tail::Tcp {
                rto_ticks: 20,
                ato_ticks: 4,
                quick_ack: 30,
                snd_cwnd: 10,
                ssthresh: -1
            }
        );
    }

    #[test]
    fn tails_by_their_number_of_columns() {
        for (rest, tail) in [
            ("0", Tail::None),
            ("(____ptrval____)", Tail::None),
            ("0000000000000000 17 ", Tail::Drops(17)),
            ("0 1 2", Tail::None),
            ("0 1 2 3 4", Tail::None),
        ] {
            assert_eq!(
                InetLine::parse(line(rest).as_bytes()).unwrap().tail,
                tail,
                "{rest}"
            );
        }
        for bad in ["", "0 x", "0 1x", "0 1 2 3 4 x"] {
            assert!(InetLine::parse(line(bad).as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn ipv6_is_four_numbers() {
        let ip = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd];
        let words: String = ip.chunks(4).map(|word| v4(word.try_into().unwrap())).collect();
        let text = format!(
            "   0: {words}:0050 {}:0000 0A 00000000:00000001 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0",
            "0".repeat(32)
        );
        let found = InetLine::parse(text.as_bytes()).unwrap();
        assert!(found.is_v6);
        assert_eq!((found.local.bytes, found.local.port), (ip, 80));
        assert_eq!((found.remote.bytes, found.receive_queue), ([0; 16], 1));
    }

    #[test]
    fn columns_may_be_wider_or_lower_case() {
        let text = "100000: 0100007f:1F90 00000000:0000 0a 100000000:0 00:0 0 0 0 1 1 0";
        assert!(InetLine::parse(text.as_bytes()).is_err(), "a queue of 36 bits");
        let text = "100000: 0100007f:1F90 00000000:0000 0a 000000001:0 02:fffffffffffffff0 0 4294967294 0 18446744073709551615 -1 0";
        let found = InetLine::parse(text.as_bytes()).unwrap();
        assert_eq!((found.send_queue, found.expires_ticks), (1, u64::MAX - 15));
        assert_eq!(
            (found.uid, found.inode, found.references),
            (4294967294, u64::MAX, -1)
        );
    }

    #[test]
    fn a_line_cut_anywhere_is_an_error_or_lacks_its_tail() {
        let text = line("ffff8881045ad580 20 4 30 10 -1");
        let pointer = text.find("ffff8881").unwrap();
        for len in 0..text.len() {
            match InetLine::parse(&text.as_bytes()[..len]) {
                Err(error) => assert!(error.offset <= len && error.layer == Layer::ProcNetInet),
                Ok(_) => assert!(len > pointer, "cut at {len}"),
            }
        }
        assert!(InetLine::parse(b"  sl  local_address rem_address   st").is_err());
    }
}
