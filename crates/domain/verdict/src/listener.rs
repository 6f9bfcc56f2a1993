//! Rules about listeners: full accept queues, rejected connections, half-open connections.

use crate::finding::{Example, Facts, Subject};
use crate::share::permille;
use crate::suspects::{Presence, QueueLook, Suspicion};
use crate::symptom::Symptom;
use crate::{Finding, Limit, Limits, Rule, Severity};
use foldhash::fast::FixedState;
use sockeye_model::{Counter, Endpoint, Entry, NetnsInode, Port, Process, Queues, Settings, Socket, Vitals};
use std::collections::HashMap;
use std::net::IpAddr;

/// All listeners, and the number of half-open connections at each address and port.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    all: Vec<Listener>,
    /// Indices into `all` of listeners with a full queue, by port.
    full: HashMap<Port, Vec<usize>, FixedState>,
    half_open: HashMap<ListenKey, u64, FixedState>,
    /// Data received by connections that are not accepted yet, by their local end.
    unread: HashMap<ListenKey, u64, FixedState>,
}

/// Connections that wait to be accepted, as the looks at them show.
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    /// Longest time that one has waited
    longest_ms: u64,
    /// Longest time that one has waited that both looks saw; `None` without such a one
    longest_unchanged_ms: Option<u64>,
    /// Longest time that one has waited that only the earlier look saw
    longest_gone_ms: Option<u64>,
    /// Whether there was a second look
    is_seen_twice: bool,
    /// Connections that wait in both looks
    unchanged: u64,
    /// Data received by them
    unread_bytes: u64,
}

impl Queue {
    /// Whether the first connection of the earlier look is the first of the later one: accept() takes the first, so nothing
    /// was accepted in between. Of several that were established at nearly the same time any may be the first.
    fn is_first_unchanged(&self) -> bool {
        self.longest_unchanged_ms.is_some_and(|first| {
            self.longest_gone_ms
                .is_none_or(|gone| gone.saturating_add(SAME_TIME_MS) < first)
        })
    }
}

/// Where a socket listens, or a connection is half open.
type ListenKey = (Option<NetnsInode>, IpAddr, Port);

#[derive(Debug)]
struct Listener {
    socket: Example,
    netns: Option<NetnsInode>,
    owner: Option<Process>,
    port: Port,
    waiting: u64,
    backlog: Option<u64>,
    drops: u64,
}

impl Listeners {
    /// Adds a listener and the number of connections that it rejected.
    pub(crate) fn add(&mut self, entry: &Entry<'_>, drops: u32) {
        let socket = entry.socket;
        let (Queues::Accept { waiting, backlog }, Some(port)) = (socket.queues, socket.local.port()) else {
            return;
        };
        if self.all.len() < LISTENERS_MAX {
            if backlog.is_some_and(|backlog| waiting > backlog) {
                self.full.entry(port).or_default().push(self.all.len());
            }
            self.all.push(Listener {
                socket: Example::new(socket, Facts::NONE),
                netns: socket.netns,
                owner: entry
                    .owners
                    .and_then(|owners| owners.first())
                    .map(|owner| owner.process),
                port,
                waiting: waiting.into(),
                backlog: backlog.map(u64::from),
                drops: drops.into(),
            });
        }
    }

    /// Counts a half-open connection.
    pub(crate) fn half_open(&mut self, socket: &Socket) {
        if let Endpoint::Inet { ip, port } = socket.local {
            let place = (socket.netns, ip.to_canonical(), port);
            if self.half_open.len() < LISTENERS_MAX || self.half_open.contains_key(&place) {
                *self.half_open.entry(place).or_default() += 1;
            }
        }
    }

    /// Adds the unread data of a connection that is not accepted yet.
    pub(crate) fn not_accepted(&mut self, socket: &Socket) {
        if let (Endpoint::Inet { ip, port }, Queues::Data { receive_bytes, .. }) =
            (socket.local, socket.queues)
            && receive_bytes > 0
        {
            let place = (socket.netns, ip.to_canonical(), port);
            if self.unread.len() < LISTENERS_MAX || self.unread.contains_key(&place) {
                *self.unread.entry(place).or_default() += u64::from(receive_bytes);
            }
        }
    }

    /// Number of listeners at each place: `SO_REUSEPORT` allows several.
    fn count_by_place(&self) -> HashMap<ListenKey, u64, FixedState> {
        let mut listeners: HashMap<ListenKey, u64, FixedState> = HashMap::default();
        for place in self.all.iter().filter_map(Listener::place) {
            *listeners.entry(place).or_default() += 1;
        }
        listeners
    }

