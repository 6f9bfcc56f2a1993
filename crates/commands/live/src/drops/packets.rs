//! Each dropped packet, as it is dropped.

use super::counters::CounterSample;
use super::firewall::{self, FirewallSample, HostAddresses};
use super::interval::Report;
use super::output::{Drops, PACKET_COLUMNS, ShownPacket};
use super::pace::{LISTING_MIN, after_listing};
use super::rows::{AF_INET, AF_INET6, Naming};
use super::session::Session;
use super::sockets::SocketTable;
use crate::clock::Clock;
use anyhow::Context as _;
use sockeye_console::notes::say;
use sockeye_console::{envelope, stdout};
use sockeye_dictionary::DropClass;
use sockeye_drops::NETFILTER;
use sockeye_model::{Inode, NetnsInode, counted, counted_were};
use sockeye_observe::KernelFunctions;
use sockeye_output::listing::{ListingWriter, Record as _};
use sockeye_output::{Format, Summary};
use sockeye_tracepoints::{DropWatch, Watch};
use sockeye_wire::drops::{DropSocket, Packet};
use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

impl Session<'_> {
    /// Whether a packet is of a socket that a listing can have: one of IP in a selected namespace.
    fn may_be_listed(&self, packet: &Packet) -> bool {
        let is_inet = |socket: &DropSocket| matches!(u32::from(socket.family), AF_INET | AF_INET6);
        let netns = Some(NetnsInode(packet.key.netns)).filter(|netns| netns.0 != 0);
        packet.socket.as_ref().is_some_and(is_inet) && self.is_selected(netns)
    }

    /// Reads the rules that can drop packets, and the addresses by which their directions are known.
    pub(super) fn rules(&self) -> (FirewallSample, HostAddresses) {
        let addresses = CounterSample::read(self.listing).addresses();
        (FirewallSample::read_rules(self.listing), addresses)
    }

    /// Prints each dropped packet.
    pub(super) fn packets(&self, mut watch: DropWatch) -> anyhow::Result<ExitCode> {
        let mut report = self.listing.begin();
        let mut sockets = SocketTable::read(self.listing, &mut report)?;
        let mut next_listing = Instant::now() + LISTING_MIN;
        let (mut firewalls, mut addresses) = self.rules();
        let mut rules_read = Instant::now();
        let functions = self.functions.get_or_init(KernelFunctions::read);
        let mut clock = Clock::default();
        clock.set();
        watch.attach().context("drops")?;
        let until = self.args.duration.map(|duration| Instant::now() + duration);
        self.say_begin(until.is_none());
        let result = Report {
            rows: Vec::new(),
            counters: Vec::new(),
            normal: None,
            is_watched: true,
            evicted_keys: 0,
            missed: 0,
            undecided: None,
            sampled_every: 1,
            changed_rules: [0, 0],
            by_gone_rules: 0,
            may_be_by_legacy: false,
            other_namespaces: [0, 0],
            unread_namespaces: 0,
            by_reason: Vec::new(),
            interval: Duration::ZERO,
            envelope: envelope::now(),
            sample: None,
        };
        let mut layout = self.layout(self.shown.packets.as_deref(), PACKET_COLUMNS, &result, false);
        layout.document_type = Drops::KEY;
        let out = stdout::open().context(stdout::WRITING)?;
        let mut writer = ListingWriter::new(out, layout);
        writer.begin()?;
        let empty = SocketTable::default();
        let mut batch = Vec::new();
        let mut is_open = true;
        let mut accounting = None;
        let mut shown_of = ReadPackets::default();
        let mut may_be_by_legacy = false;
        let mut waiting = NewSockets::default();
        let needs_owners = {
            let needs = self.listing.filter().needs();
            needs.owners || needs.workloads
        };
        loop {
            let is_over =
                self.interrupts.caught().is_some() || until.is_some_and(|until| Instant::now() >= until);
            if is_over {
                let last = watch.finish(|packet| batch.push(packet.clone()));
                accounting = Some(last.context("drops: end watching")?);
            } else {
                watch.packets(|packet| batch.push(packet.clone()));
            }
            let begin = Instant::now();
            let is_unknown = |packet: &Packet| {
                let inode = packet.key.inode;
                inode != 0
                    && packet.socket.as_ref().is_none_or(|socket| socket.pid == 0)
                    && !waiting.are_not_listed.contains(&inode)
                    && sockets.with_inode(inode).is_none()
                    && sockets.owner_of(Inode(inode)).is_none()
            };
            let is_new = |packet: &Packet| packet.key.netns != 0 && self.is_new(NetnsInode(packet.key.netns));
            let is_waited_for = batch
                .iter()
                .any(|packet| is_unknown(packet) && self.may_be_listed(packet));
            if is_waited_for && !is_over && waiting.wait(begin, next_listing, batch.len()) {
                let left = next_listing.saturating_duration_since(begin);
                watch
                    .wait(left.min(Watch::INTERVAL), &[self.interrupts.as_fd()])
                    .context("wait for drops")?;
                continue;
            }
            let may_list = begin >= next_listing || (is_over && is_waited_for);
            if may_list && batch.iter().any(|packet| is_unknown(packet) || is_new(packet)) {
                let context = self.renewed();
                let renewed = context
                    .as_ref()
                    .map(|context| self.listing_of(context))
                    .transpose()?;
                sockets = SocketTable::read(renewed.as_ref().unwrap_or(self.listing), &mut report)?;
                next_listing = after_listing(begin, Instant::now());
                waiting.listed(&batch, &sockets);
            }
            let is_by_rule =
                |packet: &Packet| self.reasons.name(packet.key.reason).as_deref() == Some(NETFILTER);
            if rules_read.elapsed() >= LISTING_MIN && batch.iter().any(is_by_rule) {
                (firewalls, addresses) = self.rules();
                rules_read = Instant::now();
            }
            let netns_name = |inode| self.netns_name(self.listing, inode);
            let naming = Naming {
                reasons: &self.reasons,
                functions,
                sockets: [&sockets, &empty],
                netns_name: &netns_name,
                has_keys: true,
            };
            let mut written = Ok(());
            for packet in batch.drain(..) {
                let mut row = naming.row(
                    &packet.key,
                    packet.socket.as_ref(),
                    packet.device,
                    std::slice::from_ref(&packet.sample),
                );
                row.set_rules(firewalls.rules_of(&row, &packet.sample, &addresses));
                let is_normal = row.class == Some(DropClass::Normal) && !self.args.all;
                may_be_by_legacy |= firewalls.may_be_by_legacy(&row);
                let verdict = row.matches(self.listing.filter());
                let is_selected = self.is_selected(row.netns) && verdict == Some(true);
                let count = match (is_selected, is_normal) {
                    (false, _) => &mut shown_of.not_selected,
                    (true, true) => &mut shown_of.normal,
                    (true, false) => &mut shown_of.shown,
                };
                *count += 1;
                // A socket without an inode is the kernel's own, or of no process any more.
                let lacks_owner = needs_owners && packet.key.inode != 0 && row.owner.is_none();
                let is_undecided = lacks_owner || verdict.is_none();
                if is_undecided && !is_selected && !is_normal && self.is_selected(row.netns) {
                    shown_of.owner_unknown += 1;
                }
                if is_normal || !is_selected {
                    continue;
                }
                let time_us = clock.unix_us(packet.sample.ns);
                writer.set_time(time_us);
                let shown = ShownPacket {
                    time_us,
                    clock: if Format::from(self.args.format) == Format::Table {
                        clock.text(time_us)
                    } else {
                        String::new()
                    },
                    len: packet.sample.len,
                    owner: row.owner_text(),
                    row,
                };
                written = writer.row(&&shown);
                if written.is_err() {
                    break;
                }
            }
            // A table settles its widths then: not before it has rows.
            if shown_of.shown > 0 {
                written = written.and_then(|()| writer.flush());
            }
            let written = written.map_err(anyhow::Error::from);
            match written {
                Err(error) if stdout::is_closed_pipe(&error) => is_open = false,
                written => written.context(stdout::WRITING)?,
            }
            if is_over || !is_open {
                break;
            }
            let left = until.map_or(Watch::INTERVAL, |until| {
                until.saturating_duration_since(Instant::now())
            });
            watch
                .wait(left.min(Watch::INTERVAL), &[self.interrupts.as_fd()])
                .context("wait for drops")?;
        }
        let counts = accounting.map(|accounting| (accounting.total(), accounting.missed));
        if is_open {
            let sources = report.sources();
            let summary = Summary {
                interrupted: self.interrupts.caught().is_some(),
                ..report.summary(&sources)
            };
            writer
                .finish_with(&summary, |object| {
                    if let Some((total, missed)) = counts {
                        object.number("made", Some(total.made));
                        object.number("lost", Some(total.lost));
                        object.number("missed", Some(missed));
                        object.number("shown", Some(shown_of.shown));
                        object.number("normal_not_shown", Some(shown_of.normal));
                        object.number("not_selected", Some(shown_of.not_selected));
                        object.number("owner_unknown", Some(shown_of.owner_unknown));
                    }
                })
                .context(stdout::WRITING)?;
        }
        if shown_of.owner_unknown > 0 {
            say(&format!(
                "sockeye: {} not shown although the filter may mean them: the owners of their sockets, or the sockets, are unknown\n",
                counted_were(shown_of.owner_unknown, "packet")
            ));
        }
        if may_be_by_legacy {
            firewall::say_legacy();
        }
        if let Some((total, missed)) = counts.filter(|(total, missed)| total.lost + missed > 0) {
            say(&format!(
                "sockeye: {} of {} did not fit into the ring (--ring), and {} not seen\n",
                total.lost,
                counted(total.made, "packet"),
                counted_were(missed, "more packet")
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What became of the packets that were read.
#[derive(Debug, Clone, Copy, Default)]
struct ReadPackets {
    shown: u64,
    /// Not shown because they are normal.
    normal: u64,
    /// Of other namespaces, or not matched by the filter.
    not_selected: u64,
    /// Of these the ones whose socket has an owner that is not known, where the filter wants one.
    owner_unknown: u64,
}

/// Sockets that are younger than the last listing: their packets, and those behind, wait for the next one if it comes soon.
#[derive(Debug, Default)]
struct NewSockets {
    /// Inodes that a listing did not have: nothing waits for them.
    are_not_listed: HashSet<u32>,
}

impl NewSockets {
    /// Whether `held` packets are to wait for the next listing.
    fn wait(&self, now: Instant, next_listing: Instant, held: usize) -> bool {
        let left = next_listing.saturating_duration_since(now);
        !left.is_zero() && left <= WAIT_MAX && held < HELD_MAX
    }

    /// Remembers which sockets of these packets were not in a listing.
    fn listed(&mut self, batch: &[Packet], sockets: &SocketTable) {
        if self.are_not_listed.len() >= HELD_MAX {
            self.are_not_listed.clear();
        }
        let inodes = batch.iter().map(|packet| packet.key.inode);
        self.are_not_listed
            .extend(inodes.filter(|inode| *inode != 0 && sockets.with_inode(*inode).is_none()));
    }
}

/// Longest wait for a listing.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Most packets that wait for one.
const HELD_MAX: usize = 65_536;
