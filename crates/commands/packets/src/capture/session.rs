//! A capture from its beginning to its end.

use super::CaptureArgs;
use super::interface::{BLOCK_WAIT_MS, Interface};
use super::owners::{self, Book};
use super::recorder::Recorder;
use super::target::{self, Full, Target};
use super::told::{self, Line};
use super::values::Ring;
use anyhow::{Context, anyhow};
use jiff::Zoned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_console::notes;
use sockeye_console::stdout::is_closed_pipe;
use sockeye_output::harmless;
use sockeye_sys::interrupts::Interrupts;
use sockeye_sys::packet_ring::{Block, Packet, PacketRing};
use sockeye_wire::packet::pcapng;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What became of packets up to now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Handed to the file
    pub(super) captured: u64,
    /// Let through by the filter, those that were dropped included
    pub(super) passed: u64,
    /// For which there was no room in the ring
    pub(super) dropped: u64,
    /// That stood in the ring and made no sense
    pub(super) unreadable: u64,
    /// Taken out of the ring
    taken: u64,
}

/// Why a capture ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By a signal, `-c` or `-a`
    Asked,
    /// Nobody reads standard output any more
    Unread,
    /// The interface went away
    Gone,
}

pub(super) fn run(
    args: &CaptureArgs,
    interface: &Interface,
    filter: &str,
    ring_of_files: Option<Ring>,
) -> anyhow::Result<ExitCode> {
    let program = super::filter::program(filter, args.snaplen, interface)?;
    if args.output.as_deref() == Some(Path::new("-")) && ring_of_files.is_none() {
        target::check_terminal()?;
    }
    // First the right to capture: without it no file should come into being.
    let ring = interface.open(args, &program)?;
    let target = target(args, interface, ring_of_files)?;
    let interrupts = Interrupts::catch().context("wait for signals")?;
    match target.earlier() {
        0 => {}
        1 => notes::say(
            "sockeye: a file of an earlier capture belongs to the ring, and will be the first to go\n",
        ),
        many => notes::say(&format!(
            "sockeye: {many} files of an earlier capture belong to the ring, and will be the first to go\n"
        )),
    }
    notes::say(&format!(
        "sockeye: capturing on {} ({}) into {target}{}\n",
        harmless(interface.name.as_bytes()),
        interface.link.words(),
        if args.seconds.is_some() || args.count.is_some() {
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
        line: Line::new(),
        is_down: false,
        book: None,
    };
    if args.no_owners {
        return session.run(ring, interrupts);
    }
    std::thread::scope(|scope| {
        let (book, board, wishes) = Book::open(interface);
        let look = move || owners::look(interface, &board, &wishes);
        // Without a thread for it nobody looks: that never slows the capture.
        let is_there = std::thread::Builder::new().spawn_scoped(scope, look).is_ok();
        session.book = is_there.then_some(book);
        let outcome = session.run(ring, interrupts);
        // By this the other ends.
        session.book = None;
        outcome
    })
}

fn target(args: &CaptureArgs, interface: &Interface, ring: Option<Ring>) -> anyhow::Result<Target> {
    match &args.output {
        Some(path) if path == Path::new("-") => {
            if ring.is_some() {
                let text = "sockeye: capture: --ring needs files: name them by -o FILE\n";
                return Err(sockeye_console::usage::UsageError(text.to_owned()).into());
            }
            Target::stdout()
        }
        Some(path) => Target::named(path, ring),
        None => {
            let time = Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
            // The name of an interface holds no '/'.
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
    line: Line,
    /// The interface was down when we last looked
    is_down: bool,
    /// Whose packets they are
    book: Option<Book>,
}

impl Session<'_> {
    fn run(&mut self, mut ring: PacketRing, interrupts: Interrupts) -> anyhow::Result<ExitCode> {
        self.recorder.begin();
        let outcome = self.flush().and_then(|()| self.receive(&mut ring, interrupts));
        self.line.clear();
        let outcome = outcome.and_then(|end| {
            if end != End::Unread {
                self.drain(&mut ring)?;
            }
            Ok(end)
        });
        self.count(&ring);
        // A file that is full has perhaps room for these few bytes.
        let finished = self.finish();
        told::summary(&self.counts, &self.target);
        let end = match outcome {
            Ok(end) => finished.map(|()| end),
            Err(error) => Err(error),
        };
        match end {
            Ok(End::Asked | End::Unread) => Ok(ExitCode::SUCCESS),
            Ok(End::Gone) => Err(anyhow!(
                "capture: {} has vanished; the file holds what passed before",
                harmless(self.interface.name.as_bytes())
            )),
            Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
            Err(error) if error.is::<Full>() => Err(error.context("capture")),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self, ring: &mut PacketRing, interrupts: Interrupts) -> anyhow::Result<End> {
        let deadline = self.args.seconds.map(|span| Instant::now() + span);
        let mut counted = Instant::now();
        loop {
            if self.take_all(ring, || interrupts.caught().is_some())? {
                return Ok(End::Asked);
            }
            self.flush()?;
            let now = Instant::now();
            if interrupts.caught().is_some() || deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(End::Asked);
            }
            if now >= counted {
                self.count(ring);
                counted = now + COUNT_INTERVAL;
            }
            self.line.show(&self.counts, self.target.written());
            let until = deadline.map_or(counted, |deadline| deadline.min(counted));
            match self.wait(ring, interrupts, until.saturating_duration_since(now))? {
                Some(end) => return Ok(end),
                None => self.look_after(ring)?,
            }
            if self.is_down && self.is_gone(ring) {
                return Ok(End::Gone);
            }
        }
    }

    /// Takes what is in the ring, and tells whether that is enough.
    fn take_all(&mut self, ring: &mut PacketRing, is_over: impl Fn() -> bool) -> anyhow::Result<bool> {
        while let Some(block) = ring.block() {
            if let Some(book) = &mut self.book {
                book.prepare(block.packets(), !block.is_followed());
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
            if let Some(book) = &mut self.book {
                book.forget();
            }
        }
        let name = |index| block.interface_name(index);
        let comment = self.book.as_mut().and_then(|book| book.comment(packet));
        self.recorder.packet(packet, comment.as_deref(), name);
        self.counts.captured += 1;
        Ok(())
    }

    /// Takes what had come when it ended and is not handed over yet: the kernel does so when its time is over.
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

    /// Waits for packets, for a signal, or until the time is over.
    fn wait(
        &self,
        ring: &PacketRing,
        interrupts: Interrupts,
        limit: Duration,
    ) -> anyhow::Result<Option<End>> {
        let timeout = Timespec::try_from(limit).context("wait for packets")?;
        let stdout = std::io::stdout();
        // An error of the ring stays until it is asked for.
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
        let is_unread = polled.get(2).is_some_and(|stdout| !stdout.revents().is_empty());
        Ok(is_unread.then_some(End::Unread))
    }

    /// Says when the interface goes down, and when packets come again.
    fn look_after(&mut self, ring: &PacketRing) -> anyhow::Result<()> {
        match ring.failure() {
            None => {}
            Some(Errno::NETDOWN) => {
                if !self.is_down && !self.is_gone(ring) {
                    self.line.clear();
                    notes::say(&format!(
                        "sockeye: {} is down; what passes when it is up again will be captured\n",
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

    /// Learns what the kernel has counted.
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
        let written = self.target.write(&self.recorder.buffer);
        self.recorder.buffer.clear();
        written
    }

    /// Ends a file.
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

/// So much is gathered before it is written, unless there is nothing else to do: as much as stays in a core's cache.
const FLUSH_BYTES: usize = 1 << 17;
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
