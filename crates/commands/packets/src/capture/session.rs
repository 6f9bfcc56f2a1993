//! A capture from its beginning to its end.

use super::args::CaptureArgs;
use super::counts::Counts;
use super::interface::{BLOCK_WAIT_MS, Interface};
use super::owner_comments::{self, OwnerComments};
use super::privileges;
use super::progress::{self, ProgressLine};
use super::recorder::Recorder;
use super::target::{self, Full, Target};
use super::values::FileRing;
use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_console::notes;
use sockeye_console::stdout::is_closed_pipe;
use sockeye_output::harmless;
use sockeye_sys::interrupts::Interrupts;
use sockeye_sys::local_time::LocalTime;
use sockeye_sys::packet_ring::{Block, Packet, PacketRing};
use sockeye_wire::packet::pcapng;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Why a capture ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndReason {
    /// A signal, `-c` or `-a`.
    Requested,
    /// The reader of standard output closed it.
    ClosedPipe,
    /// The interface was removed.
    InterfaceGone,
}

pub(super) fn run(
    args: &CaptureArgs,
    interface: &Interface,
    filter: &str,
    ring_of_files: Option<FileRing>,
) -> anyhow::Result<ExitCode> {
    let program = super::filter::program(filter, args.snaplen, interface)?;
    if args.output.as_deref() == Some(Path::new("-")) && ring_of_files.is_none() {
        target::check_terminal()?;
    }
    // The ring first: without the permission to capture, no file is created.
    let ring = interface.open(args, &program)?;
    let target = target(args, interface, ring_of_files)?;
    let interrupts = Interrupts::catch().context("wait for signals")?;
    match target.earlier() {
        0 => {}
        1 => notes::say(
            "sockeye: a file of an earlier capture belongs to the ring, and will be deleted first\n",
        ),
        many => notes::say(&format!(
            "sockeye: {many} files of an earlier capture belong to the ring, and will be deleted first\n"
        )),
    }
    notes::say(&format!(
        "sockeye: capturing on {} ({}) into {target}{}\n",
        harmless(interface.name.as_bytes()),
        interface.link.description(),
        if args.duration.is_some() || args.count.is_some() {
            ""
        } else {
            "; ^C ends it"
        }
    ));
    let filter = (!filter.trim().is_empty()).then(|| filter.to_owned());
    let mut session = Session {
        args,
        interface,
        recorder: Recorder::new(interface, args.snaplen, filter),
        target,
        counts: Counts::default(),
        begun_ns: now_ns(),
        progress: ProgressLine::new(),
        is_down: false,
        owners: None,
    };
    if args.no_owners {
        privileges::keep_for_files(session.target.is_ring());
        return session.run(ring, interrupts);
    }
    std::thread::scope(|scope| {
        let (owners, lookup, requests) = OwnerComments::new(interface);
        let run = move || owner_comments::run_lookups(interface, &lookup, &requests);
        // If the thread cannot be started, the capture has no owners.
        let is_started = std::thread::Builder::new().spawn_scoped(scope, run).is_ok();
        session.owners = is_started.then_some(owners);
        // The thread drops its own.
        privileges::keep_for_files(session.target.is_ring());
        let outcome = session.run(ring, interrupts);
        // Dropping it ends the thread.
        session.owners = None;
        outcome
    })
}

fn target(args: &CaptureArgs, interface: &Interface, ring: Option<FileRing>) -> anyhow::Result<Target> {
    match &args.output {
        Some(path) if path == Path::new("-") => {
            if ring.is_some() {
                let text = "sockeye: capture: --ring needs files: name them with -o FILE\n";
                return Err(sockeye_console::usage::UsageError(text.to_owned()).into());
            }
            Target::stdout()
        }
        Some(path) => Target::named(path, ring),
        None => {
            let LocalTime {
                year,
                month,
                day,
                hour,
                minute,
                second,
            } = LocalTime::now();
            let time = format!("{year}{month:02}{day:02}-{hour:02}{minute:02}{second:02}");
            // The name of an interface has no '/'.
            let path = PathBuf::from(format!("sockeye-{}-{time}.pcapng", interface.name));
            Target::named(&path, ring)
        }
    }
}

