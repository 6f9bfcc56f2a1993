//! A small world with a sender, a path and a receiver, and a clock of its own: segments of a transfer of which it is known
//! what happened to it. The same seed makes the same segments.
use sockeye_trace::{Finished, Options, Trace};
use sockeye_wire::packet::{Segment, TcpFlags, TcpOptions, Timestamps};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// How the world is.
#[derive(Clone, Copy)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    /// One way, in nanoseconds
    pub(crate) delay_ns: u64,
    /// 0: everything gets through at once
    pub(crate) bytes_per_s: u64,
    /// Segments that wait at most where a rate is set
    pub(crate) queue: u64,
    pub(crate) loss_permille: u64,
    /// Of these, each comes later than three behind it
    pub(crate) late_permille: u64,
    /// The network delivers them twice
    pub(crate) duplicate_permille: u64,
    /// The receiver's buffer
    pub(crate) window: u64,
    /// It reads so much a second; 0: all of it at once
    pub(crate) reads_bytes_per_s: u64,
    /// The sender writes so much, then nothing for 100 ms; 0: all of it at once
    pub(crate) writes: u64,
    /// No more than this in flight, however wide the windows
    pub(crate) buffer: u64,
    /// The window after the first loss stays below so many segments; 0: it grows
    pub(crate) begins_at: u32,
    /// Captured at the receiver
    pub(crate) is_receiver: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            seed: 1,
            bytes: 1_000_000,
            delay_ns: 20_000_000,
            bytes_per_s: 0,
            queue: 1_000,
            loss_permille: 0,
            late_permille: 0,
            duplicate_permille: 0,
            window: 60_000,
            reads_bytes_per_s: 0,
            writes: 0,
            buffer: u64::MAX,
            begins_at: u32::MAX - 100_000,
            is_receiver: false,
        }
    }
}

/// What really happened.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) twice: u64,
    pub(crate) sent_again: u64,
    pub(crate) timeouts: u64,
}

/// Captured segments and when.
pub(crate) type Captured = Vec<(u64, Segment)>;

pub(crate) const MSS: u64 = 1_000;

impl World {
    /// Lets the transfer happen.
    pub(crate) fn run(self) -> (Captured, Truth) {
        let mut run = Run {
            world: self,
            chance: self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now_ns: 1_000_000_000,
            agenda: BinaryHeap::new(),
            order: 0,
            captured: Vec::new(),
            truth: Truth::default(),
            next: 0,
            acked: 0,
            written: 0,
            congestion: 4 * MSS,
            threshold: u64::MAX,
            window: self.window,
            recovery: None,
            sacked: BTreeMap::new(),
            repeated: BTreeMap::new(),
            timer: 0,
            backoff: 0,
            ip_id: 100,
            clock_echo: 0,
            free_ns: 0,
            got: 0,
            beyond: BTreeMap::new(),
            read: 0,
            read_ns: 0,
        };
        run.go();
        run.captured.sort_by_key(|(time_ns, _)| *time_ns);
        (run.captured, run.truth)
    }

