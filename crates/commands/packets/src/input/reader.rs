//! Reads a capture packet by packet, and reports its segments and connections.

use super::comment_owners::CommentOwners;
use crate::output::{CaptureTally, EndOwners, FlaggedSegment};
use anyhow::Context;
use sockeye_console::progress::Progress;
use sockeye_output::unit::Unit;
use sockeye_source::capture::{Capture, ReadPosition};
use sockeye_sys::interrupts::Interrupts;
use sockeye_trace::{Endpoint, Finished, Options, Trace};
use sockeye_wire::packet::{Decoded, Fragments, Segment, notice};
use std::path::Path;
use std::process::ExitCode;

/// A capture that is being read.
pub(crate) struct CaptureReader {
    capture: Capture,
    interrupts: Interrupts,
    trace: Trace,
    fragments: Fragments,
    tally: CaptureTally,
    first_ns: Option<u64>,
    owners: CommentOwners,
}

/// A result of reading a capture.
#[allow(clippy::large_enum_variant)] // used at once, where it is created
pub(crate) enum CaptureItem<'a> {
    /// A segment that has flags.
    Segment(FlaggedSegment<'a>),
    /// A connection that ended, or that the end of the capture ends, and its owners.
    Connection(Finished, EndOwners),
}

impl CaptureReader {
    /// Opens a capture file, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::with(path, Options::default())
    }

    /// Opens a capture with other options of the analysis.
    pub(crate) fn with(path: &Path, options: Options) -> anyhow::Result<Self> {
        let interrupts = Interrupts::catch().context("wait for signals")?;
        Ok(Self {
            capture: Capture::open_until(path, interrupts).map_err(|error| anyhow::anyhow!("{error}"))?,
            interrupts,
            trace: Trace::new(options),
            fragments: Fragments::default(),
            tally: CaptureTally::default(),
            first_ns: None,
            owners: CommentOwners::default(),
        })
    }

    /// Reads the capture. Calls `on_segment` for every segment, then `on_item` for flagged segments and for connections;
    /// after an error of the capture too, for the connections until then.
    pub(crate) fn run(
        &mut self,
        on_segment: &mut impl FnMut(u64, u64, &Segment, (Endpoint, Endpoint)),
        on_item: &mut dyn FnMut(CaptureItem<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::without_total("packets");
        let show = move |position| progress.update(|| progress_text(position));
        self.capture.on_read(Some(Box::new(show)));
        let read = self.read(on_segment, on_item);
        // Removes the line from the terminal.
        self.capture.on_read(None);
        let has_reader = match &read {
            Ok(()) => true,
            // An error of `on_item`: its output failed.
            Err(error) => error.downcast_ref::<sockeye_source::capture::Error>().is_some(),
        };
        if has_reader {
            for finished in self.trace.finish() {
                let owners = self.owners.take(&finished.connection);
                on_item(CaptureItem::Connection(finished, owners))?;
            }
        }
        // Its message has the reason already.
        read.map_err(|error| match error.downcast::<sockeye_source::capture::Error>() {
            Ok(error) => anyhow::anyhow!("{error}"),
            Err(error) => error,
        })
    }

    fn read(
        &mut self,
        on_segment: &mut impl FnMut(u64, u64, &Segment, (Endpoint, Endpoint)),
        on_item: &mut dyn FnMut(CaptureItem<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let tally = &mut self.tally;
        while let Some(packet) = self.capture.next()? {
            let first_ns = *self.first_ns.get_or_insert(packet.time_ns);
            let since_ns = packet.time_ns.saturating_sub(first_ns);
            tally.duration_ns = tally.duration_ns.max(since_ns);
            let Ok(decoded) = packet.decode() else {
                tally.undecodable += 1;
                continue;
            };
            let reassembled;
            let segment = match &decoded {
                Decoded::Segment(segment) => segment,
                Decoded::Fragment(fragment) => match self.fragments.add(fragment) {
                    Some(segment) => {
                        reassembled = segment;
                        &reassembled
                    }
                    None => {
                        tally.fragments += 1;
                        continue;
                    }
                },
                Decoded::Datagram { .. } | Decoded::Ip { .. } => {
                    match decoded {
                        Decoded::Datagram { .. } => tally.datagrams += 1,
                        _ => tally.other_ip += 1,
                    }
                    if let Some(notice) = notice(&decoded, packet.captured) {
                        self.trace.notice(packet.time_ns, notice);
                    }
                    continue;
                }
                Decoded::Other { .. } => {
                    tally.not_ip += 1;
                    continue;
                }
                Decoded::UnknownLink(link_type) => {
                    tally.unsupported_links.add(*link_type);
                    continue;
                }
            };
            tally.bad_checksums += u64::from(segment.bad_checksum == Some(true));
            on_segment(packet.frame, packet.time_ns, segment, ends(segment));
            let notes = self.trace.segment(packet.frame, packet.time_ns, segment);
            if let Some(comment) = packet.options().comment() {
                self.owners.add(notes.connection, ends(segment), comment);
            }
            if !notes.flags.is_empty() {
                let (from, to) = ends(segment);
                on_item(CaptureItem::Segment(FlaggedSegment {
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
                on_item(CaptureItem::Connection(finished, owners))?;
            }
        }
        Ok(())
    }

    /// Returns the counts of the capture, once it is read.
    pub(crate) fn tally(&self) -> CaptureTally {
        let counters = self.trace.counters();
        let skipped = self.capture.skipped();
        CaptureTally {
            packets: self.capture.packets(),
            segments: counters.segments,
            connections: counters.connections,
            too_long: skipped.too_long,
            of_unknown_interfaces: skipped.of_unknown_interfaces,
            without_time: skipped.without_time,
            times_backwards: counters.times_backwards,
            connections_cut_short: counters.connections_cut_short,
            not_waited_for: counters.unacked_left_out,
            dropped: self.dropped(),
            is_interrupted: self.capture.is_interrupted(),
            is_cut: self.capture.cut().is_some() || self.capture.is_packing_cut(),
            ..self.tally
        }
    }

    /// Returns the packets that were lost while capturing; `None` if the file does not have the count.
    fn dropped(&self) -> Option<u64> {
        let interfaces = self.capture.interfaces().iter();
        interfaces
            .filter_map(|interface| interface.dropped)
            .reduce(u64::saturating_add)
    }

    /// Returns the exit status if a signal ended the reading; else `None`.
    pub(crate) fn interrupted(&self) -> Option<ExitCode> {
        let signal = self
            .interrupts
            .caught()
            .filter(|_| self.capture.is_interrupted())?;
        Some(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)))
    }

    /// Returns the names of the interfaces in the capture, each once; at most 64.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self
            .capture
            .interfaces()
            .iter()
            .filter_map(|interface| interface.name.as_ref())
        {
            if !names.contains(name) && names.len() < INTERFACES_MAX {
                names.push(name.clone());
            }
        }
        names
    }

    /// Returns the bytes that were read, for messages: `2.3GB of 10.7GB`.
    pub(super) fn bytes_read(&self) -> String {
        bytes_of(self.capture.position())
    }

    /// Returns the name of the capture, for messages.
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

/// Returns the text of the progress line: `2.3GB of 10.7GB, 1372271 packets`.
fn progress_text(position: ReadPosition) -> String {
    format!("{}, {} packets", bytes_of(position), position.packets)
}

fn bytes_of(position: ReadPosition) -> String {
    let mut out = Vec::new();
    Unit::Bytes.push(&mut out, position.bytes);
    if let Some(file_len) = position.file_len {
        out.extend_from_slice(b" of ");
        Unit::Bytes.push(&mut out, file_len);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Limit for names of interfaces.
const INTERFACES_MAX: usize = 64;