#[derive(Debug)]
struct Session<'a> {
    args: &'a CaptureArgs,
    interface: &'a Interface,
    recorder: Recorder<'a>,
    target: Target,
    counts: Counts,
    begun_ns: u64,
    progress: ProgressLine,
    /// Whether the interface was down at the last check.
    is_down: bool,
    /// Owners of packets; `None` if they are not looked up.
    owners: Option<OwnerComments>,
}

impl Session<'_> {
    fn run(&mut self, mut ring: PacketRing, interrupts: Interrupts) -> anyhow::Result<ExitCode> {
        self.recorder.begin();
        let outcome = self.flush().and_then(|()| self.receive(&mut ring, interrupts));
        self.progress.clear();
        let outcome = outcome.and_then(|end| {
            if end != EndReason::ClosedPipe {
                self.drain(&mut ring)?;
            }
            Ok(end)
        });
        self.count(&ring);
        // A full disk may still have space for these few bytes.
        let finished = self.finish();
        let mut end = match outcome {
            Ok(end) => finished.map(|()| end),
            Err(error) => Err(error),
        };
        let full = end.as_mut().err().and_then(|error| error.downcast_mut::<Full>());
        let is_full = full.is_some();
        if let Some(full) = full {
            full.set_counts(self.counts.written, self.counts.captured);
        }
        progress::summary(&self.counts, &self.target, is_full);
        match end {
            Ok(EndReason::Requested | EndReason::ClosedPipe) => Ok(ExitCode::SUCCESS),
            Ok(EndReason::InterfaceGone) => Err(anyhow!(
                "capture: {} has vanished; the file has the packets until then",
                harmless(self.interface.name.as_bytes())
            )),
            Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) if error.is::<Full>() => Err(error.context("capture")),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self, ring: &mut PacketRing, interrupts: Interrupts) -> anyhow::Result<EndReason> {
        let deadline = self.args.duration.map(|span| Instant::now() + span);
        let mut counted = Instant::now();
        loop {
            if self.take_all(ring, || interrupts.caught().is_some())? {
                return Ok(EndReason::Requested);
            }
            self.flush()?;
            let now = Instant::now();
            if interrupts.caught().is_some() || deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(EndReason::Requested);
            }
            if now >= counted {
                self.count(ring);
                counted = now + COUNT_INTERVAL;
            }
            self.progress.show(&self.counts, self.target.written());
            let until = deadline.map_or(counted, |deadline| deadline.min(counted));
            match self.wait(ring, interrupts, until.saturating_duration_since(now))? {
                Some(end) => return Ok(end),
                None => self.check_interface(ring)?,
            }
            if self.is_down && self.is_gone(ring) {
                return Ok(EndReason::InterfaceGone);
            }
        }
    }

    /// Takes all packets out of the ring; returns whether the count of `-c` is reached.
    fn take_all(&mut self, ring: &mut PacketRing, is_over: impl Fn() -> bool) -> anyhow::Result<bool> {
        while let Some(block) = ring.block() {
            if let Some(owners) = &mut self.owners {
                owners.prepare(block.packets(), !block.is_followed());
            }
            let mut packets = block.packets();
            for packet in packets.by_ref() {
                self.counts.taken += 1;
                if self.recorder.is_echo(&packet) {
                    continue;
                }
                self.take(&packet, &block)?;
                if self.recorder.buffer.len() >= FLUSH_BYTES {
                    self.flush()?;
                }
                if self.args.count == Some(self.counts.captured) {
                    return Ok(true);
                }
            }
            let left = u64::from(packets.left());
            self.counts.unreadable += left;
            self.counts.taken += left;
            drop(block);
            if is_over() {
                break;
            }
        }
        Ok(false)
    }

    #[inline]
    fn take(&mut self, packet: &Packet<'_>, block: &Block<'_>) -> anyhow::Result<()> {
        if self.target.is_full_with(self.recorder.buffer.len()) {
            self.finish()?;
            self.target.next_file()?;
            self.recorder.begin();
            if let Some(owners) = &mut self.owners {
                owners.forget();
            }
        }
        let name = |index| block.interface_name(index);
        let comment = self.owners.as_mut().and_then(|owners| owners.comment(packet));
        self.recorder.packet(packet, comment.as_deref(), name);
        self.counts.captured += 1;
        self.counts.buffered += 1;
        Ok(())
    }

    /// Takes the packets received before the end that the kernel has not handed over yet; it does so after the block timeout.
    fn drain(&mut self, ring: &mut PacketRing) -> anyhow::Result<()> {
        if self.args.count.is_some_and(|count| self.counts.captured >= count) {
            return Ok(());
        }
        if ring.close().is_err() {
            return Ok(());
        }
        let deadline = Instant::now() + Duration::from_millis(u64::from(BLOCK_WAIT_MS) * 3);
        loop {
            if self.take_all(ring, || false)? {
                break;
            }
            self.count(ring);
            let is_empty = self.counts.taken + self.counts.dropped >= self.counts.passed;
            let left = deadline.saturating_duration_since(Instant::now());
            if is_empty || left.is_zero() {
                break;
            }
            let timeout = Timespec::try_from(left).ok();
            let _ = poll(&mut [PollFd::new(ring, PollFlags::IN)], timeout.as_ref());
        }
        self.flush()
    }

    /// Waits for packets, a signal, the reader of standard output, or the timeout.
    fn wait(
        &self,
        ring: &PacketRing,
        interrupts: Interrupts,
        limit: Duration,
    ) -> anyhow::Result<Option<EndReason>> {
        let timeout = Timespec::try_from(limit).context("wait for packets")?;
        let stdout = std::io::stdout();
        // An error of the ring persists until it is read.
        let mut polled = vec![
            PollFd::new(ring, PollFlags::IN),
            PollFd::new(&interrupts, PollFlags::IN),
        ];
        if self.target.is_stdout() {
            polled.push(PollFd::new(&stdout, PollFlags::empty()));
        }
        match poll(&mut polled, Some(&timeout)) {
            Err(Errno::INTR) => return Ok(None),
            done => done.context("wait for packets")?,
        };
        let is_closed = polled.get(2).is_some_and(|stdout| !stdout.revents().is_empty());
        Ok(is_closed.then_some(EndReason::ClosedPipe))
    }

    /// Reports that the interface is down; returns other errors of the ring.
    fn check_interface(&mut self, ring: &PacketRing) -> anyhow::Result<()> {
        match ring.failure() {
            None => {}
            Some(Errno::NETDOWN) => {
                if !self.is_down && !self.is_gone(ring) {
                    self.progress.clear();
                    notes::say(&format!(
                        "sockeye: {} is down; packets are captured when it is up again\n",
                        harmless(self.interface.name.as_bytes())
                    ));
                }
                self.is_down = true;
            }
            Some(errno) => return Err(errno).context("capture: receive packets"),
        }
        Ok(())
    }

    fn is_gone(&self, ring: &PacketRing) -> bool {
        let index = self.interface.index;
        index.is_some_and(|index| ring.interface_name(index).is_none())
    }

    /// Adds the kernel's counters, which reading resets.
    fn count(&mut self, ring: &PacketRing) {
        if let Ok(more) = ring.statistics() {
            self.counts.passed += u64::from(more.passed);
            self.counts.dropped += u64::from(more.dropped);
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if self.recorder.buffer.is_empty() {
            return Ok(());
        }
        let outcome = self.target.write(&self.recorder.buffer);
        self.recorder.buffer.clear();
        self.counts.written += match &outcome {
            Ok(()) => self.counts.buffered,
            Err(error) => error.downcast_ref::<Full>().map_or(0, Full::packets),
        };
        self.counts.buffered = 0;
        outcome
    }

    /// Ends a file with its statistics.
    fn finish(&mut self) -> anyhow::Result<()> {
        let end_ns = now_ns();
        self.recorder.end(&pcapng::Statistics {
            interface: 0,
            time_ns: end_ns,
            begin_ns: Some(self.begun_ns),
            end_ns: Some(end_ns),
            received: (!self.recorder.is_filtered()).then_some(self.counts.passed),
            interface_dropped: None,
            accepted: Some(self.counts.passed),
            kernel_dropped: Some(self.counts.dropped),
            delivered: Some(self.counts.captured),
        });
        self.flush()
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Size of a write while packets arrive: it fits into a core's cache.
const FLUSH_BYTES: usize = 1 << 17;
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