    /// What waits at each place where a socket listens.
    fn queues<'a>(
        &self,
        listeners: &HashMap<ListenKey, u64, FixedState>,
        looks: impl Iterator<Item = QueueLook<'a>>,
    ) -> HashMap<ListenKey, Queue, FixedState> {
        let mut queues: HashMap<ListenKey, Queue, FixedState> = HashMap::default();
        for look in looks {
            let key = look.key;
            let (Suspicion::NotAccepted, Endpoint::Inet { ip, port }) = (look.sighting.suspicion, key.local)
            else {
                continue;
            };
            let Some(place) = answering((key.netns, ip.to_canonical(), port), listeners) else {
                continue;
            };
            let queue = queues.entry(place).or_default();
            let age = look.age_ms;
            queue.longest_ms = queue.longest_ms.max(look.sighting.age_ms);
            queue.is_seen_twice |= look.presence != Presence::Once;
            match look.presence {
                Presence::Both => {
                    queue.unchanged += 1;
                    queue.longest_unchanged_ms = queue.longest_unchanged_ms.max(Some(age));
                }
                Presence::Gone => queue.longest_gone_ms = queue.longest_gone_ms.max(Some(age)),
                Presence::Once | Presence::New => {}
            }
        }
        for (&local, bytes) in &self.unread {
            if let Some(queue) = answering(local, listeners).and_then(|place| queues.get_mut(&place)) {
                queue.unread_bytes += bytes;
            }
        }
        queues
    }

    /// Half-open connections per listener at each place where a socket listens (`SO_REUSEPORT` distributes
    /// them evenly).
    fn half_open_per_listener(
        &self,
        listeners: &HashMap<ListenKey, u64, FixedState>,
    ) -> HashMap<ListenKey, u64, FixedState> {
        let mut each: HashMap<ListenKey, u64, FixedState> = HashMap::default();
        for (&local, count) in &self.half_open {
            if let Some(place) = answering(local, listeners) {
                *each.entry(place).or_default() += count;
            }
        }
        for (place, count) in &mut each {
            *count /= listeners.get(place).copied().unwrap_or(1).max(1);
        }
        each
    }

    /// Whether the accept queue of a listener at this address is full.
    pub(crate) fn is_full_at(&self, peer: &Endpoint) -> bool {
        let (Some(ip), Some(port)) = (peer.ip(), peer.port()) else {
            return false;
        };
        let mut full = self.full.get(&port).into_iter().flatten();
        full.any(|place| {
            let local = self
                .all
                .get(*place)
                .and_then(|listener| listener.socket.local.ip());
            local.is_some_and(|local| local.is_unspecified() || local.to_canonical() == ip.to_canonical())
        })
    }

    /// Whether there are listeners in a network namespace that programs there would reach through loopback.
    pub(crate) fn are_in(&self, netns: Option<NetnsInode>) -> bool {
        let is_local = |listener: &Listener| {
            let ip = listener.socket.local.ip();
            ip.is_some_and(|ip| ip.is_unspecified() || ip.to_canonical().is_loopback())
        };
        self.all
            .iter()
            .any(|listener| listener.netns == netns && is_local(listener))
    }

    /// The process that listens at the local end of a connection.
    pub(crate) fn owner_at(&self, local: &Endpoint, netns: Option<NetnsInode>) -> Option<Process> {
        let (ip, port) = (local.ip()?.to_canonical(), local.port()?);
        let is_at = |listener: &&Listener| {
            let own = listener.socket.local.ip();
            listener.netns == netns
                && listener.port == port
                && own.is_some_and(|own| own.is_unspecified() || own.to_canonical() == ip)
        };
        self.all.iter().find(is_at)?.owner
    }

    /// What is wrong with the listeners. `looks`: connections that may wait to be accepted. `is_moving`: drops are those since the earlier sample.
    pub(crate) fn findings<'a>(
        &'a self,
        limits: &'a Limits,
        is_moving: bool,
        looks: impl Iterator<Item = QueueLook<'a>>,
        vitals: &'a dyn Fn(Option<NetnsInode>) -> Option<Counted<'a>>,
    ) -> impl Iterator<Item = Finding> + 'a {
        let listeners = self.count_by_place();
        let half_open = self.half_open_per_listener(&listeners);
        let queues = self.queues(&listeners, looks);
        self.all.iter().enumerate().flat_map(move |(number, listener)| {
            let place = listener.place();
            let half_open = place.and_then(|place| half_open.get(&place).copied());
            let queue = place.and_then(|place| queues.get(&place));
            let is_alone = place.is_none_or(|place| listeners.get(&place) == Some(&1));
            // Of several listeners at one place the one with the longest queue is most likely the one that waits.
            let queue = queue.filter(|_| listener.waiting > 0 && (is_alone || self.is_longest(number)));
            listener.findings(
                limits,
                is_moving,
                half_open.unwrap_or(0),
                queue,
                vitals(listener.netns),
            )
        })
    }

    /// Whether no other listener at the same place has a longer queue.
    fn is_longest(&self, number: usize) -> bool {
        let Some(listener) = self.all.get(number) else {
            return false;
        };
        let place = listener.place();
        let mut others = self.all.iter().filter(|other| other.place() == place);
        others.all(|other| other.waiting <= listener.waiting)
    }
}

