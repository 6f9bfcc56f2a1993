//! Rules about listeners: full accept queues, rejected connections, half-open connections.

use crate::finding::{Example, Facts, Subject};
use crate::share::permille;
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

    /// Half-open connections per listener at each place where a socket listens (`SO_REUSEPORT` distributes
    /// them evenly).
    fn half_open_per_listener(&self) -> HashMap<ListenKey, u64, FixedState> {
        let mut listeners: HashMap<ListenKey, u64, FixedState> = HashMap::default();
        if self.half_open.is_empty() {
            return listeners;
        }
        for place in self.all.iter().filter_map(Listener::place) {
            *listeners.entry(place).or_default() += 1;
        }
        let mut each: HashMap<ListenKey, u64, FixedState> = HashMap::default();
        for (&(netns, ip, port), count) in &self.half_open {
            // A listener at the exact address takes precedence over one at the unspecified address.
            let any_v4 = ip.is_ipv4().then_some(IpAddr::from([0; 4]));
            let answers = [Some(ip), any_v4, Some(IpAddr::from([0; 16]))];
            let mut places = answers.into_iter().flatten().map(|ip| (netns, ip, port));
            if let Some(place) = places.find(|place| listeners.contains_key(place)) {
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

    /// What is wrong with the listeners. `moving`: drops are those since the earlier sample.
    pub(crate) fn findings<'a>(
        &'a self,
        limits: &'a Limits,
        moving: bool,
        vitals: &'a dyn Fn(Option<NetnsInode>) -> Option<&'a Vitals>,
    ) -> impl Iterator<Item = Finding> + 'a {
        let half_open = self.half_open_per_listener();
        self.all.iter().flat_map(move |listener| {
            let half_open = listener.place().and_then(|place| half_open.get(&place).copied());
            listener.findings(limits, moving, half_open.unwrap_or(0), vitals(listener.netns))
        })
    }
}

impl Listener {
    fn place(&self) -> Option<ListenKey> {
        let ip = self.socket.local.ip()?;
        Some((self.netns, ip.to_canonical(), self.port))
    }

    fn findings(
        &self,
        limits: &Limits,
        moving: bool,
        half_open: u64,
        vitals: Option<&Vitals>,
    ) -> impl Iterator<Item = Finding> {
        let settings = vitals.map(|vitals| &vitals.settings);
        let queue = self.queue(limits);
        // Drops of years are compared with accepted connections; only the namespace counts those, not the
        // listener.
        let taken = vitals.and_then(|vitals| vitals.counters.value(Counter::TcpPassiveOpens));
        let turned_away = if moving {
            self.drops > 0
        } else {
            self.drops >= limits.of(Limit::ListenerDropsCount).max(1)
                && permille(self.drops, taken.unwrap_or(0).max(self.drops))
                    >= limits.of(Limit::ListenerDropsShare)
        };
        let half_open = self.half_open(limits, half_open, settings);
        // A full queue already explains the drops.
        let drops = (turned_away && queue.is_none() && half_open.is_none()).then(|| {
            Symptom::new(Rule::ListenerDrops, self.drops)
                .fact("drops", self.drops)
                .fact("waiting", self.waiting)
                .fact("backlog", self.backlog)
        });
        let capped = self.capped(limits, settings, turned_away);
        [queue, drops, capped, half_open]
            .into_iter()
            .flatten()
            .map(|symptom| self.finding(&symptom))
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
            Rule::SynQueue => {
                let mut finding =
                    finding.sockeye(format!("sockets -tn state syn-recv 'sport = :{}'", self.port));
                // Only without SYN cookies another limit than the backlog exists.
                if symptom.facts.value("half_open_max") < symptom.facts.value("backlog") {
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

    fn half_open(&self, limits: &Limits, half_open: u64, settings: Option<&Settings>) -> Option<Symptom> {
        let backlog = self.backlog?;
        // With SYN cookies only the backlog counts, without them tcp_max_syn_backlog, too
        // (`tcp_conn_request`).
        let without_cookies = settings.filter(|settings| settings.syncookies == Some(0));
        let max = without_cookies
            .and_then(|settings| settings.syn_backlog_max)
            .map_or(backlog, |max| backlog.min(u64::from(max) * 3 / 4));
        let share = permille(half_open, max.max(1));
        let applies =
            half_open >= limits.of(Limit::SynQueueCount) && share >= limits.of(Limit::SynQueueShare);
        applies.then(|| {
            Symptom::new(Rule::SynQueue, half_open)
                .fact("half_open", half_open)
                .fact("half_open_max", max)
                .fact("backlog", backlog)
        })
    }
}

/// Below this backlog a share means little: one of five is nothing, and the queue is full before it is nearly
/// full.
const NEARLY_FULL_BACKLOG_MIN: u64 = 16;
const LISTENERS_MAX: usize = 200_000;
