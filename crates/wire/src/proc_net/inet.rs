//! Parses `/proc/net/tcp`, `udp`, `udplite`, `raw` and their IPv6 files, for the `/proc` source of sockets
//! (`source/src/procfs.rs`). It runs once per socket and must not allocate.

use super::columns::{Columns, hex4, hex8};
use crate::{Error, Layer};

/// A line of `tcp`, `udp`, `udplite`, `raw`, or of one of their IPv6 counterparts.
///
/// ```text
/// sl: local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ref pointer ...
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InetLine {
    /// Whether the addresses are IPv6's.
    pub is_v6: bool,
    /// `local_address`; of a RAW socket the port is its IP protocol
    pub local: Address,
    /// `rem_address`
    pub remote: Address,
    /// `st`: the kernel's TCP state number, also for UDP and RAW (1 connected, 7 not)
    pub state: u8,
    /// `tx_queue`: bytes not acknowledged; of UDP and RAW the memory of data being sent
    pub send_queue: u32,
    /// `rx_queue`: bytes to read, or of a TCP listener the connections waiting to be accepted
    pub receive_queue: u32,
    /// `tr`: 0 none, 1 retransmission, 2 keepalive, 3 TIME_WAIT, 4 zero window probe
    pub timer: u8,
    /// `tm->when`: hundredths of a second (`USER_HZ`) until the timer expires; above `i64::MAX` overdue
    pub expires_ticks: u64,
    /// `retrnsmt`: timeouts of the retransmission timer
    pub retransmits: u32,
    /// `uid`, in the reader's user namespace; 0 for TIME_WAIT, which has none
    pub uid: u32,
    /// `timeout`: unanswered probes, of zero windows or keepalive
    pub probes: u32,
    /// `inode`: 0 where no file refers to the socket
    pub inode: u64,
    /// `ref`: number of references
    pub references: i64,
    /// The columns after the pointer.
    pub tail: Tail,
}

/// An address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Address in network order; IPv4 uses the first four bytes.
    pub bytes: [u8; 16],
    /// Port in host order.
    pub port: u16,
}

/// The last columns of a line, which differ by protocol and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// No columns (TIME_WAIT, SYN_RECV, and UDP before Linux 2.6.27), or an unknown number of columns.
    None,
    /// `drops` of UDP and RAW: packets dropped because the buffer was full.
    Drops(u64),
    /// Columns of a full TCP socket. For a listener only `ssthresh` is meaningful: the queue of Fast Open.
    Tcp {
        /// Retransmission timeout in hundredths of a second, rounded down
        rto_ticks: u64,
        /// Delayed ACK timeout in hundredths of a second, rounded down
        ato_ticks: u64,
        /// Bit 0 interactive ("pingpong"), the higher bits the count of quick ACKs
        quick_ack: u64,
        /// Congestion window in segments
        snd_cwnd: u32,
        /// Slow start threshold in segments; -1 while in the first slow start
        ssthresh: i64,
    },
}