/// The vitals of a namespace, and those of the earlier sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted<'a> {
    pub(crate) now: &'a Vitals,
    pub(crate) before: Option<&'a Vitals>,
}

impl Counted<'_> {
    /// Change of a counter since the earlier sample, or its value.
    pub(crate) fn since(&self, counter: Counter) -> Option<u64> {
        let now = self.now.counters.value(counter)?;
        let before = self.before.and_then(|before| before.counters.value(counter));
        Some(now.saturating_sub(before.unwrap_or(0)))
    }
}

/// The place of the listener that answers for a local end: one at the exact address takes precedence over one at the
/// unspecified address.
fn answering(
    (netns, ip, port): ListenKey,
    listeners: &HashMap<ListenKey, u64, FixedState>,
) -> Option<ListenKey> {
    let any_v4 = ip.is_ipv4().then_some(IpAddr::from([0; 4]));
    let answers = [Some(ip), any_v4, Some(IpAddr::from([0; 16]))];
    let mut places = answers.into_iter().flatten().map(|ip| (netns, ip, port));
    places.find(|place| listeners.contains_key(place))
}

impl Listener {
    fn place(&self) -> Option<ListenKey> {
        let ip = self.socket.local.ip()?;
        Some((self.netns, ip.to_canonical(), self.port))
    }

