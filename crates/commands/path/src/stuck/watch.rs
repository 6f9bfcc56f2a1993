//! Looks at sockets, seldom enough that it costs little.

use super::evidence::{Evidence, program_of};
use super::sockets::{ends, options};
use sockeye_model::{Entry, Owner, Process, Protocol, Queues, Socket, State, TimerKind};
use sockeye_path::{Device, Idle, Observed, Part, PathReport, SegmentsSeen, Stuck, StuckCause, StuckFold};
use sockeye_query::listing::Listing;
use sockeye_wire::drops::TCP;
use sockeye_wire::path::{Journey, Point};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Compares looks at the sockets that match.
pub(crate) struct StuckWatch<'a> {
    listing: &'a Listing<'a>,
    evidence: Evidence<'a>,
    fold: StuckFold,
    begin: Instant,
    /// When to look next; `None`: not before the end, since a look takes long.
    next: Option<Instant>,
    /// Connections that seemed to stand still at the first look, with their segments that were followed since.
    suspects: HashMap<(SocketAddr, SocketAddr), Option<SegmentsSeen>>,
}

/// A socket whose data stand still.
struct Found {
    socket: Socket,
    owner: Option<Owner>,
    other_owners: u64,
    observed: Observed,
    cause: StuckCause,
    waits_ns: u64,
}

impl<'a> StuckWatch<'a> {
    /// Looks for the first time. `owned` knows the owners of sockets.
    pub(crate) fn begin(listing: &'a Listing<'a>, owned: &'a Listing<'a>) -> anyhow::Result<Self> {
        let mut watch = Self {
            listing,
            evidence: Evidence::new(owned),
            fold: StuckFold::default(),
            begin: Instant::now(),
            next: None,
            suspects: HashMap::new(),
        };
        let (mut suspects, mut namespaces) = (HashMap::new(), HashSet::new());
        watch.look_with(&mut |socket| {
            if seems_stuck(socket) {
                namespaces.insert(socket.netns);
                if let Some(ends) = ends(socket).filter(|_| suspects.len() < SUSPECTS_MAX) {
                    suspects.insert(ends, None);
                }
            }
        })?;
        watch.suspects = suspects;
        if !namespaces.is_empty() {
            watch.evidence.prepare(&namespaces);
        }
        Ok(watch)
    }

    /// Looks again, if it is time.
    pub(crate) fn look_in_time(&mut self) -> anyhow::Result<()> {
        match self.next {
            Some(next) if Instant::now() >= next => self.look_with(&mut |_| {}),
            _ => Ok(()),
        }
    }

    /// Adds a packet that was followed.
    pub(crate) fn add_journey(&mut self, journey: &Journey) {
        if self.suspects.is_empty() || journey.protocol != TCP {
            return;
        }
        let ends = (journey.source, journey.destination);
        let Some(seen) = self.suspects.get_mut(&ends) else {
            return;
        };
        let left = |point| matches!(point, Point::Handed | Point::Queued | Point::Transmitted);
        if !journey.stamps.iter().any(|stamp| left(stamp.point)) {
            return;
        }
        let seen = seen.get_or_insert(SegmentsSeen {
            count: 0,
            bytes_max: 0,
            device: None,
            dropped: 0,
        });
        seen.count += 1;
        seen.bytes_max = seen.bytes_max.max(journey.bytes);
        seen.device = journey.stamps.iter().rev().find_map(Device::of).or(seen.device);
        seen.dropped += u64::from(journey.end == Some(Point::Dropped));
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn look_with(&mut self, also: &mut dyn FnMut(&Socket)) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut report = self.listing.begin();
        let owners = self.listing.owners(&mut report)?;
        // All of one look were so at its end, at the latest.
        let (at_ns, fold) = (self.now_ns(), &mut self.fold);
        self.listing
            .run(&options(), owners.as_ref(), &mut report, &mut |entry, _| {
                fold.observe(at_ns, entry.socket);
                also(entry.socket);
                ControlFlow::Continue(())
            })?;
        let took = begun.elapsed();
        self.next = (took <= LOOK_MAX).then(|| Instant::now() + (took * PAUSE).max(INTERVAL_MIN));
        Ok(())
    }

