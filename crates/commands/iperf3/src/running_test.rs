//! A running test: threads that move bytes, and samples of their counters at each interval.

use super::error::Error;
use super::message::{Parameters, Processor, Results, StreamResult};
use super::outcome::{Interval, Outcome, Setup, StreamInterval, StreamOutcome, TcpSample, total};
use super::socket;
use super::stream::{self, Count, Stream, StreamOptions, Traffic};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use sockeye_load::Transport;
use sockeye_load::stream::Watch;
use sockeye_sys::{ProcessorTime, tcp};
use sockeye_wire::tcp_info::TcpInfo;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Streams with their threads and samples.
#[derive(Debug)]
pub(crate) struct RunningTest {
    streams: Vec<Arc<Stream>>,
    pub(crate) traffic: Arc<Traffic>,
    threads: Vec<JoinHandle<()>>,
    parameters: Parameters,
    processor: ProcessorTime,
    started: Instant,
    /// Start of the counted time, after the omitted time.
    began: Instant,
    is_omitting: bool,
    samples: Vec<StreamSamples>,
    next: Instant,
    last: Instant,
    interval: Duration,
    pub(crate) intervals: Vec<Interval>,
    ended: Option<Instant>,
}

/// Counters of one stream at past times, and samples of its socket.
#[derive(Debug, Default)]
struct StreamSamples {
    /// At the end of the omitted time: counters and retransmits.
    base: (Count, u64),
    /// At the last sample.
    last: (Count, u64),
    rtts: Vec<u32>,
    cwnd_max: u64,
    window_max: u64,
    info: Option<Vec<u8>>,
    watch: Option<Watch>,
}

impl RunningTest {
    /// Starts the threads.
    pub(crate) fn start(
        streams: Vec<Stream>,
        parameters: &Parameters,
        interval: Duration,
        is_bounded: bool,
        options: StreamOptions,
    ) -> Result<Self, Error> {
        let traffic = Traffic::new(parameters, is_bounded).map_err(Error::system("eventfd"))?;
        let (streams, traffic): (Vec<_>, _) =
            (streams.into_iter().map(Arc::new).collect(), Arc::new(traffic));
        let processor = ProcessorTime::of_this_process();
        let now = Instant::now();
        let threads = stream::start(&streams, &traffic, parameters, options).inspect_err(|_| traffic.stop());
        Ok(Self {
            samples: streams
                .iter()
                .map(|stream| StreamSamples {
                    watch: (parameters.protocol == Transport::Tcp && stream.sends)
                        .then(|| Watch::new(&stream.socket))
                        .flatten(),
                    ..StreamSamples::default()
                })
                .collect(),
            streams,
            traffic,
            threads: threads.map_err(Error::system("start a thread"))?,
            parameters: parameters.clone(),
            processor,
            started: now,
            began: now,
            is_omitting: parameters.omit_s > 0,
            next: now + interval,
            last: now,
            interval,
            intervals: Vec::new(),
            ended: None,
        })
    }

    /// Returns when [`tick`](Self::tick) has to be called next.
    pub(crate) fn next(&self) -> Instant {
        let counts_from = self.started + Duration::from_secs(self.parameters.omit_s);
        let next = if self.is_omitting {
            self.next.min(counts_from)
        } else {
            self.next
        };
        self.due().map_or(next, |due| next.min(due))
    }

    /// Returns when the test ends; `None` if it ends by bytes or blocks.
    pub(crate) fn due(&self) -> Option<Instant> {
        let span = self.parameters.omit_s + self.parameters.time_s;
        (self.parameters.is_by_time() && self.parameters.time_s > 0)
            .then(|| self.started + Duration::from_secs(span))
    }

