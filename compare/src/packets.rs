//! Generates a capture of plausible TCP transfers, without a network: equal for equal seeds.
//!
//! Each connection has a handshake, a request, and data in rounds of a growing window, as seen by the sender.
//! Some segments are lost: duplicate acknowledgements with SACK blocks follow, then a fast retransmission or,
//! if too little was sent after the loss, a timeout. When a connection has sent its part it ends, and a new
//! one begins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::net::Ipv4Addr;

/// The content of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Total number of packets.
    pub packets: u64,
    /// Simultaneous connections.
    pub connections: u32,
    /// What each connection is.
    pub kind: TransferKind,
    /// Captured bytes per packet.
    pub snaplen: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// What each connection of a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// Transfers that share the packets of the plan.
    Long,
    /// Short ones, of about this many packets: one request, one answer, closed.
    Short(u32),
    /// SYNs that nothing answers.
    HalfOpen,
}

impl Plan {
    /// Writes the capture: pcap, Ethernet, microseconds.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        Generator::new(self).run(out)
    }
}

/// All connections, and their packets that are not written yet.
struct Generator<'a> {
    plan: &'a Plan,
    random: PseudoRandom,
    connections: Vec<Connection>,
    /// Time of the next turn of each connection
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    waiting: BinaryHeap<Reverse<Packet>>,
    /// Number of connections so far
    begun: u32,
    /// Number of packets added to `waiting`, which keeps the order of equal times
    numbered: u64,
    /// Constant bytes of each packet
    frame: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Connection {
    number: u32,
    rtt_us: u64,
    next: u32,
    /// Sequence number of the client after its request
    asked: u32,
    window_segs: u32,
    /// Remaining packets
    left: u64,
    is_open: bool,
}

/// One packet; the order of its fields is that of packets in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    time_us: u64,
    order: u64,
    connection: u32,
    from_server: bool,
    flags: u8,
    seq: u32,
    ack: u32,
    len: u32,
    sack: Option<(u32, u32)>,
}