    fn findings(
        &self,
        limits: &Limits,
        is_moving: bool,
        half_open: u64,
        queue: Option<&Queue>,
        vitals: Option<Counted<'_>>,
    ) -> Vec<Finding> {
        let settings = vitals.map(|vitals| &vitals.now.settings);
        let stalled = queue.and_then(|queue| self.stalled(limits, queue));
        let is_proof = stalled.is_some_and(|(_, is_proof)| is_proof);
        // A queue in which the first waits is the cause of its length.
        let queue = match (stalled, self.queue(limits)) {
            (Some((stalled, true)), _) | (Some((stalled, false)), None) => Some(stalled),
            (_, full) => full,
        };
        // Drops of years are compared with accepted connections; only the namespace counts those, not the
        // listener.
        let taken = vitals.and_then(|vitals| vitals.now.counters.value(Counter::TcpPassiveOpens));
        // The kernel also counts segments that no connection needs at a listener, as the bare acknowledgements of
        // TCP_DEFER_ACCEPT: only what the namespace counts in ListenDrops was a connection.
        let refused = vitals.and_then(|vitals| vitals.since(Counter::ListenDrops));
        let drops = refused.map_or(self.drops, |refused| self.drops.min(refused));
        let turned_away = if is_moving {
            drops > 0
        } else {
            drops >= limits.of(Limit::ListenerDropsCount).max(1)
                && permille(drops, taken.unwrap_or(0).max(drops)) >= limits.of(Limit::ListenerDropsShare)
        };
        // Without a route back to the client the kernel counts a drop, too.
        let unroutable = |vitals: Counted<'_>| {
            let counters = [Counter::IpOutNoRoutes, Counter::Ip6OutNoRoutes];
            let since = counters.iter().filter_map(|counter| vitals.since(*counter));
            since.fold(0, u64::saturating_add)
        };
        let is_unroutable = vitals
            .filter(|vitals| vitals.before.is_some() && self.waiting == 0)
            .is_some_and(|vitals| unroutable(vitals) >= drops);
        let turned_away = turned_away && !is_unroutable;
        let half_open = self.half_open(limits, half_open, vitals);
        // A full queue already explains the drops.
        let drops_alone = (turned_away && queue.is_none() && half_open.is_none()).then(|| {
            Symptom::new(Rule::ListenerDrops, drops)
                .fact("drops", drops)
                .fact("waiting", self.waiting)
                .fact("backlog", self.backlog)
        });
        let capped = self.capped(limits, settings, turned_away).filter(|_| !is_proof);
        [queue, drops_alone, capped, half_open]
            .into_iter()
            .flatten()
            .map(|symptom| self.finding(&symptom))
            .collect()
    }

    fn finding(&self, symptom: &Symptom) -> Finding {
        let finding = Finding {
            owner: self.owner,
            facts: symptom.facts,
            sockets: 1,
            examples: vec![self.socket],
            ..Finding::about(symptom.rule, self.netns, Subject::Listener(self.socket.local))
                .with(symptom.severity)
        };
        match symptom.rule {
            Rule::AcceptQueue if symptom.facts.value("longest_wait_ms").is_some() => {
                let mut finding = Finding {
                    meaning: symptom.meaning.unwrap_or(STALLED),
                    ..finding.sockeye(format!("sockets -tlp 'sport = :{}'", self.port))
                };
                if let Some(owner) = self.owner {
                    finding = finding.anywhere(format!(
                        "grep . /proc/{0}/task/*/wchan; cat /proc/{0}/stack",
                        owner.pid
                    ));
                }
                if symptom.meaning == Some(SLOW) {
                    return finding.advice(
                        "let the program accept faster (more workers): a longer backlog does not help",
                    );
                }
                finding
                    .advice("a longer backlog does not help: see what the program waits for, or restart it")
            }
            Rule::SynQueue => {
                let mut finding =
                    finding.sockeye(format!("sockets -tn state syn-recv 'sport = :{}'", self.port));
                if symptom.facts.value("syncookies") == Some(0) {
                    finding.meaning = NO_COOKIES;
                    finding = finding.inside("sysctl -w net.ipv4.tcp_syncookies=1");
                }
                finding.advice(
                    "if they are real clients: give listen() a longer backlog (and net.core.somaxconn, which caps it)",
                )
            }
            Rule::BacklogCapped => finding
                .inside("sysctl -w net.core.somaxconn=4096")
                .advice("restart the program afterwards: listen() takes the limit when it is called"),
            _ => {
                let mut finding = finding.sockeye(format!("sockets -tlp 'sport = :{}'", self.port));
                if symptom.rule == Rule::AcceptQueue {
                    finding.meaning = FULL;
                }
                if let Some(owner) = self.owner {
                    finding = finding.anywhere(format!(
                        "grep . /proc/{0}/task/*/wchan; cat /proc/{0}/stack",
                        owner.pid
                    ));
                }
                finding
                    .advice("let the program accept faster (more workers), or give listen() a longer backlog")
            }
        }
    }

    /// What connections that wait for long show, and whether two looks prove that nothing was accepted in between.
    fn stalled(&self, limits: &Limits, queue: &Queue) -> Option<(Symptom, bool)> {
        let is_proof = queue.is_first_unchanged();
        let longest_ms = match queue.longest_unchanged_ms {
            Some(first) if is_proof => first,
            _ => queue.longest_ms,
        };
        let least = match (is_proof, queue.is_seen_twice) {
            // It accepts, but its clients have waited for long.
            (false, true) => STALLED_LONG_MS.max(limits.of(Limit::AcceptQueueAge)),
            _ => limits.of(Limit::AcceptQueueAge),
        };
        if longest_ms < least {
            return None;
        }
        let is_full = self.backlog.is_some_and(|backlog| self.waiting > backlog);
        let (severity, meaning) = match (is_proof, queue.is_seen_twice) {
            (true, _) if is_full || longest_ms >= STALLED_LONG_MS => (Severity::Critical, STALLED),
            (true, _) => (Severity::Warning, STALLED),
            (false, true) => (Severity::Warning, SLOW),
            (false, false) => (Severity::Notice, PERHAPS_STALLED),
        };
        let symptom = Symptom::new(Rule::AcceptQueue, longest_ms)
            .fact("waiting", self.waiting)
            .fact("backlog", self.backlog)
            .fact("longest_wait_ms", longest_ms)
            .fact("unchanged", Some(queue.unchanged).filter(|_| is_proof))
            .fact(
                "unread_bytes",
                Some(queue.unread_bytes).filter(|bytes| *bytes > 0),
            )
            .fact("drops", Some(self.drops).filter(|drops| *drops > 0))
            .meaning(meaning)
            .with(severity);
        Some((symptom, is_proof))
    }

    fn queue(&self, limits: &Limits) -> Option<Symptom> {
        let backlog = self.backlog?;
        // The kernel lets one more than the backlog wait (`sk_acceptq_is_full`).
        let is_full = self.waiting > backlog;
        let share = permille(self.waiting, backlog.max(1));
        let is_near = backlog >= NEARLY_FULL_BACKLOG_MIN && share >= limits.of(Limit::AcceptQueueShare);
        let applies =
            is_full || is_near || (self.waiting > 0 && share >= limits.of(Limit::AcceptQueueShare).max(1001));
        applies.then(|| {
            Symptom::new(Rule::AcceptQueue, share)
                .fact("waiting", self.waiting)
                .fact("backlog", backlog)
                .fact("drops", Some(self.drops).filter(|drops| *drops > 0))
                .with(if is_full {
                    Severity::Critical
                } else {
                    Severity::Warning
                })
        })
    }

    fn capped(&self, limits: &Limits, settings: Option<&Settings>, turned_away: bool) -> Option<Symptom> {
        let backlog = self.backlog?;
        let somaxconn = u64::from(settings?.somaxconn?);
        let under_pressure =
            permille(self.waiting, backlog.max(1)) >= limits.of(Limit::BacklogShare) && self.waiting > 0;
        (backlog == somaxconn && (under_pressure || turned_away)).then(|| {
            Symptom::new(Rule::BacklogCapped, self.waiting)
                .fact("somaxconn", somaxconn)
                .fact("waiting", self.waiting)
                .fact("drops", Some(self.drops).filter(|drops| *drops > 0))
        })
    }

    fn half_open(&self, limits: &Limits, half_open: u64, vitals: Option<Counted<'_>>) -> Option<Symptom> {
        let backlog = self.backlog?;
        // With SYN cookies only the backlog counts, without them tcp_max_syn_backlog, too
        // (`tcp_conn_request`).
        let settings = vitals.map(|vitals| vitals.now.settings);
        let without_cookies = settings.filter(|settings| settings.syncookies == Some(0));
        let max = without_cookies
            .and_then(|settings| settings.syn_backlog_max)
            .map_or(backlog, |max| backlog.min(u64::from(max) * 3 / 4));
        let share = permille(half_open, max.max(1));
        let applies =
            half_open >= limits.of(Limit::SynQueueCount) && share >= limits.of(Limit::SynQueueShare);
        let dropped = vitals.and_then(|vitals| vitals.since(Counter::TcpReqQFullDrop));
        let cookies = vitals.and_then(|vitals| vitals.since(Counter::SyncookiesSent));
        applies.then(|| {
            Symptom::new(Rule::SynQueue, half_open)
                .fact("half_open", half_open)
                .fact("half_open_max", max)
                .fact("backlog", backlog)
                .fact("syncookies", without_cookies.map(|_| 0_u64))
                .fact("syns_dropped", dropped.filter(|count| *count > 0))
                .fact("syncookies_sent", cookies.filter(|count| *count > 0))
        })
    }
}