    /// Takes a sample if one is due, and returns it.
    pub(crate) fn tick(&mut self) -> Option<&Interval> {
        let now = Instant::now();
        if self.is_omitting && now >= self.started + Duration::from_secs(self.parameters.omit_s) {
            self.sample(now);
            self.is_omitting = false;
            self.began = now;
            self.next = now + self.interval;
            for (stream, samples) in self.streams.iter().zip(&mut self.samples) {
                samples.base = (stream.count(), samples.last.1);
                if let Some(watch) = &mut samples.watch {
                    watch.restart(&stream.socket);
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

    /// Samples what the senders wait for. To be called many times per second.
    pub(crate) fn sample_watches(&mut self) {
        for (stream, samples) in self.streams.iter().zip(&mut self.samples) {
            if let Some(watch) = &mut samples.watch {
                watch.sample(&stream.socket);
            }
        }
    }

    /// Returns the bytes sent and received on all streams, to detect progress.
    pub(crate) fn moved(&self) -> u64 {
        total(
            [false, true]
                .into_iter()
                .map(|sends| self.sum(sends, |count| count.bytes)),
        )
    }

    /// Returns whether the requested bytes or blocks were received; false if the test ends by time.
    pub(crate) fn has_received_all(&self) -> bool {
        let is_udp = self.parameters.protocol == Transport::Udp;
        let received = || self.sum(false, |count| count.bytes);
        match (self.parameters.bytes, self.parameters.blocks) {
            (0, 0) => false,
            (0, blocks) if is_udp => self.sum(false, |count| count.packets) >= blocks,
            (0, blocks) => received() >= blocks.saturating_mul(self.parameters.length),
            (bytes, _) => received() >= bytes,
        }
    }

    /// Waits up to `timeout` until all sent bytes are acknowledged.
    pub(crate) fn drain(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let is_out = |stream: &Arc<Stream>| {
            let mut buffer = [0; tcp::INFO_LEN_MAX];
            let Ok(bytes) = tcp::info(&stream.socket, &mut buffer) else {
                return true;
            };
            let info = TcpInfo::new(bytes);
            info.unacked().unwrap_or(0) == 0 && info.notsent_bytes().unwrap_or(0) == 0
        };
        while self.parameters.protocol == Transport::Tcp
            && Instant::now() < until
            && !self.streams.iter().filter(|stream| stream.sends).all(is_out)
        {
            std::thread::sleep(DRAIN_STEP);
        }
    }

    /// Ends sending. What arrives counts until [`end`](Self::end).
    pub(crate) fn end_sending(&self) {
        self.traffic.end_sending();
    }

    /// Ends sending and counting. Receiving threads go on, so that the other end does not block.
    pub(crate) fn end(&mut self) {
        self.traffic.end();
        let now = Instant::now();
        self.ended = Some(now);
        // A short rest would give a meaningless rate.
        let rest = now.saturating_duration_since(self.last);
        if rest > self.interval / 10 || self.intervals.is_empty() {
            self.sample(now);
        } else {
            self.sample_sockets();
        }
    }

    /// Shuts down sending TCP streams, as iperf3 does by closing: a receiver may wait for the rest of a block.
    pub(crate) fn close_senders(&self) {
        let is_tcp = self.parameters.protocol == Transport::Tcp;
        for stream in self.streams.iter().filter(|stream| is_tcp && stream.sends) {
            // It may be closed already.
            let _ = shutdown(&stream.socket, Shutdown::Write);
        }
    }

    /// Ends all threads, and returns the outcome. `results` are the other end's, or why there are none.
    pub(crate) fn finish(mut self, setup: Setup, results: Result<Results, Error>) -> Outcome {
        let (processor, congestion) = (self.processor(), self.congestion());
        if self.ended.is_none() {
            self.end();
        }
        self.join();
        let mut outcome = Outcome {
            setup,
            intervals: std::mem::take(&mut self.intervals),
            streams: (0..self.streams.len()).map(|at| self.outcome(at)).collect(),
            seconds: self.seconds(),
            processor,
            peer_processor: None,
            congestion,
            peer_congestion: None,
            peer_has_retransmits: false,
            host_work: None,
            error: None,
        };
        match results {
            Ok(results) => outcome.add_peer_results(&results),
            Err(error) => outcome.error = Some(error),
        }
        outcome
    }

    /// Returns the results for the other end.
    pub(crate) fn results(&mut self, output: Option<String>) -> Results {
        // Wait until the senders have ended, and all bytes are counted.
        let until = Instant::now() + SEND_END;
        while !self.traffic.is_sent() && Instant::now() < until {
            std::thread::sleep(DRAIN_STEP);
        }
        let seconds = self.seconds();
        let is_tcp = self.parameters.protocol == Transport::Tcp;
        let sends = self.streams.iter().any(|stream| stream.sends);
        Results {
            processor: self.processor(),
            has_retransmits: match (sends, is_tcp) {
                (false, _) => -1,
                (true, is_tcp) => i64::from(is_tcp),
            },
            congestion: self.congestion(),
            streams: (0..self.streams.len())
                .map(|at| {
                    let outcome = self.outcome(at);
                    let base = self.samples[at].base.0;
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

    /// Returns the processor time since the start.
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

    /// Returns the congestion control of the streams, which is the same for all.
    pub(crate) fn congestion(&self) -> Option<String> {
        (self.parameters.protocol == Transport::Tcp)
            .then(|| socket::congestion(&self.streams.first()?.socket))
            .flatten()
    }

    fn seconds(&self) -> f64 {
        let until = self.ended.unwrap_or_else(Instant::now);
        until.saturating_duration_since(self.began).as_secs_f64()
    }

    fn sum(&self, sends: bool, of: impl Fn(&Count) -> u64) -> u64 {
        let streams = self.streams.iter().zip(&self.samples);
        let counts = streams
            .filter(|(stream, _)| stream.sends == sends)
            .map(|(stream, samples)| of(&stream.count()).saturating_sub(of(&samples.base.0)));
        total(counts)
    }

    fn sample_sockets(&mut self) -> Vec<Option<TcpSample>> {
        let is_tcp = self.parameters.protocol == Transport::Tcp;
        let streams = self.streams.iter().zip(&mut self.samples);
        streams
            .map(|(stream, samples)| (is_tcp && stream.sends).then(|| samples.sample(stream)).flatten())
            .collect()
    }

    fn sample(&mut self, now: Instant) {
        let tcp_samples = self.sample_sockets();
        let from_s = self.last.saturating_duration_since(self.began).as_secs_f64();
        let seconds = now.saturating_duration_since(self.last).as_secs_f64();
        let is_udp = self.parameters.protocol == Transport::Udp;
        let streams = self.streams.iter().zip(&mut self.samples).zip(tcp_samples);
        let streams = streams
            .map(|((stream, samples), tcp)| {
                let count = stream.count();
                let (before, retransmits) = samples.last;
                samples.last = (count, tcp.map_or(retransmits, |tcp| tcp.retransmits));
                StreamInterval {
                    socket: stream.socket.as_raw_fd(),
                    sends: stream.sends,
                    bytes: count.bytes.saturating_sub(before.bytes),
                    packets: is_udp.then(|| count.packets.saturating_sub(before.packets)),
                    missing: count.missing.wrapping_sub(before.missing).cast_signed(),
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
        let (stream, samples) = (&self.streams[at], &self.samples[at]);
        let (count, base) = (stream.count(), samples.base.0);
        let rtts = &samples.rtts;
        let mean = rtts.iter().map(|&rtt| u64::from(rtt)).sum::<u64>() / rtts.len().max(1) as u64;
        StreamOutcome {
            id: stream.id,
            socket: stream.socket.as_raw_fd(),
            local: stream.local,
            remote: stream.remote,
            sends: stream.sends,
            bytes: count.bytes.saturating_sub(base.bytes),
            packets: count.packets.saturating_sub(base.packets),
            missing: count.missing.saturating_sub(base.missing),
            out_of_order: count.out_of_order.saturating_sub(base.out_of_order),
            jitter_us: count.jitter_us,
            retransmits: samples.info.as_deref().and_then(|bytes| {
                let all = u64::from(TcpInfo::new(bytes).total_retrans()?);
                Some(all.saturating_sub(samples.base.1))
            }),
            cwnd_max: samples.cwnd_max,
            window_max: samples.window_max,
            rtt_min_us: rtts.iter().copied().min().unwrap_or(0).into(),
            rtt_max_us: rtts.iter().copied().max().unwrap_or(0).into(),
            rtt_mean_us: mean,
            sender: samples.watch.as_ref().map(Watch::summary),
            busy_permille: stream.busy_permille(),
            peer: None,
        }
    }

    fn join(&mut self) {
        self.traffic.stop();
        for thread in self.threads.drain(..) {
            // A panic was printed already; its counters remain.
            let _ = thread.join();
        }
    }

    /// Returns the error of a stream that broke.
    pub(crate) fn failure(&self) -> Option<Errno> {
        self.traffic.failure()
    }
}

impl Drop for RunningTest {
    fn drop(&mut self) {
        self.join();
    }
}

impl StreamSamples {
    fn sample(&mut self, stream: &Stream) -> Option<TcpSample> {
        let mut buffer = [0; tcp::INFO_LEN_MAX];
        let bytes = tcp::info(&stream.socket, &mut buffer).ok()?;
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
/// Sending threads notice the end within 50 ms.
const SEND_END: Duration = Duration::from_millis(500);
/// Most round-trip samples: a day of seconds.
const RTTS_MAX: usize = 86_400;