    /// Looks for the last time, and adds to a report what stands still. `sees_accepts`: whether accepted connections have rows.
    pub(crate) fn finish(mut self, report: &mut PathReport, sees_accepts: bool) -> anyhow::Result<()> {
        let at_ns = self.now_ns();
        let watched_ms = at_ns / 1_000_000;
        let is_accepted = |socket: &Socket| {
            let netns = socket.netns.map(|netns| netns.0);
            let local = socket.local.ip().zip(socket.local.port());
            let local = local.map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port.0));
            report.hops.iter().any(|hop| {
                let is_it = matches!(hop.part, Some(Part::Listener { local: one, netns: of, .. }) if Some(one) == local && of == netns);
                is_it && hop.packets > 0
            })
        };
        let (mut found, mut idle) = (Vec::new(), IdleFold::default());
        let (mut sockets, mut beyond) = (0_u64, 0_u64);
        let owned = self.evidence.listing();
        let mut listed = owned.begin();
        let owners = owned.owners_before(&options(), &mut listed)?;
        let fold = &mut self.fold;
        owned.run(&options(), owners.as_ref(), &mut listed, &mut |entry, _| {
            let socket = entry.socket;
            sockets += 1;
            fold.observe(at_ns, socket);
            let Some(observed) = fold.observed(at_ns, socket) else {
                idle.add(entry, watched_ms);
                return ControlFlow::Continue(());
            };
            for (cause, waits_ns) in StuckCause::of(socket, &observed) {
                if cause == StuckCause::NotAccepted && (!sees_accepts || is_accepted(socket)) {
                    continue;
                }
                if found.len() >= FOUND_MAX {
                    beyond += 1;
                    continue;
                }
                found.push(Found {
                    socket: socket.clone(),
                    owner: entry.owners.and_then(|owners| owners.first()).copied(),
                    other_owners: other_owners(entry),
                    observed,
                    cause,
                    waits_ns,
                });
            }
            ControlFlow::Continue(())
        })?;
        let mut groups = grouped(found);
        let kept = groups.len().min(GROUPS_MAX);
        let unlisted = groups.split_off(kept);
        report.stuck_unlisted = beyond + unlisted.iter().map(|(_, more)| more + 1).sum::<u64>();
        let is_quiet = report.followed() == 0;
        if is_quiet {
            report.sockets = Some(sockets);
        }
        if groups.is_empty() {
            report.idle = idle.finish().filter(|_| is_quiet);
            return Ok(());
        }
        let mut stuck: Vec<Stuck> = groups
            .into_iter()
            .map(|(found, more)| Stuck {
                program: found.owner.map(|owner| program_of(owner.process)),
                other_owners: found.other_owners,
                sent: ends(&found.socket).and_then(|ends| self.suspects.get(&ends).copied().flatten()),
                socket: found.socket,
                cause: found.cause,
                waits_ns: found.waits_ns,
                observed: found.observed,
                peer: None,
                way: None,
                finding: None,
                is_effect: false,
                more,
            })
            .collect();
        self.evidence.add_to(&mut stuck)?;
        report.add_stuck(stuck);
        Ok(())
    }
}

/// Connections without data in their queues.
#[derive(Default)]
struct IdleFold {
    connections: u64,
    latest: Option<(u64, Socket, Option<Process>)>,
}