impl<'a> Generator<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut maker = Self {
            plan,
            random: PseudoRandom(plan.seed ^ 0x9e37_79b9_7f4a_7c15),
            connections: Vec::with_capacity(plan.connections as usize),
            turns: BinaryHeap::new(),
            waiting: BinaryHeap::new(),
            begun: 0,
            numbered: 0,
            frame: Vec::with_capacity(FRAME_MAX),
        };
        for slot in 0..plan.connections {
            let begin_us = maker.random.below(200_000);
            let connection = maker.connection();
            maker.connections.push(connection);
            maker.turns.push(Reverse((begin_us, slot)));
        }
        maker
    }

    fn run(mut self, out: &mut impl Write) -> io::Result<()> {
        let mut header = Vec::with_capacity(24);
        header.extend_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
        header.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        header.extend_from_slice(&self.plan.snaplen.to_le_bytes());
        header.extend_from_slice(&1_u32.to_le_bytes());
        out.write_all(&header)?;
        let mut left = self.plan.packets;
        while left > 0 {
            let Some(&Reverse((turn_us, slot))) = self.turns.peek() else {
                return Ok(());
            };
            // Packets before the next turn are complete and in order.
            while left > 0
                && let Some(Reverse(packet)) = self.waiting.peek().copied()
                && packet.time_us <= turn_us
            {
                self.waiting.pop();
                self.write_packet(&packet, out)?;
                left -= 1;
            }
            if left == 0 {
                return Ok(());
            }
            self.turns.pop();
            let mut connection = self.connections[slot as usize];
            let end_us = self.round(&mut connection, turn_us);
            if connection.left == 0 {
                connection = self.connection();
            }
            self.connections[slot as usize] = connection;
            let think_us = if self.random.one_in(50) {
                self.random.below(300_000)
            } else {
                0
            };
            self.turns.push(Reverse((end_us + 50 + think_us, slot)));
        }
        Ok(())
    }

    fn connection(&mut self) -> Connection {
        let number = self.begun;
        self.begun += 1;
        let share = (self.plan.packets / u64::from(self.plan.connections)).max(12);
        let left = match (self.plan.kind, self.plan.connections) {
            (TransferKind::Short(packets), _) => u64::from(packets),
            (TransferKind::HalfOpen, _) => 1,
            // A connection that ends early is followed by another.
            (TransferKind::Long, 1) => share,
            (TransferKind::Long, _) => share / 2 + self.random.below(share),
        };
        Connection {
            number,
            rtt_us: 500 + self.random.below(40_000),
            next: self.random.below(1 << 32) as u32,
            asked: self.random.below(1 << 32) as u32,
            window_segs: 10,
            left,
            is_open: false,
        }
    }

    /// Runs a connection until its next wait; returns the end time.
    fn round(&mut self, connection: &mut Connection, begin_us: u64) -> u64 {
        if self.plan.kind == TransferKind::HalfOpen {
            self.send(connection, begin_us, false, SYN, connection.asked, 0, 0, None);
            connection.left = 0;
            return begin_us;
        }
        if !connection.is_open {
            return self.handshake(connection, begin_us);
        }
        if connection.left < 4 {
            return self.close(connection, begin_us);
        }
        let most = match self.plan.kind {
            // Three packets close it.
            TransferKind::Short(_) => connection.left.saturating_sub(3) / 2,
            _ => connection.left / 2,
        };
        let segments = connection.window_segs.min(most.max(1) as u32);
        let lost = (0..segments).find(|_| self.random.one_in(2_000));
        let first = connection.next;
        let seq_of = |segment: u32| first.wrapping_add(segment * MSS);
        let mut sent = 0;
        for segment in 0..segments {
            let is_last = segment + 1 == segments;
            let flags = if is_last { ACK | PSH } else { ACK };
            let time_us = begin_us + u64::from(segment) * SPACE_US;
            self.send(
                connection,
                time_us,
                true,
                flags,
                seq_of(segment),
                connection.asked,
                MSS,
                None,
            );
            sent += 1;
        }
        let arrival_us = |segment: u32| begin_us + u64::from(segment) * SPACE_US + connection.rtt_us;
        let answered = lost.unwrap_or(segments);
        let mut end_us = begin_us + connection.rtt_us;
        // Every second segment is acknowledged, and the last one before a gap.
        for segment in (0..answered).filter(|segment| segment % 2 == 1 || segment + 1 == answered) {
            end_us = arrival_us(segment);
            let ack = seq_of(segment + 1);
            self.send(connection, end_us, false, ACK, connection.asked, ack, 0, None);
            sent += 1;
        }
        connection.next = seq_of(segments);
        connection.window_segs =
            (connection.window_segs + 1 + connection.window_segs / 8).min(WINDOW_SEGS_MAX);
        if let Some(lost) = lost {
            let behind = segments - lost - 1;
            for segment in lost + 1..segments {
                end_us = arrival_us(segment);
                let sack = Some((seq_of(lost + 1), seq_of(segment + 1)));
                self.send(
                    connection,
                    end_us,
                    false,
                    ACK,
                    connection.asked,
                    seq_of(lost),
                    0,
                    sack,
                );
                sent += 1;
            }
            let again_us = if behind >= 3 {
                arrival_us(lost + 3) + 10
            } else {
                connection.window_segs = 2;
                arrival_us(segments) + 200_000
            };
            connection.window_segs = (connection.window_segs / 2).max(2);
            self.send(
                connection,
                again_us,
                true,
                ACK,
                seq_of(lost),
                connection.asked,
                MSS,
                None,
            );
            end_us = end_us.max(again_us + connection.rtt_us);
            self.send(
                connection,
                end_us,
                false,
                ACK,
                connection.asked,
                connection.next,
                0,
                None,
            );
            sent += 2;
        }
        connection.left = connection.left.saturating_sub(sent).max(1);
        end_us
    }

    fn handshake(&mut self, connection: &mut Connection, begin_us: u64) -> u64 {
        let Connection {
            rtt_us, next, asked, ..
        } = *connection;
        let answer_us = begin_us + 20;
        let open_us = answer_us + rtt_us;
        self.send(connection, begin_us, false, SYN, asked, 0, 0, None);
        self.send(
            connection,
            answer_us,
            true,
            SYN | ACK,
            next,
            asked.wrapping_add(1),
            0,
            None,
        );
        connection.next = next.wrapping_add(1);
        connection.asked = asked.wrapping_add(1);
        self.send(
            connection,
            open_us,
            false,
            ACK,
            connection.asked,
            connection.next,
            0,
            None,
        );
        self.send(
            connection,
            open_us + 5,
            false,
            ACK | PSH,
            connection.asked,
            connection.next,
            REQUEST_LEN,
            None,
        );
        connection.asked = connection.asked.wrapping_add(REQUEST_LEN);
        self.send(
            connection,
            open_us + 15,
            true,
            ACK,
            connection.next,
            connection.asked,
            0,
            None,
        );
        connection.is_open = true;
        connection.left = connection.left.saturating_sub(5).max(1);
        open_us + 100
    }

    fn close(&mut self, connection: &mut Connection, begin_us: u64) -> u64 {
        let Connection {
            rtt_us, next, asked, ..
        } = *connection;
        let end_us = begin_us + rtt_us;
        self.send(connection, begin_us, true, FIN | ACK, next, asked, 0, None);
        self.send(
            connection,
            end_us,
            false,
            FIN | ACK,
            asked,
            next.wrapping_add(1),
            0,
            None,
        );
        self.send(
            connection,
            end_us + 8,
            true,
            ACK,
            next.wrapping_add(1),
            asked.wrapping_add(1),
            0,
            None,
        );
        connection.left = 0;
        end_us + 8
    }

    #[allow(clippy::too_many_arguments)] // the fields of a header, in its order
    fn send(
        &mut self,
        connection: &Connection,
        time_us: u64,
        from_server: bool,
        flags: u8,
        seq: u32,
        ack: u32,
        len: u32,
        sack: Option<(u32, u32)>,
    ) {
        self.numbered += 1;
        self.waiting.push(Reverse(Packet {
            time_us,
            order: self.numbered,
            connection: connection.number,
            from_server,
            flags,
            seq,
            ack,
            len,
            sack,
        }));
    }

    fn write_packet(&mut self, packet: &Packet, out: &mut impl Write) -> io::Result<()> {
        let frame = &mut self.frame;
        frame.clear();
        frame.extend_from_slice(&[0; 16]); // pcap's header, written at the end
        frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let ip_at = frame.len();
        // One server; a new client address every 50,000 connections.
        let server = (Ipv4Addr::new(10, 0, 0, 1), 443);
        let (host, port) = (packet.connection / 50_000, packet.connection % 50_000);
        let client = (Ipv4Addr::from(0x0a01_0000 + host + 1), 10_000 + port as u16);
        let (from, to) = if packet.from_server {
            (server, client)
        } else {
            (client, server)
        };
        frame.extend_from_slice(&[0x45, 0, 0, 0]);
        frame.extend_from_slice(&(packet.order as u16).to_be_bytes());
        frame.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
        frame.extend_from_slice(&from.0.octets());
        frame.extend_from_slice(&to.0.octets());
        let tcp_at = frame.len();
        frame.extend_from_slice(&from.1.to_be_bytes());
        frame.extend_from_slice(&to.1.to_be_bytes());
        frame.extend_from_slice(&packet.seq.to_be_bytes());
        frame.extend_from_slice(&packet.ack.to_be_bytes());
        frame.extend_from_slice(&[0, packet.flags]);
        let window: u16 = if packet.flags & SYN != 0 { 64_240 } else { 502 };
        frame.extend_from_slice(&window.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        if packet.flags & SYN != 0 {
            frame.extend_from_slice(&[2, 4, 0x05, 0xb4, 4, 2]);
        } else {
            frame.extend_from_slice(&[1, 1]);
        }
        frame.extend_from_slice(&[8, 10]);
        frame.extend_from_slice(&((packet.time_us / 1000) as u32).to_be_bytes());
        frame.extend_from_slice(&((packet.time_us / 1000).saturating_sub(20) as u32).to_be_bytes());
        if packet.flags & SYN != 0 {
            frame.extend_from_slice(&[1, 3, 3, 7]);
        }
        if let Some((start, end)) = packet.sack {
            frame.extend_from_slice(&[1, 1, 5, 10]);
            frame.extend_from_slice(&start.to_be_bytes());
            frame.extend_from_slice(&end.to_be_bytes());
        }
        let header_len = frame.len() - tcp_at;
        frame[tcp_at + 12] = ((header_len / 4) << 4) as u8;
        let total_len = (frame.len() - ip_at) as u32 + packet.len;
        frame[ip_at + 2..ip_at + 4].copy_from_slice(&(total_len as u16).to_be_bytes());
        let checksum = checksum(&frame[ip_at..tcp_at], 0);
        frame[ip_at + 10..ip_at + 12].copy_from_slice(&checksum.to_be_bytes());
        // The data are zeros, which do not change the checksum.
        let pseudo = u64::from(u32::from(from.0))
            + u64::from(u32::from(to.0))
            + 6
            + u64::from(header_len as u32 + packet.len);
        let checksum = self::checksum(&frame[tcp_at..], pseudo);
        frame[tcp_at + 16..tcp_at + 18].copy_from_slice(&checksum.to_be_bytes());
        let original_len = (ip_at as u32 - 16) + total_len;
        let captured_len = original_len.min(self.plan.snaplen);
        frame.resize(16 + captured_len as usize, 0);
        let time_us = BEGIN_S * 1_000_000 + packet.time_us;
        frame[..4].copy_from_slice(&((time_us / 1_000_000) as u32).to_le_bytes());
        frame[4..8].copy_from_slice(&((time_us % 1_000_000) as u32).to_le_bytes());
        frame[8..12].copy_from_slice(&captured_len.to_le_bytes());
        frame[12..16].copy_from_slice(&original_len.to_le_bytes());
        out.write_all(frame)
    }
}

