//! A capture, packet by packet, told to the analysis.

use super::owners::Owners;
use crate::output::{CaptureTally, EndOwners, FlaggedSegment};
use anyhow::Context;
use sockeye_console::progress::Progress;
use sockeye_source::capture::Capture;
use sockeye_sys::interrupts::Interrupts;
use sockeye_trace::{Endpoint, Finished, Options, Trace};
use sockeye_wire::packet::{Decoded, Fragments, Segment};
use std::path::Path;
use std::process::ExitCode;

/// A capture that is being analysed.
pub(crate) struct Reading {
    capture: Capture,
    interrupts: Interrupts,
    trace: Trace,
    fragments: Fragments,
    tally: CaptureTally,
    first_ns: Option<u64>,
    owners: Owners,
}

/// What turns up while it is read.
#[allow(clippy::large_enum_variant)] // each is looked at once, where it is made
pub(crate) enum Heard<'a> {
    /// A segment, with what is said of it
    Segment(FlaggedSegment<'a>),
    /// A connection that is over, or the capture is; and whose it is
    Connection(Finished, EndOwners),
}

impl Reading {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::with(path, Options::default())
    }

    /// With something else to be kept.
    pub(crate) fn with(path: &Path, options: Options) -> anyhow::Result<Self> {
        let interrupts = Interrupts::catch().context("wait for signals")?;
        Ok(Self {
            capture: Capture::open_until(path, interrupts).map_err(|error| anyhow::anyhow!("{error}"))?,
            interrupts,
            trace: Trace::new(options),
            fragments: Fragments::default(),
            tally: CaptureTally::default(),
            first_ns: None,
            owners: Owners::default(),
        })
    }

    /// Reads all of it; `each` is told of every segment first. What was heard before an error stays heard: all connections are told of in any case.
    pub(crate) fn run(
        &mut self,
        each: &mut impl FnMut(u64, u64, &Segment, (Endpoint, Endpoint)),
        hear: &mut dyn FnMut(Heard<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let read = self.read(each, hear);
        let is_told = match &read {
            Ok(()) => true,
            // Nobody listens any more.
            Err(error) => error.downcast_ref::<sockeye_source::capture::Error>().is_some(),
        };
        if is_told {
            for finished in self.trace.finish() {
                let owners = self.owners.take(&finished.connection);
                hear(Heard::Connection(finished, owners))?;
            }
        }
        // It says itself why.
        read.map_err(|error| match error.downcast::<sockeye_source::capture::Error>() {
            Ok(error) => anyhow::anyhow!("{error}"),
            Err(error) => error,
        })
    }

    fn read(
        &mut self,
        each: &mut impl FnMut(u64, u64, &Segment, (Endpoint, Endpoint)),
        hear: &mut dyn FnMut(Heard<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::endless("packets");
        let tally = &mut self.tally;
        while let Some(packet) = self.capture.next()? {
            if packet.frame % PROGRESS_EVERY == 0 {
                progress.reach(usize::try_from(packet.frame).unwrap_or(usize::MAX));
            }
            let first_ns = *self.first_ns.get_or_insert(packet.time_ns);
            let since_ns = packet.time_ns.saturating_sub(first_ns);
            tally.duration_ns = tally.duration_ns.max(since_ns);
            let segment = match packet.decode() {
                Ok(Decoded::Segment(segment)) => segment,
                Ok(Decoded::Fragment(fragment)) => match self.fragments.add(&fragment) {
                    Some(segment) => segment,
                    None => {
                        tally.fragments += 1;
                        continue;
                    }
                },
                Ok(Decoded::Datagram { .. }) => {
                    tally.datagrams += 1;
                    continue;
                }
                Ok(Decoded::Ip { .. }) => {
                    tally.other_ip += 1;
                    continue;
                }
                Ok(Decoded::Other { .. }) => {
                    tally.not_ip += 1;
                    continue;
                }
                Err(_) => {
                    tally.undecodable += 1;
                    continue;
                }
            };
            tally.bad_checksums += u64::from(segment.bad_checksum == Some(true));
            each(packet.frame, packet.time_ns, &segment, ends(&segment));
            let notes = self.trace.segment(packet.frame, packet.time_ns, &segment);
            if let Some(comment) = packet.options().comment() {
                self.owners.note(notes.connection, ends(&segment), comment);
            }
            if !notes.flags.is_empty() {
                let (from, to) = ends(&segment);
                hear(Heard::Segment(FlaggedSegment {
                    frame: packet.frame,
                    time_ns: since_ns,
                    from,
                    to,
                    bytes: segment.payload_len,
                    notes: &notes,
                }))?;
            }
            while let Some(finished) = self.trace.finished() {
                let owners = self.owners.take(&finished.connection);
                hear(Heard::Connection(finished, owners))?;
            }
        }
        Ok(())
    }

    /// What it held, once it is read.
    pub(crate) fn tally(&self) -> CaptureTally {
        let counters = self.trace.counters();
        let passed_over = self.capture.passed_over();
        CaptureTally {
            packets: self.capture.packets(),
            segments: counters.segments,
            connections: counters.connections,
            too_long: passed_over.too_long,
            of_unknown_interfaces: passed_over.of_unknown_interfaces,
            without_time: passed_over.without_time,
            times_backwards: counters.times_backwards,
            connections_cut_short: counters.connections_cut_short,
            not_waited_for: counters.unacked_left_out,
            dropped: self.dropped(),
            is_interrupted: self.capture.is_interrupted(),
            is_cut: self.capture.cut().is_some() || self.capture.is_packing_cut(),
            ..self.tally
        }
    }

    /// Packets that the capture lost, as it says itself.
    fn dropped(&self) -> Option<u64> {
        let told = self.capture.interfaces().iter().filter_map(|place| place.dropped);
        told.reduce(u64::saturating_add)
    }

    /// The exit status, if somebody ended the reading early.
    pub(crate) fn interrupted(&self) -> Option<ExitCode> {
        let signal = self
            .interrupts
            .caught()
            .filter(|_| self.capture.is_interrupted())?;
        Some(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)))
    }

    /// What the capture calls the interfaces that it was made on, each once.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self
            .capture
            .interfaces()
            .iter()
            .filter_map(|place| place.name.as_ref())
        {
            if !names.contains(name) && names.len() < INTERFACES_MAX {
                names.push(name.clone());
            }
        }
        names
    }

    pub(crate) fn name(&self) -> &str {
        self.capture.name()
    }
}

fn ends(segment: &Segment) -> (Endpoint, Endpoint) {
    (
        Endpoint {
            ip: segment.source,
            port: segment.source_port,
        },
        Endpoint {
            ip: segment.destination,
            port: segment.destination_port,
        },
    )
}

/// The clock is looked at after so many packets.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Of more interfaces no names are told.
const INTERFACES_MAX: usize = 64;
