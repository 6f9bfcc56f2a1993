//! A test while it runs: threads that move bytes, and a sample of what they counted each second.

use super::lane::{self, Count, Lane, Manner, Traffic};
use super::message::{Processor, Results, StreamResult, Wishes};
use super::outcome::{Interval, StreamInterval, StreamOutcome, TcpSample};
use super::trouble::Trouble;
use super::{Protocol, sockets};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use sockeye_load::stream::Watch;
use sockeye_sys::{ProcessorTime, tcp};
use sockeye_wire::tcp_info::TcpInfo;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Streams on their threads, and what was sampled of them.
#[derive(Debug)]
pub(crate) struct Run {
    lanes: Vec<Arc<Lane>>,
    pub(crate) traffic: Arc<Traffic>,
    threads: Vec<JoinHandle<()>>,
    wishes: Wishes,
    processor: ProcessorTime,
    started: Instant,
    /// From where on it counts: after what is omitted.
    began: Instant,
    is_omitting: bool,
    marks: Vec<Marks>,
    next: Instant,
    last: Instant,
    interval: Duration,
    pub(crate) intervals: Vec<Interval>,
    ended: Option<Instant>,
}

/// What one lane had counted at moments that matter, and what its socket told meanwhile.
#[derive(Debug, Default)]
struct Marks {
    /// When the omitted time was over.
    base: (Count, u64),
    /// At the last sample.
    last: (Count, u64),
    rtts: Vec<u32>,
    cwnd_max: u64,
    window_max: u64,
    info: Option<Vec<u8>>,
    watch: Option<Watch>,
}

impl Run {
    /// From now on.
    pub(crate) fn start(
        lanes: Vec<Lane>,
        wishes: &Wishes,
        interval: Duration,
        is_bounded: bool,
        manner: Manner,
    ) -> Result<Self, Trouble> {
        let traffic = Traffic::new(wishes, is_bounded).map_err(Trouble::system("eventfd"))?;
        let (lanes, traffic): (Vec<_>, _) = (lanes.into_iter().map(Arc::new).collect(), Arc::new(traffic));
        let processor = ProcessorTime::of_this_process();
        let now = Instant::now();
        let threads = lane::start(&lanes, &traffic, wishes, manner).inspect_err(|_| traffic.stop());
        Ok(Self {
            marks: lanes
                .iter()
                .map(|lane| Marks {
                    watch: (wishes.protocol == Protocol::Tcp && lane.sends)
                        .then(|| Watch::new(&lane.socket))
                        .flatten(),
                    ..Marks::default()
                })
                .collect(),
            lanes,
            traffic,
            threads: threads.map_err(Trouble::system("start a thread"))?,
            wishes: wishes.clone(),
            processor,
            started: now,
            began: now,
            is_omitting: wishes.omit_s > 0,
            next: now + interval,
            last: now,
            interval,
            intervals: Vec::new(),
            ended: None,
        })
    }

    /// When there is something to do, at the latest.
    pub(crate) fn next(&self) -> Instant {
        let counts_from = self.started + Duration::from_secs(self.wishes.omit_s);
        let next = if self.is_omitting {
            self.next.min(counts_from)
        } else {
            self.next
        };
        self.due().map_or(next, |due| next.min(due))
    }

    /// When it is over, where that is told by time.
    pub(crate) fn due(&self) -> Option<Instant> {
        let span = self.wishes.omit_s + self.wishes.time_s;
        (self.wishes.is_by_time() && self.wishes.time_s > 0).then(|| self.started + Duration::from_secs(span))
    }

    /// Takes the samples that are due; the new one, if there is one.
    pub(crate) fn tick(&mut self) -> Option<&Interval> {
        let now = Instant::now();
        if self.is_omitting && now >= self.started + Duration::from_secs(self.wishes.omit_s) {
            self.sample(now);
            self.is_omitting = false;
            self.began = now;
            self.next = now + self.interval;
            for (lane, marks) in self.lanes.iter().zip(&mut self.marks) {
                marks.base = (lane.count(), marks.last.1);
                if let Some(watch) = &mut marks.watch {
                    watch.restart(&lane.socket);
                }
            }
            return self.intervals.last();
        }
        if now < self.next {
            return None;
        }
        self.sample(now);
        while self.next <= now {
            self.next += self.interval;
        }
        self.intervals.last()
    }

    /// A look at the sockets, which says what they wait for; to be taken many times a second.
    pub(crate) fn look(&mut self) {
        for (lane, marks) in self.lanes.iter().zip(&mut self.marks) {
            if let Some(watch) = &mut marks.watch {
                watch.look(&lane.socket);
            }
        }
    }

    /// Bytes that came in since it counts.
    pub(crate) fn received(&self) -> u64 {
        self.sum(false, |count| count.bytes)
    }

    /// Bytes that came in, or went out, on all lanes. That grows as long as anything moves.
    pub(crate) fn moved(&self) -> u64 {
        self.sum(false, |count| count.bytes) + self.sum(true, |count| count.bytes)
    }