    /// Runs it, and analyses its capture.
    pub(crate) fn analysed(self) -> (Finished, Truth) {
        let (captured, truth) = self.run();
        let mut trace = Trace::new(Options::default());
        for (number, (time_ns, segment)) in captured.iter().enumerate() {
            trace.segment(number as u64 + 1, *time_ns, segment);
        }
        let finished = trace.finish().next().expect("a connection");
        let connection = &finished.connection;
        assert_eq!(
            connection.forward.shares.total(),
            connection.end_ns - connection.begin_ns,
            "shares add up"
        );
        (finished, truth)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives {
        start: u64,
        len: u64,
        clock: u32,
        ip_id: u16,
    },
    Acknowledged {
        up_to: u64,
        sacked: Vec<(u64, u64)>,
        window: u64,
        echo: u32,
    },
    Writes,
    Reads,
    Timer(u64),
}

struct Run {
    world: World,
    chance: u64,
    now_ns: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    captured: Captured,
    truth: Truth,
    next: u64,
    acked: u64,
    written: u64,
    congestion: u64,
    threshold: u64,
    window: u64,
    recovery: Option<u64>,
    sacked: BTreeMap<u64, u64>,
    repeated: BTreeMap<u64, u64>,
    timer: u64,
    backoff: u32,
    ip_id: u16,
    clock_echo: u32,
    free_ns: u64,
    got: u64,
    beyond: BTreeMap<u64, u64>,
    read: u64,
    read_ns: u64,
}

impl Run {
    fn go(&mut self) {
        let round_trip_ns = 2 * self.world.delay_ns;
        let (to_receiver_ns, to_sender_ns) = if self.world.is_receiver {
            (self.world.delay_ns, self.world.delay_ns)
        } else {
            (0, 0)
        };
        let begin_ns = self.now_ns;
        let isn = self.world.begins_at;
        let syn = |mut segment: Segment| {
            segment.options.mss = Some(MSS as u16 + 12);
            segment.options.window_scale = Some(7);
            segment.options.sack_permitted = true;
            segment
        };
        let both = TcpFlags::SYN.or(TcpFlags::ACK);
        let mut first = self.segment(true, isn.wrapping_sub(1), 0, 0, self.clock());
        first.flags = TcpFlags::SYN;
        self.captured.push((begin_ns + to_receiver_ns, syn(first)));
        let mut second = self.segment(false, 4_999, isn, 0, self.clock());
        second.flags = both;
        second.window = 64_000;
        self.captured.push((
            begin_ns
                + if self.world.is_receiver {
                    to_receiver_ns + 1_000
                } else {
                    round_trip_ns
                },
            syn(second),
        ));
        self.now_ns = begin_ns + round_trip_ns;
        let third = self.segment(true, isn, 5_000, 0, self.clock());
        self.captured.push((self.now_ns + 1_000 + to_sender_ns, third));
        self.now_ns += 2_000;
        self.read_ns = self.now_ns;
        self.at(self.now_ns, Event::Writes);
        while let Some(Reverse((time_ns, _, event))) = self.agenda.pop() {
            self.now_ns = self.now_ns.max(time_ns);
            match event {
                Event::Arrives {
                    start,
                    len,
                    clock,
                    ip_id,
                } => self.arrives(start, len, clock, ip_id),
                Event::Acknowledged {
                    up_to,
                    sacked,
                    window,
                    echo,
                } => self.acknowledged(up_to, sacked, window, echo),
                Event::Writes => self.writes(),
                Event::Reads => self.acknowledge(),
                Event::Timer(number) => self.times_out(number),
            }
            if self.acked >= self.world.bytes || self.now_ns > begin_ns + 300_000_000_000 {
                break;
            }
        }
    }

    fn at(&mut self, time_ns: u64, event: Event) {
        self.order += 1;
        self.agenda.push(Reverse((time_ns, self.order, event)));
    }

    fn clock(&self) -> u32 {
        (self.now_ns / 1_000_000) as u32
    }

    fn draws(&mut self, permille: u64) -> bool {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % 1_000 < permille
    }

    fn segment(
        &self,
        from_client: bool,
        sequence: u32,
        acknowledgement: u32,
        len: u64,
        clock: u32,
    ) -> Segment {
        let (client, server) = (([10, 0, 0, 1].into(), 40_000), ([10, 0, 0, 2].into(), 443));
        let (source, destination) = if from_client {
            (client, server)
        } else {
            (server, client)
        };
        Segment {
            source: source.0,
            source_port: source.1,
            destination: destination.0,
            destination_port: destination.1,
            sequence,
            acknowledgement,
            flags: TcpFlags::ACK,
            window: 500,
            payload_len: len as u32,
            options: TcpOptions {
                timestamps: Some(Timestamps {
                    value: clock,
                    echo: self.clock_echo,
                }),
                ..TcpOptions::default()
            },
            ip_id: None,
            ttl: 64,
            ecn: 0,
            bad_checksum: None,
            tunnels: 0,
            is_tls_handshake: false,
        }
    }

