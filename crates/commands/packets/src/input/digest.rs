//! The packets of a block, decoded and sorted by the shard that analyses them. Blocks can be decoded in any order; what earlier
//! packets explain is added by `route`, in the order of the capture.

use crate::output::CaptureTally;
use sockeye_source::capture::Block;
use sockeye_trace::{NameLookup, Router, SHARDS};
use sockeye_wire::packet::{Decoded, Fragment, Fragments, IcmpError, Notice, Segment, TcpFlags, notice};

/// A decoded block.
#[derive(Debug, Default)]
pub(super) struct Digest {
    /// Segments of each shard, in the order of the capture
    pub(super) inputs: Vec<ShardInput>,
    /// Packets that depend on those before them
    others: Vec<Other>,
    /// Packet comments by frame
    pub(super) comments: Vec<(u64, Box<str>)>,
    /// What was counted in this block, without segments
    pub(super) tally: CaptureTally,
    /// Times of its first and its latest packet
    pub(super) first_ns: u64,
    pub(super) latest_ns: u64,
}

/// What one shard gets of a block.
#[derive(Debug, Default)]
pub(super) struct ShardInput {
    pub(super) segments: Vec<InputSegment>,
    pub(super) errors: Vec<InputError>,
    /// Time of the first segment of the capture
    pub(super) origin_ns: u64,
}

#[derive(Debug)]
pub(super) struct InputSegment {
    pub(super) frame: u64,
    pub(super) time_ns: u64,
    pub(super) segment: Segment,
    pub(super) has_comment: bool,
    pub(super) lookup: Option<Box<NameLookup>>,
}

/// An ICMP error about a connection of the shard.
#[derive(Debug)]
pub(super) struct InputError {
    pub(super) frame: u64,
    pub(super) time_ns: u64,
    pub(super) error: IcmpError,
}

/// A segment with the time of the first one, or an ICMP error.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // used at once, where it is created
pub(super) enum Input {
    Segment(u64, InputSegment),
    Error(InputError),
}

#[derive(Debug)]
struct Other {
    frame: u64,
    time_ns: u64,
    has_comment: bool,
    what: OtherPacket,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there are few
enum OtherPacket {
    Fragment(Fragment),
    Notice(Notice),
}

/// What the packets of a capture explain of those that follow.
#[derive(Debug, Default)]
pub(super) struct Route {
    router: Router,
    fragments: Fragments,
    origin_ns: Option<u64>,
}

impl ShardInput {
    pub(super) const fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.errors.is_empty()
    }
}

impl Digest {
    /// Decodes a block into this digest, which keeps its memory.
    pub(super) fn decode(&mut self, block: &Block) {
        self.inputs.resize_with(SHARDS, ShardInput::default);
        self.others.clear();
        self.comments.clear();
        self.tally = CaptureTally::default();
        self.first_ns = block.packets().next().map_or(0, |packet| packet.time_ns);
        self.latest_ns = self.first_ns;
        let tally = &mut self.tally;
        for packet in block.packets() {
            self.latest_ns = self.latest_ns.max(packet.time_ns);
            let Ok(decoded) = packet.decode() else {
                tally.undecodable += 1;
                continue;
            };
            let comment = packet.options().comment();
            let other = match decoded {
                Decoded::Segment(segment) => {
                    tally.bad_checksums += u64::from(segment.bad_checksum == Some(true));
                    self.inputs[Router::shard(&segment)].segments.push(InputSegment {
                        frame: packet.frame,
                        time_ns: packet.time_ns,
                        segment,
                        has_comment: comment.is_some(),
                        lookup: None,
                    });
                    None
                }
                Decoded::Fragment(fragment) => Some(OtherPacket::Fragment(fragment)),
                Decoded::Datagram { .. } | Decoded::Ip { .. } => {
                    match decoded {
                        Decoded::Datagram { .. } => tally.datagrams += 1,
                        _ => tally.other_ip += 1,
                    }
                    notice(&decoded, packet.captured).map(OtherPacket::Notice)
                }
                Decoded::Other { .. } => {
                    tally.not_ip += 1;
                    continue;
                }
                Decoded::UnknownLink(link_type) => {
                    tally.unsupported_links.add(link_type);
                    continue;
                }
            };
            if let Some(comment) = comment {
                self.comments.push((packet.frame, comment.into()));
            }
            if let Some(what) = other {
                self.others.push(Other {
                    frame: packet.frame,
                    time_ns: packet.time_ns,
                    has_comment: comment.is_some(),
                    what,
                });
            }
        }
    }