    /// Whether as much came in as was wanted, where that is told by bytes or blocks.
    pub(crate) fn has_received_all(&self) -> bool {
        let is_udp = self.wishes.protocol == Protocol::Udp;
        match (self.wishes.bytes, self.wishes.blocks) {
            (0, 0) => false,
            (0, blocks) if is_udp => self.sum(false, |count| count.packets) >= blocks,
            (0, blocks) => self.received() >= blocks.saturating_mul(self.wishes.length),
            (bytes, _) => self.received() >= bytes,
        }
    }

    /// Waits until the other end's kernel has what was sent, but not for long.
    pub(crate) fn drain(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let is_out = |lane: &Arc<Lane>| {
            let mut room = [0; tcp::INFO_LEN_MAX];
            let Ok(bytes) = tcp::info(&lane.socket, &mut room) else {
                return true;
            };
            let info = TcpInfo::new(bytes);
            info.unacked().unwrap_or(0) == 0 && info.notsent_bytes().unwrap_or(0) == 0
        };
        while self.wishes.protocol == Protocol::Tcp
            && Instant::now() < until
            && !self.lanes.iter().filter(|lane| lane.sends).all(is_out)
        {
            std::thread::sleep(DRAIN_STEP);
        }
    }

    /// Nothing is sent or counted any more. Threads that receive go on, so that the other end does not get stuck.
    pub(crate) fn end(&mut self) {
        self.traffic.end();
        let now = Instant::now();
        self.ended = Some(now);
        // A rest that is too short tells nothing of the rate.
        let rest = now.saturating_duration_since(self.last);
        if rest > self.interval / 10 || self.intervals.is_empty() {
            self.sample(now);
        } else {
            self.sample_sockets();
        }
    }

    /// Tells the other end's TCP that nothing more comes, as iperf3 does by closing: whoever waits for the rest of a block
    /// would wait forever.
    pub(crate) fn hang_up(&self) {
        let is_tcp = self.wishes.protocol == Protocol::Tcp;
        for lane in self.lanes.iter().filter(|lane| is_tcp && lane.sends) {
            // One that is closed already needs none.
            let _ = shutdown(&lane.socket, Shutdown::Write);
        }
    }

    /// Ends all threads, and says what they counted.
    pub(crate) fn finish(mut self) -> (Vec<StreamOutcome>, Vec<Interval>, f64) {
        if self.ended.is_none() {
            self.end();
        }
        self.join();
        let seconds = self.seconds();
        let streams = (0..self.lanes.len()).map(|at| self.outcome(at)).collect();
        (streams, std::mem::take(&mut self.intervals), seconds)
    }

    /// What this end tells the other.
    pub(crate) fn results(&mut self, output: Option<String>) -> Results {
        // Those that send have ended, or do within a moment: all they sent is counted then.
        let until = Instant::now() + SEND_END;
        while !self.traffic.is_sent() && Instant::now() < until {
            std::thread::sleep(DRAIN_STEP);
        }
        let seconds = self.seconds();
        let is_tcp = self.wishes.protocol == Protocol::Tcp;
        let sends = self.lanes.iter().any(|lane| lane.sends);
        Results {
            processor: self.processor(),
            tells_retransmits: match (sends, is_tcp) {
                (false, _) => -1,
                (true, is_tcp) => i64::from(is_tcp),
            },
            congestion: self.congestion(),
            streams: (0..self.lanes.len())
                .map(|at| {
                    let outcome = self.outcome(at);
                    let base = self.marks[at].base.0;
                    StreamResult {
                        id: outcome.id,
                        bytes: outcome.bytes,
                        retransmits: outcome.retransmits.map_or(-1, u64::cast_signed),
                        jitter_s: outcome.jitter_us / 1e6,
                        errors: (outcome.missing + base.missing).cast_signed(),
                        packets: outcome.packets + base.packets,
                        omitted_errors: base.missing.cast_signed(),
                        omitted_packets: base.packets,
                        seconds: Some(seconds),
                    }
                })
                .collect(),
            output,
        }
    }

    /// Processor time since the beginning.
    pub(crate) fn processor(&self) -> Processor {
        let used = ProcessorTime::of_this_process().since(&self.processor);
        let until = self.ended.unwrap_or_else(Instant::now);
        let passed = until.saturating_duration_since(self.started).as_secs_f64();
        let share = |time: Duration| {
            if passed > 0.0 {
                time.as_secs_f64() / passed * 100.0
            } else {
                0.0
            }
        };
        Processor {
            total: share(used.total()),
            user: share(used.user),
            system: share(used.system),
        }
    }

    /// The congestion control of the streams: they all have the same.
    pub(crate) fn congestion(&self) -> Option<String> {
        (self.wishes.protocol == Protocol::Tcp)
            .then(|| sockets::congestion(&self.lanes.first()?.socket))
            .flatten()
    }

    fn seconds(&self) -> f64 {
        let until = self.ended.unwrap_or_else(Instant::now);
        until.saturating_duration_since(self.began).as_secs_f64()
    }