/// As many as may wait.
const FULL: &str = "Connections wait to be accepted, as many as may wait: the program is too slow or stuck, and clients will be turned away.";
/// Proof that nothing is accepted.
const STALLED: &str = "The program accepted nothing between two looks: the same connection is first in the listener's queue. It is stopped, stuck, or busy with something else.";
/// Nothing is stuck, but the queue does not get short.
const SLOW: &str =
    "Clients wait for long until the program accepts their connections: it accepts some, but slowly.";
/// One look.
const PERHAPS_STALLED: &str = "Connections wait for seconds to be accepted: the program is slow, stuck or stopped. A second look would show which.";
/// A full queue of half-open connections without SYN cookies.
const NO_COOKIES: &str = "Half-open connections fill the listener's queue, and SYN cookies are off: further SYNs are dropped, and clients cannot connect.";
/// Connections that wait for so long are lost to their clients.
const STALLED_LONG_MS: u64 = 10_000;
/// The ages of connections are known to a tick of the kernel's clock at each look.
const SAME_TIME_MS: u64 = 25;
/// Below this backlog a share means little: one of five is nothing, and the queue is full before it is nearly
/// full.
const NEARLY_FULL_BACKLOG_MIN: u64 = 16;
const LISTENERS_MAX: usize = 200_000;