    /// Removes its segments and ICMP errors in the order of the capture.
    pub(super) fn drain_in_order(&mut self) -> impl Iterator<Item = Input> {
        let mut order: Vec<(u64, usize, bool)> = Vec::new();
        for (shard, input) in self.inputs.iter().enumerate() {
            order.extend(input.segments.iter().map(|segment| (segment.frame, shard, false)));
            order.extend(input.errors.iter().map(|error| (error.frame, shard, true)));
        }
        order.sort_unstable();
        let mut inputs: Vec<_> = self
            .inputs
            .iter_mut()
            .map(|input| (input.origin_ns, input.segments.drain(..), input.errors.drain(..)))
            .collect();
        order.into_iter().filter_map(move |(_, shard, is_error)| {
            let (origin_ns, segments, errors) = &mut inputs[shard];
            if is_error {
                return errors.next().map(Input::Error);
            }
            segments.next().map(|segment| Input::Segment(*origin_ns, segment))
        })
    }

    fn segment_at(&self, (shard, index): (usize, usize)) -> &InputSegment {
        &self.inputs[shard].segments[index]
    }
}

impl Route {
    /// Adds to a digest what earlier packets explain, and remembers what this one explains. Digests come in the order of the
    /// capture.
    pub(super) fn route(&mut self, digest: &mut Digest) {
        let others = std::mem::take(&mut digest.others);
        for other in &others {
            if let OtherPacket::Fragment(fragment) = &other.what {
                self.reassemble(digest, other, fragment);
            }
        }
        if self.origin_ns.is_none() {
            let first = digest.inputs.iter().filter_map(|input| input.segments.first());
            let first = first.min_by_key(|segment| segment.frame);
            self.origin_ns = first.map(|segment| self.router.origin_ns(segment.time_ns));
        }
        if self.router.has_lookups() || others.iter().any(Other::is_notice) {
            self.explain(digest, others);
        }
        for input in &mut digest.inputs {
            input.origin_ns = self.origin_ns.unwrap_or(0);
        }
    }

    fn reassemble(&mut self, digest: &mut Digest, other: &Other, fragment: &Fragment) {
        let Some(segment) = self.fragments.add(fragment) else {
            digest.tally.fragments += 1;
            return;
        };
        digest.tally.bad_checksums += u64::from(segment.bad_checksum == Some(true));
        let segments = &mut digest.inputs[Router::shard(&segment)].segments;
        let at = segments.partition_point(|before| before.frame < other.frame);
        segments.insert(
            at,
            InputSegment {
                frame: other.frame,
                time_ns: other.time_ns,
                segment,
                has_comment: other.has_comment,
                lookup: None,
            },
        );
    }

    /// Hands ICMP errors to their shards, and name lookups to the SYNs after them.
    fn explain(&mut self, digest: &mut Digest, others: Vec<Other>) {
        let mut syns: Vec<(u64, (usize, usize))> = Vec::new();
        for (shard, input) in digest.inputs.iter().enumerate() {
            for (index, segment) in input.segments.iter().enumerate() {
                if segment.segment.flags.has(TcpFlags::SYN) {
                    syns.push((segment.frame, (shard, index)));
                }
            }
        }
        syns.sort_unstable();
        let mut syns = syns.into_iter().peekable();
        for other in others {
            while let Some((_, at)) = syns.next_if(|(frame, _)| *frame < other.frame) {
                self.look_up(digest, at);
            }
            if let OtherPacket::Notice(notice) = other.what
                && let Some(error) = self.router.notice(other.time_ns, notice)
            {
                digest.inputs[Router::shard_of_error(&error)]
                    .errors
                    .push(InputError {
                        frame: other.frame,
                        time_ns: other.time_ns,
                        error,
                    });
            }
        }
        for (_, at) in syns {
            self.look_up(digest, at);
        }
    }

    fn look_up(&self, digest: &mut Digest, at: (usize, usize)) {
        let syn = digest.segment_at(at);
        let time_ns = Router::time_ns(self.origin_ns.unwrap_or(syn.time_ns), syn.time_ns);
        let lookup = self.router.lookup(time_ns, &syn.segment);
        if lookup.is_some() {
            digest.inputs[at.0].segments[at.1].lookup = lookup;
        }
    }
}

impl Other {
    fn is_notice(&self) -> bool {
        matches!(self.what, OtherPacket::Notice(_))
    }
}