    fn sum(&self, sends: bool, of: impl Fn(&Count) -> u64) -> u64 {
        let lanes = self.lanes.iter().zip(&self.marks);
        lanes
            .filter(|(lane, _)| lane.sends == sends)
            .map(|(lane, marks)| of(&lane.count()).saturating_sub(of(&marks.base.0)))
            .sum()
    }

    fn sample_sockets(&mut self) -> Vec<Option<TcpSample>> {
        let is_tcp = self.wishes.protocol == Protocol::Tcp;
        let lanes = self.lanes.iter().zip(&mut self.marks);
        lanes
            .map(|(lane, marks)| (is_tcp && lane.sends).then(|| marks.sample(lane)).flatten())
            .collect()
    }

    fn sample(&mut self, now: Instant) {
        let told = self.sample_sockets();
        let from_s = self.last.saturating_duration_since(self.began).as_secs_f64();
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        let is_udp = self.wishes.protocol == Protocol::Udp;
        let streams = self.lanes.iter().zip(&mut self.marks).zip(told);
        let streams = streams
            .map(|((lane, marks), tcp)| {
                let count = lane.count();
                let (before, retransmits) = marks.last;
                marks.last = (count, tcp.map_or(retransmits, |tcp| tcp.retransmits));
                StreamInterval {
                    socket: lane.socket.as_raw_fd(),
                    sends: lane.sends,
                    bytes: count.bytes.saturating_sub(before.bytes),
                    packets: is_udp.then(|| count.packets.saturating_sub(before.packets)),
                    missing: count.missing.cast_signed() - before.missing.cast_signed(),
                    jitter_us: count.jitter_us,
                    tcp: tcp.map(|tcp| TcpSample {
                        retransmits: tcp.retransmits.saturating_sub(retransmits),
                        ..tcp
                    }),
                }
            })
            .collect();
        self.intervals.push(Interval {
            start_s: from_s,
            seconds,
            is_omitted: self.is_omitting,
            streams,
        });
        self.last = now;
    }

    fn outcome(&self, at: usize) -> StreamOutcome {
        let (lane, marks) = (&self.lanes[at], &self.marks[at]);
        let (count, base) = (lane.count(), marks.base.0);
        let rtts = &marks.rtts;
        let mean = rtts.iter().map(|&rtt| u64::from(rtt)).sum::<u64>() / rtts.len().max(1) as u64;
        StreamOutcome {
            id: lane.id,
            socket: lane.socket.as_raw_fd(),
            local: lane.local,
            remote: lane.remote,
            sends: lane.sends,
            bytes: count.bytes.saturating_sub(base.bytes),
            packets: count.packets.saturating_sub(base.packets),
            missing: count.missing.saturating_sub(base.missing),
            out_of_order: count.out_of_order.saturating_sub(base.out_of_order),
            jitter_us: count.jitter_us,
            retransmits: marks.info.as_deref().and_then(|bytes| {
                let all = u64::from(TcpInfo::new(bytes).total_retrans()?);
                Some(all.saturating_sub(marks.base.1))
            }),
            cwnd_max: marks.cwnd_max,
            window_max: marks.window_max,
            rtt_min_us: rtts.iter().copied().min().unwrap_or(0).into(),
            rtt_max_us: rtts.iter().copied().max().unwrap_or(0).into(),
            rtt_mean_us: mean,
            seen: marks.watch.as_ref().map(Watch::told),
            busy_permille: lane.busy_permille(),
            peer: None,
        }
    }

    fn join(&mut self) {
        self.traffic.stop();
        for thread in self.threads.drain(..) {
            // Whoever panicked has said so; what it counted is there.
            let _ = thread.join();
        }
    }

    /// A stream that broke while it ran.
    pub(crate) fn failure(&self) -> Option<Errno> {
        self.traffic.failure()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.join();
    }
}

impl Marks {
    fn sample(&mut self, lane: &Lane) -> Option<TcpSample> {
        let mut room = [0; tcp::INFO_LEN_MAX];
        let bytes = tcp::info(&lane.socket, &mut room).ok()?;
        let info = TcpInfo::new(bytes);
        let sample = TcpSample {
            retransmits: u64::from(info.total_retrans()?),
            cwnd_bytes: u64::from(info.snd_cwnd()?) * u64::from(info.snd_mss()?),
            window_bytes: info.snd_wnd().map_or(0, u64::from),
            rtt_us: info.rtt()?,
            rtt_var_us: info.rttvar()?,
            path_mtu: info.pmtu()?,
        };
        if sample.rtt_us > 0 && self.rtts.len() < RTTS_MAX {
            self.rtts.push(sample.rtt_us);
        }
        self.cwnd_max = self.cwnd_max.max(sample.cwnd_bytes);
        self.window_max = self.window_max.max(sample.window_bytes);
        self.info = Some(bytes.to_vec());
        Some(sample)
    }
}

const DRAIN_STEP: Duration = Duration::from_millis(1);
/// A thread that sends sees within 50 ms that it is over.
const SEND_END: Duration = Duration::from_millis(500);
/// A day of seconds.
const RTTS_MAX: usize = 86_400;