    fn writes(&mut self) {
        let World { writes, bytes, .. } = self.world;
        self.written = if writes == 0 {
            bytes
        } else {
            (self.written + writes).min(bytes)
        };
        if self.written < bytes {
            self.at(self.now_ns + 100_000_000, Event::Writes);
        }
        self.send();
    }

    /// As much as the windows, the buffer and the data allow.
    fn send(&mut self) {
        if self.recovery.is_some() {
            self.send_again();
        }
        loop {
            let sacked: u64 = self.sacked.iter().map(|(start, end)| end - start).sum();
            let in_flight = (self.next - self.acked).saturating_sub(sacked);
            let len = MSS.min(self.written - self.next);
            let may = self.congestion.min(self.world.buffer);
            if len == 0 || in_flight + len > may || self.next + len > self.acked + self.window {
                break;
            }
            self.transmit(self.next, len);
            self.next += len;
        }
        if self.next > self.acked {
            self.set_timer();
        }
    }

    /// What lies before something that was SACKed, each once in a recovery.
    fn send_again(&mut self) {
        let Some((highest, _)) = self.sacked.last_key_value() else {
            return;
        };
        let highest = *highest;
        let mut start = self.acked;
        while start < highest {
            if let Some((_, end)) = self
                .sacked
                .range(..=start)
                .next_back()
                .filter(|(_, end)| **end > start)
            {
                start = *end;
                continue;
            }
            let is_fresh = self
                .repeated
                .get(&start)
                .is_none_or(|at_ns| self.now_ns - at_ns > 3 * self.world.delay_ns);
            if is_fresh {
                self.repeated.insert(start, self.now_ns);
                self.truth.sent_again += 1;
                self.transmit(start, MSS.min(self.world.bytes - start));
            }
            start += MSS;
        }
    }

    fn transmit(&mut self, start: u64, len: u64) {
        let world = self.world;
        self.ip_id = self.ip_id.wrapping_add(1).max(1);
        let (clock, ip_id) = (self.clock(), self.ip_id);
        if !world.is_receiver {
            let segment = self.data(start, len, clock, ip_id);
            self.captured.push((self.now_ns, segment));
        }
        // Segments of one burst are a little apart.
        self.now_ns += 500;
        let mut due_ns = self.now_ns + world.delay_ns;
        if world.bytes_per_s > 0 {
            let waiting = self.free_ns.saturating_sub(self.now_ns) * world.bytes_per_s / 1_000_000_000;
            if waiting >= world.queue * MSS {
                self.truth.lost += 1;
                return;
            }
            self.free_ns = self.free_ns.max(self.now_ns) + len * 1_000_000_000 / world.bytes_per_s;
            due_ns = self.free_ns + world.delay_ns;
        }
        if self.draws(world.loss_permille) {
            self.truth.lost += 1;
            return;
        }
        if self.draws(world.late_permille) {
            self.truth.late += 1;
            due_ns += world.delay_ns / 4;
        }
        self.at(
            due_ns,
            Event::Arrives {
                start,
                len,
                clock,
                ip_id,
            },
        );
        if self.draws(world.duplicate_permille) {
            self.truth.twice += 1;
            self.at(
                due_ns + 400_000,
                Event::Arrives {
                    start,
                    len,
                    clock,
                    ip_id,
                },
            );
        }
    }

    fn data(&self, start: u64, len: u64, clock: u32, ip_id: u16) -> Segment {
        let sequence = self.world.begins_at.wrapping_add(start as u32);
        let mut segment = self.segment(true, sequence, 5_000, len, clock);
        segment.ip_id = Some(ip_id);
        if start + len == self.written {
            segment.flags = TcpFlags::ACK.or(TcpFlags::PSH);
        }
        segment
    }

    fn arrives(&mut self, start: u64, len: u64, clock: u32, ip_id: u16) {
        if self.world.is_receiver {
            let segment = self.data(start, len, clock, ip_id);
            self.captured.push((self.now_ns, segment));
        }
        let end = start + len;
        let is_old = end <= self.got || self.beyond.contains_key(&start);
        if start <= self.got {
            self.clock_echo = clock;
        }
        self.beyond.insert(start, end);
        while let Some((start, end)) = self.beyond.first_key_value().map(|(start, end)| (*start, *end)) {
            if start > self.got {
                break;
            }
            self.beyond.remove(&start);
            self.got = self.got.max(end);
        }
        self.acknowledge_with(is_old.then_some((start, end)));
    }