impl InetLine {
    /// Parses one line.
    ///
    /// # Errors
    /// When a column is missing or not the number it should be; also for the header.
    #[inline]
    pub fn parse(line: &[u8]) -> Result<Self, Error> {
        let mut columns = Columns::new(line, Layer::ProcNetInet);
        columns.decimal(); // sl
        columns.byte(b':');
        let Front {
            is_v6,
            local,
            remote,
            state,
            send_queue,
            receive_queue,
            timer,
            expires_ticks,
            retransmits,
        } = Front::parse(&mut columns);
        let uid = columns.decimal_u32();
        let probes = columns.decimal_u32();
        let inode = columns.decimal();
        let references = columns.signed();
        columns.word(); // pointer: hashed, hidden as zeros, or "(ptrval)"
        let tail = Tail::parse(&mut columns);
        columns.finish(Self {
            is_v6,
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

/// The columns from the addresses to `retrnsmt`, all hexadecimal.
struct Front {
    is_v6: bool,
    local: Address,
    remote: Address,
    state: u8,
    send_queue: u32,
    receive_queue: u32,
    timer: u8,
    expires_ticks: u64,
    retransmits: u32,
}

impl Front {
    /// Reads the columns by their offsets if they have the widths of all known kernels, which takes a third of the
    /// time; otherwise one by one, which also finds errors.
    #[inline]
    fn parse(columns: &mut Columns<'_>) -> Self {
        let fixed = match columns.peek::<FRONT_V4_LEN>() {
            Some(text) if text[9] == b':' => Self::fixed::<1>(text).map(|front| (front, FRONT_V4_LEN)),
            _ => columns
                .peek::<FRONT_V6_LEN>()
                .and_then(|text| Self::fixed::<4>(text))
                .map(|front| (front, FRONT_V6_LEN)),
        };
        match fixed {
            Some((front, len)) if columns.ends_at(len) => {
                columns.skip(len);
                front
            }
            _ => Self::by_columns(columns),
        }
    }

    /// Parses `text`, which has the length for addresses of `WORDS` words.
    #[inline]
    fn fixed<const WORDS: usize>(text: &[u8]) -> Option<Self> {
        let address = 1 + 8 * WORDS; // with the blank before it
        let state = 2 * (address + 5);
        let apart = text[0] == b' '
            && text[address] == b':'
            && text[address + 5] == b' '
            && text[2 * address + 5] == b':'
            && text[state] == b' '
            && text[state + 3] == b' '
            && text[state + 12] == b':'
            && text[state + 21] == b' '
            && text[state + 24] == b':'
            && text[state + 33] == b' ';
        let eight = |at: usize| hex8(*text.get(at..)?.first_chunk()?);
        let four = |at: usize| Some(hex4(*text.get(at..)?.first_chunk()?)? as u16);
        let two = |at: usize| Some(hex4([b'0', b'0', text[at], text[at + 1]])? as u8);
        let ip = |at: usize| {
            let mut bytes = [0; 16];
            for (word, ip) in bytes.chunks_exact_mut(4).take(WORDS).enumerate() {
                ip.copy_from_slice(&eight(at + 8 * word)?.to_ne_bytes());
            }
            Some(bytes)
        };
        if !apart {
            return None;
        }
        Some(Self {
            is_v6: WORDS == 4,
            local: Address {
                bytes: ip(1)?,
                port: four(address + 1)?,
            },
            remote: Address {
                bytes: ip(address + 6)?,
                port: four(2 * address + 6)?,
            },
            state: two(state + 1)?,
            send_queue: eight(state + 4)?,
            receive_queue: eight(state + 13)?,
            timer: two(state + 22)?,
            expires_ticks: u64::from(eight(state + 25)?),
            retransmits: eight(state + 34)?,
        })
    }

    fn by_columns(columns: &mut Columns<'_>) -> Self {
        let (local, is_v6) = Address::parse(columns);
        let (remote, remote_is_v6) = Address::parse(columns);
        let state = columns.hex_u8();
        let send_queue = columns.hex_u32();
        columns.byte(b':');
        let receive_queue = columns.hex_u32();
        let timer = columns.hex_u8();
        columns.byte(b':');
        Self {
            is_v6: is_v6 || remote_is_v6,
            local,
            remote,
            state,
            send_queue,
            receive_queue,
            timer,
            expires_ticks: columns.hex(),
            retransmits: columns.hex_u32(),
        }
    }
}

/// ` 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000`
const FRONT_V4_LEN: usize = 2 * (1 + 8 + 1 + 4) + 42;
const FRONT_V6_LEN: usize = 2 * (1 + 32 + 1 + 4) + 42;

impl Address {
    /// Reads an address and port. The kernel prints each four bytes of an address as one number in its native byte
    /// order (`%08X` of a `__be32`).
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

    /// An IPv4 address as the kernel prints it: a number in its native byte order.
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
    fn each_column_is_read() {
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
    fn tail_depends_on_the_number_of_columns() {
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
    fn wider_and_lower_case_columns_are_read() {
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
    fn fixed_and_column_parsers_agree() {
        let v6 = format!(" {}:0050 {}:ABCD", "0123456789ABCDEF".repeat(2), "F".repeat(32));
        for addresses in [" 0100007F:1F90 0200007F:9C40", &v6] {
            let text = format!("{addresses} 0A 00000001:0000000F 03:FFFFFFFF 00000002");
            let mut once = Columns::new(text.as_bytes(), Layer::ProcNetInet);
            let mut by_columns = once.clone();
            let (once_front, slow_front) = (Front::parse(&mut once), Front::by_columns(&mut by_columns));
            assert_eq!(
                (once_front.is_v6, once_front.local, once_front.remote),
                (slow_front.is_v6, slow_front.local, slow_front.remote)
            );
            assert_eq!(
                (once_front.state, once_front.timer, once_front.expires_ticks),
                (slow_front.state, slow_front.timer, slow_front.expires_ticks)
            );
            assert_eq!(
                (
                    once_front.send_queue,
                    once_front.receive_queue,
                    once_front.retransmits
                ),
                (1, 15, 2)
            );
            assert_eq!((once.rest(), by_columns.rest()), (&b""[..], &b""[..]));
            // Any byte changed: both give the same value or error.
            let step = if cfg!(miri) { 17 } else { 1 };
            for place in (0..text.len()).step_by(step) {
                for byte in [b' ', b':', b'0', b'F', b'f', b'G', b'\n'] {
                    let mut text = text.clone().into_bytes();
                    text[place] = byte;
                    let mut once = Columns::new(&text, Layer::ProcNetInet);
                    let mut by_columns = once.clone();
                    let (once_front, slow_front) =
                        (Front::parse(&mut once), Front::by_columns(&mut by_columns));
                    let values =
                        |front: &Front| (front.local, front.remote, front.expires_ticks, front.retransmits);
                    let same = (values(&once_front), once.finish(()))
                        == (values(&slow_front), by_columns.finish(()));
                    assert!(same, "{}", text.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn truncated_line_is_an_error_or_lacks_its_tail() {
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