impl IdleFold {
    /// Adds a socket with empty queues, if nothing has moved for so long.
    fn add(&mut self, entry: &Entry<'_>, watched_ms: u64) {
        let socket = entry.socket;
        let is_open = matches!(
            socket.state,
            State::Established | State::CloseWait | State::FinWait2
        );
        let Some(idle_ms) = socket.idle_ms().map(u64::from).filter(|_| is_open) else {
            return;
        };
        // The first look was a moment before packets were followed.
        if socket.protocol != Protocol::Tcp || idle_ms < watched_ms {
            return;
        }
        self.connections += 1;
        if self.latest.as_ref().is_none_or(|(latest, ..)| idle_ms < *latest) {
            let owner = entry.owners.and_then(|owners| owners.first());
            self.latest = Some((idle_ms, socket.clone(), owner.map(|owner| owner.process)));
        }
    }

    fn finish(self) -> Option<Idle> {
        let (_, latest, process) = self.latest?;
        Some(Idle {
            connections: self.connections,
            latest,
            program: process.map(program_of),
        })
    }
}

/// Returns one of those that wait for the same, that which waits longest, and how many more there are; the worst first.
fn grouped(mut found: Vec<Found>) -> Vec<(Found, u64)> {
    // The kernel ends by itself what no program has.
    let is_abandoned = |found: &Found| found.socket.inode.is_none() && found.cause != StuckCause::HalfOpen;
    found.sort_by_key(|found| (is_abandoned(found), std::cmp::Reverse(found.waits_ns)));
    let mut groups: Vec<(Found, u64)> = Vec::new();
    let mut known = HashMap::new();
    for one in found {
        let pid = one.owner.map(|owner| owner.process.pid);
        // What is known of the way is so for this peer only.
        let is_owned = one.socket.inode.is_some();
        let peer = one
            .socket
            .peer
            .ip()
            .filter(|_| one.cause.is_about_the_way() && is_owned);
        let port = one.socket.local.port().filter(|_| pid.is_none() && is_owned);
        let key = (one.cause, one.socket.netns, pid, peer, port);
        match known.get(&key) {
            Some(at) => {
                let group: Option<&mut (Found, u64)> = groups.get_mut(*at);
                if let Some((_, more)) = group {
                    *more += 1;
                }
            }
            None => {
                known.insert(key, groups.len());
                groups.push((one, 0));
            }
        }
    }
    groups
}

/// Returns how many processes have a socket, besides the first.
fn other_owners(entry: &Entry<'_>) -> u64 {
    let owners = entry.owners.unwrap_or_default().iter();
    let processes: HashSet<_> = owners.map(|owner| owner.process.pid).collect();
    (processes.len() as u64).saturating_sub(1)
}

/// Whether a socket may have stood still before it was looked at.
fn seems_stuck(socket: &Socket) -> bool {
    let Queues::Data {
        receive_bytes,
        send_bytes,
    } = socket.queues
    else {
        return false;
    };
    if socket.protocol != Protocol::Tcp {
        return false;
    }
    let is_timed_out = socket.timer.is_some_and(|timer| match timer.kind {
        TimerKind::Retransmission => timer.retransmits > 0,
        TimerKind::ZeroWindowProbe => true,
        _ => false,
    });
    let info = socket.tcp_info.unwrap_or_default();
    let is_old = |ms: Option<u32>| ms.is_some_and(|ms| ms >= OLD_MS);
    is_timed_out
        || socket.state == State::SynSent
        || receive_bytes > 1 && is_old(info.last_data_recv_ms)
        || send_bytes > 0 && is_old(info.last_ack_recv_ms) && socket.state == State::Established
}

/// Shortest time between two looks; and how many times as long as one took.
const INTERVAL_MIN: Duration = Duration::from_millis(250);
const PAUSE: u32 = 50;
/// After a longer look the next one is at the end.
const LOOK_MAX: Duration = Duration::from_millis(50);
/// Nothing has moved for so long that it may stand still.
const OLD_MS: u32 = 500;
/// Connections of which segments are counted.
const SUSPECTS_MAX: usize = 4096;
/// Sockets that are compared with each other, and rows.
const FOUND_MAX: usize = 4096;
const GROUPS_MAX: usize = 8;
