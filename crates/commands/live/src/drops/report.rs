//! What happened in an interval.

use super::counters::{listener_drops, socket_drops};
use super::estimates;
use super::firewall;
use super::fold;
use super::interval::{Ends, Report};
use super::output::{NamedLine, counter_name, rule_text};
use super::rows::{self, DropRow, Naming};
use super::session::Session;
use super::sockets::SocketTable;
use sockeye_console::envelope;
use sockeye_dictionary::{Dictionary, DropClass};
use sockeye_drops::{CounterLine, CounterSubject, classes, reconcile};
use sockeye_model::{NetnsInode, Protocol};
use sockeye_observe::KernelFunctions;
use sockeye_query::findings::inside;
use sockeye_query::listing::Listing;
use sockeye_query::namespaces::NetnsAccess;
use sockeye_source::own_namespace;
use sockeye_tracepoints::DropCounts;
use sockeye_verdict::MEANINGS;
use sockeye_wire::drops::reason_at;
use std::collections::BTreeSet;

impl Session<'_> {
    pub(super) fn report(&self, listing: &Listing<'_>, ends: &Ends<'_>, is_watched: bool) -> Report {
        let &Ends {
            before,
            meanwhile,
            now,
            sockets,
        } = ends;
        let functions = self.functions.get_or_init(KernelFunctions::read);
        let netns_name = |inode| self.netns_name(listing, inode);
        let naming = Naming {
            reasons: &self.reasons,
            functions,
            sockets,
            netns_name: &netns_name,
            has_keys: self.args.keys > 0,
        };
        let (mut rows, normal_rows) = naming.rows(&before.drops, &now.drops, self.args.all);
        let devices = now.counters.devices();
        for row in &mut rows {
            if let (None, Some(index)) = (row.device, row.ifindex) {
                row.device = devices.get(&(row.netns, index.0)).copied();
            }
        }
        let addresses = now.counters.addresses();
        let found = now.counters.since(&before.counters, meanwhile);
        let by_rules = now.firewalls.since(&before.firewalls, &found.made);
        for row in &mut rows {
            let mut rules = now.firewalls.rules_since(&before.firewalls, row, &addresses);
            firewall::narrow(&by_rules.counters, row, &mut rules);
            row.set_rules(rules);
        }
        // Of what namespace evicted drops were is not known.
        rows.retain(|row| row.is_evicted || self.is_selected(row.netns));
        let by_gone_rules = now
            .firewalls
            .dropped_by_gone(&before.firewalls, &rows, &addresses);
        let mut rows = rows::merge_parts(rows);
        for row in &mut rows {
            // The kept packets were dropped by a rule that did not drop all of them.
            if firewall::has_counted_less(&by_rules.counters, row) {
                row.rule = None;
            }
        }
        firewall::forget_doubtful(&by_rules.counters, &mut rows);
        let mut rows = rows::merge_parts(rows);
        // A reason that is not counted by key is in the totals only.
        let normal = matches!(self.args.netns.as_deref(), None | Some("all"))
            .then(|| normal_by_place(&normal_rows) + self.normal(&before.drops, &now.drops));
        let may_be_by_legacy = rows.iter().any(|row| now.firewalls.may_be_by_legacy(row));
        let own = own_namespace();
        let is_unread = |netns: &NetnsInode| {
            Some(*netns) != own
                && ![&before.counters, meanwhile, &now.counters]
                    .iter()
                    .any(|read| read.has(*netns))
        };
        let of_rows = rows.iter().filter_map(|row| row.netns);
        let unread: BTreeSet<NetnsInode> = of_rows.filter(is_unread).collect();
        let mut undecided = 0;
        let mut counters = Vec::new();
        let mut other_namespaces = [0; 2];
        if self.args.filter.is_empty() {
            let of_here = normal_rows.iter().filter(|row| self.is_selected(row.netns));
            let events: Vec<_> = rows.iter().chain(of_here).map(DropRow::event).collect();
            let mut of_sockets = socket_drops(sockets[1], sockets[0]);
            of_sockets.retain(|moved| moved.netns.is_none_or(|netns| self.is_selected(Some(netns))));
            let mut moved = found.all.clone();
            moved.append(&mut of_sockets);
            moved.extend(by_rules.counters);
            let listeners = listener_drops(sockets[1], sockets[0]);
            let mut lines = reconcile(&moved, &events, &listeners);
            found.forget_after_the_end(&mut lines);
            other_namespaces = [&found.made, &found.ended].map(|some| number_with_lines(&lines, some));
            let name = |line| self.named(listing, line, sockets[0], is_watched);
            counters = lines.into_iter().map(name).collect();
            if let Some(key) = &self.shown.counters_by {
                let values: Vec<_> = counters.iter().map(|line| key.column.sort_value(&line)).collect();
                counters = in_order(counters, key.order(&values));
            }
        } else {
            rows.retain(|row| {
                let verdict = row.matches(self.listing.filter());
                if verdict.is_none() {
                    undecided += row.count;
                }
                verdict == Some(true)
            });
        }
        // Counters and filters are about single sockets: only then.
        rows = fold::by_process(rows);
        rows::sort_worst_first(&mut rows);
        if let Some(key) = &self.shown.drops_by {
            let values: Vec<_> = rows.iter().map(|row| key.column.sort_value(&row)).collect();
            rows = in_order(rows, key.order(&values));
        }
        Report {
            rows,
            counters,
            normal,
            is_watched: true,
            evicted_keys: now.drops.evicted_keys.saturating_sub(before.drops.evicted_keys),
            missed: 0,
            undecided: (!self.args.filter.is_empty()).then_some(undecided),
            sampled_every: 1,
            changed_rules: [by_rules.added, by_rules.removed],
            by_gone_rules,
            may_be_by_legacy,
            other_namespaces,
            unread_namespaces: unread.len(),
            by_reason: estimates::by_reason(&before.drops, &now.drops, &self.reasons, self.args.all),
            interval: now.at.duration_since(before.at),
            envelope: envelope::now(),
            sample: None,
        }
    }

    /// Returns the number of normal ends that are counted by reason only.
    pub(super) fn normal(&self, before: &DropCounts, now: &DropCounts) -> u64 {
        if self.args.all {
            return 0;
        }
        let is_normal = |index: &usize| {
            reason_at(*index).is_some_and(|reason| self.reasons.class(reason) == Some(DropClass::Normal))
        };
        let all = (0..now.by_reason.len()).filter(is_normal);
        all.map(|index| estimates::counted(before, now, index)).sum()
    }

    pub(super) fn named(
        &self,
        listing: &Listing<'_>,
        line: CounterLine,
        sockets: &SocketTable,
        is_watched: bool,
    ) -> NamedLine {
        let name = counter_name(&line.moved.subject);
        let mut advice = None;
        let of = match &line.moved.subject {
            CounterSubject::Protocol(counter) => {
                let meaning = MEANINGS.iter().find(|meaning| meaning.counter == *counter);
                let command = meaning.and_then(|meaning| meaning.remedy);
                let access = match line.moved.netns {
                    Some(netns) => listing.context.access_to(netns),
                    None => Some(NetnsAccess::Here),
                };
                advice = command
                    .zip(access)
                    .map(|(command, access)| inside(&access, command));
                None
            }
            CounterSubject::Backlog => None,
            CounterSubject::Qdisc(device)
            | CounterSubject::Received(device)
            | CounterSubject::Sent(device) => Some(String::from_utf8_lossy(device.as_bytes()).into_owned()),
            CounterSubject::FirewallRule(name) => Some(rule_text(name)),
            CounterSubject::Socket(inode) => sockets.with_inode(inode.0).map(|socket| {
                let local = socket
                    .local
                    .map_or_else(|| inode.to_string(), |local| local.to_string());
                let owner = socket.owner.as_ref().map(rows::owner_text);
                let owner = owner.map_or(String::new(), |owner| format!(" {owner}"));
                let protocol = if socket.protocol == Protocol::Raw {
                    "raw"
                } else {
                    "udp"
                };
                format!("{protocol} {local}{owner}")
            }),
        };
        let explain = match &line.moved.subject {
            CounterSubject::Protocol(_) | CounterSubject::Backlog => explain_name(&name),
            CounterSubject::Received(_) => explain_name("rx_dropped"),
            CounterSubject::Sent(_) => explain_name("tx_dropped"),
            CounterSubject::Qdisc(_) => explain_name("QDISC_DROP"),
            CounterSubject::Socket(_) => explain_name("SOCKET_RCVBUFF"),
            CounterSubject::FirewallRule(_) => explain_name("NETFILTER_DROP"),
        };
        NamedLine {
            netns_name: line.moved.netns.and_then(|netns| self.netns_name(listing, netns)),
            line,
            name,
            of,
            explain,
            advice,
            is_watched,
        }
    }
}

/// Returns how many of these normal ends of packets are known as such by their place: the totals by reason do not have them as normal.
fn normal_by_place(rows: &[DropRow]) -> u64 {
    let by_place = rows
        .iter()
        .filter(|row| row.reason.as_deref().and_then(classes::of_reason) != Some(DropClass::Normal));
    by_place.map(|row| row.count).sum()
}

/// Returns how many of these namespaces have lines.
fn number_with_lines(lines: &[CounterLine], namespaces: &BTreeSet<NetnsInode>) -> usize {
    let has_line = |netns: &&NetnsInode| lines.iter().any(|line| line.moved.netns == Some(**netns));
    namespaces.iter().filter(has_line).count()
}

/// Returns items in another order.
fn in_order<T>(items: Vec<T>, order: Vec<usize>) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|place| items.get_mut(place)?.take())
        .collect()
}

/// Returns the name of the dictionary's entry of a counter or reason.
fn explain_name(name: &str) -> Option<&'static str> {
    let found = Dictionary::new().find(name);
    found.entries.first().map(|entry| entry.name.as_ref())
}