/// Pseudo-random numbers (splitmix64).
struct PseudoRandom(u64);

impl PseudoRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// The internet checksum (RFC 1071), continued from `start`.
fn checksum(bytes: &[u8], start: u64) -> u16 {
    let mut sum = start;
    for pair in bytes.chunks(2) {
        sum += (u64::from(pair[0]) << 8) | pair.get(1).map_or(0, |low| u64::from(*low));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;
const MSS: u32 = 1448;
const REQUEST_LEN: u32 = 180;
const WINDOW_SEGS_MAX: u32 = 44;
/// Time between two segments: about 1 Gbit/s
const SPACE_US: u64 = 12;
const BEGIN_S: u64 = 1_700_000_000;
const FRAME_MAX: usize = 16 + 1514;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(packets: u64, connections: u32, seed: u64) -> Vec<u8> {
        let mut out = vec![];
        let plan = Plan {
            packets,
            connections,
            kind: TransferKind::Long,
            snaplen: 100,
            seed,
        };
        plan.write(&mut out).expect("writing to memory");
        out
    }

    /// Time and both lengths of each packet.
    fn records(file: &[u8]) -> Vec<(u64, u32, u32)> {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
        let (mut at, mut records) = (24, vec![]);
        while at < file.len() {
            let time_us = u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4));
            records.push((time_us, word(at + 8), word(at + 12)));
            at += 16 + word(at + 8) as usize;
        }
        assert_eq!(at, file.len());
        records
    }

    #[test]
    fn equal_seeds_give_equal_captures() {
        assert_eq!(made(5_000, 7, 1), made(5_000, 7, 1));
        assert_ne!(made(5_000, 7, 1), made(5_000, 7, 2));
    }

    #[test]
    fn requested_number_of_packets_is_in_order() {
        for (packets, connections) in [(1, 1), (1_000, 1), (20_000, 5), (20_000, 3_000)] {
            let records = records(&made(packets, connections, 3));
            assert_eq!(records.len() as u64, packets);
            assert!(records.is_sorted_by_key(|record| record.0));
            assert!(records.iter().all(|record| record.1 == record.2.min(100)));
        }
    }
}