    fn acknowledge(&mut self) {
        self.acknowledge_with(None);
    }

    fn acknowledge_with(&mut self, twice: Option<(u64, u64)>) {
        let World {
            window,
            reads_bytes_per_s,
            delay_ns,
            ..
        } = self.world;
        if reads_bytes_per_s == 0 {
            self.read = self.got;
        } else {
            let may = (self.now_ns - self.read_ns) * reads_bytes_per_s / 1_000_000_000;
            self.read = (self.read + may).min(self.got);
            self.read_ns = self.now_ns;
        }
        let left = (window - (self.got - self.read)) / 128 * 128;
        let left = if left < 2 * MSS { 0 } else { left };
        if left == 0 {
            self.at(self.now_ns + 20_000_000, Event::Reads);
        }
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        for (start, end) in &self.beyond {
            match blocks.last_mut() {
                Some(last) if last.1 == *start => last.1 = *end,
                _ => blocks.push((*start, *end)),
            }
        }
        let mut segment = self.segment(
            false,
            5_000,
            self.world.begins_at.wrapping_add(self.got as u32),
            0,
            self.clock(),
        );
        segment.window = (left / 128) as u16;
        for (start, end) in twice.iter().chain(blocks.iter().rev().take(3)) {
            let raw = |place: u64| self.world.begins_at.wrapping_add(place as u32);
            segment.options.sack.push(raw(*start), raw(*end));
        }
        let known_ns = self.now_ns + delay_ns;
        self.captured.push((
            if self.world.is_receiver {
                self.now_ns + 100
            } else {
                known_ns
            },
            segment,
        ));
        let event = Event::Acknowledged {
            up_to: self.got,
            sacked: blocks,
            window: left,
            echo: self.clock_echo,
        };
        self.at(known_ns, event);
    }

    fn acknowledged(&mut self, up_to: u64, sacked: Vec<(u64, u64)>, window: u64, _echo: u32) {
        self.window = window;
        self.sacked = sacked
            .into_iter()
            .filter(|(_, end)| *end > up_to.max(self.acked))
            .collect();
        if up_to > self.acked {
            let more = up_to - self.acked;
            self.acked = up_to;
            self.next = self.next.max(up_to);
            self.backoff = 0;
            self.set_timer();
            if self.recovery.is_some_and(|until| self.acked >= until) {
                self.recovery = None;
                self.repeated.clear();
            }
            if self.recovery.is_none() {
                self.congestion += if self.congestion < self.threshold {
                    more
                } else {
                    (MSS * more / self.congestion).max(1)
                };
            }
        }
        let beyond: u64 = self.sacked.iter().map(|(start, end)| end - start).sum();
        if self.recovery.is_none() && beyond > 3 * MSS {
            self.recovery = Some(self.next);
            self.threshold = (self.congestion / 2).max(2 * MSS);
            self.congestion = self.threshold;
        }
        self.send();
    }

    fn set_timer(&mut self) {
        self.timer += 1;
        let wait_ns = (2 * self.world.delay_ns + 200_000_000) << self.backoff;
        self.at(self.now_ns + wait_ns, Event::Timer(self.timer));
    }

    fn times_out(&mut self, number: u64) {
        if number != self.timer || self.next == self.acked {
            return;
        }
        self.truth.timeouts += 1;
        self.truth.sent_again += 1;
        self.threshold = (self.congestion / 2).max(2 * MSS);
        self.congestion = 2 * MSS;
        self.backoff = (self.backoff + 1).min(6);
        self.recovery = Some(self.next);
        self.repeated.clear();
        self.repeated.insert(self.acked, self.now_ns);
        self.transmit(self.acked, MSS.min(self.world.bytes - self.acked));
        self.set_timer();
    }
}
