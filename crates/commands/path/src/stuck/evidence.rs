//! What shows why data stand still: the program, the other end if it is on this host, the way to it, and the rules of `check`.

use super::sockets::{ends, options};
use sockeye_console::notes::say;
use sockeye_model::{Device, Names as _, NetnsInode, Pid, Process, Queues, Route, Socket, State, Vitals};
use sockeye_path::{FindingWords, PeerHere, Program, Stuck, StuckCause, Tunnel, Way};
use sockeye_query::findings::{FindingOptions, FindingSample, FindingSampler, RemedyAccess, RuleSelection};
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::{own_namespace, vitals};
use sockeye_verdict::{Finding, Limit, Rule, Severity, Subject};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

/// Gathers evidence.
pub(super) struct Evidence<'a> {
    listing: &'a Listing<'a>,
    sampler: FindingSampler<'a>,
    /// Whether the rules have a sample to compare with.
    is_prepared: bool,
    /// What was known of the namespaces of suspicious sockets at the beginning.
    before: HashMap<Option<NetnsInode>, Vitals>,
}

impl<'a> Evidence<'a> {
    /// Prepares, for sockets of a listing that knows their owners.
    pub(super) fn new(listing: &'a Listing<'a>) -> Self {
        let rules: BTreeSet<Rule> = RULES.iter().copied().collect();
        // That they stand still is known from the looks at them.
        let rules = RuleSelection::new(Some(&rules), None, &LIMITS, Severity::Info);
        let options = FindingOptions {
            is_repeated: true,
            is_filtered: true,
            second_look: Duration::ZERO,
        };
        Self {
            listing,
            sampler: FindingSampler::new(listing, rules, options, None),
            is_prepared: false,
            before: HashMap::new(),
        }
    }

    /// Returns the listing with owners.
    pub(super) const fn listing(&self) -> &'a Listing<'a> {
        self.listing
    }

    /// Takes a sample to compare with, since sockets in these namespaces seem to stand still.
    pub(super) fn prepare(&mut self, namespaces: &HashSet<Option<NetnsInode>>) {
        self.sample();
        self.is_prepared = true;
        for netns in namespaces.iter().take(NAMESPACES_MAX) {
            if let Some(vitals) = self.within(*netns, vitals::namespace) {
                self.before.insert(*netns, vitals);
            }
        }
    }

    /// Applies the rules; without them less is known.
    fn sample(&mut self) -> Option<FindingSample> {
        match self.sampler.sample(&mut self.listing.begin()) {
            Ok(sample) => Some(sample),
            Err(error) => {
                say(&format!(
                    "sockeye: path: the rules of check could not be applied: {error:#}\n"
                ));
                None
            }
        }
    }

    /// Adds what is known.
    pub(super) fn add_to(&mut self, stuck: &mut [Stuck]) -> anyhow::Result<()> {
        if !self.is_prepared {
            let namespaces = stuck.iter().map(|one| one.socket.netns).collect();
            self.prepare(&namespaces);
            std::thread::sleep(APART);
        }
        let findings = self.sample().map_or_else(Vec::new, |sample| sample.findings);
        let access = RemedyAccess::find(&findings, self.listing.context);
        self.add_peers(stuck)?;
        let mut now = HashMap::new();
        for one in stuck.iter_mut() {
            one.finding = words(&findings, &access, one);
            if one.cause.is_about_the_way() {
                one.way = self.way(&one.socket, &mut now);
            }
        }
        Ok(())
    }

    /// Adds the other ends that are on this host.
    fn add_peers(&self, stuck: &mut [Stuck]) -> anyhow::Result<()> {
        let mut peers: Vec<Vec<(bool, PeerHere)>> = stuck.iter().map(|_| Vec::new()).collect();
        let mut report = self.listing.begin();
        let options = QueryOptions {
            scope: Scope::All,
            ..options()
        };
        let owners = self.listing.owners_before(&options, &mut report)?;
        self.listing
            .run(&options, owners.as_ref(), &mut report, &mut |entry, _| {
                let socket = entry.socket;
                for (one, peers) in stuck.iter().zip(&mut peers) {
                    let Some(is_listener) = is_peer(&one.socket, socket) else {
                        continue;
                    };
                    let (unread, is_full) = match socket.queues {
                        Queues::Accept { waiting, backlog } => {
                            (waiting.into(), backlog.is_some_and(|backlog| waiting > backlog))
                        }
                        Queues::Data { receive_bytes, .. } => (receive_bytes.into(), false),
                        Queues::Unknown => (0, false),
                    };
                    let owner = entry.owners.and_then(|owners| owners.first());
                    peers.push((
                        is_listener,
                        PeerHere {
                            netns: socket.netns,
                            netns_name: None,
                            unread,
                            is_full_listener: is_full,
                            program: owner.map(|owner| program_of(owner.process)),
                        },
                    ));
                }
                ControlFlow::Continue(())
            })?;
        for (one, peers) in stuck.iter_mut().zip(peers) {
            let mut peers = peers
                .into_iter()
                .filter(|(is_listener, peer)| !is_listener || self.has_address(peer.netns, &one.socket))
                .map(|(_, peer)| peer);
            // Many namespaces can have the same addresses: then it is not known which.
            let (only, other) = (peers.next(), peers.next());
            one.peer = only.filter(|_| other.is_none()).map(|peer| PeerHere {
                netns_name: peer
                    .netns
                    .filter(|netns| own_namespace() != Some(*netns))
                    .and_then(|netns| self.listing.context.netns(netns).map(str::to_owned)),
                netns: peer.netns.filter(|netns| own_namespace() != Some(*netns)),
                ..peer
            });
        }
        // The reader is the cause, and what its sender has is the effect.
        let unread: HashSet<_> = stuck
            .iter()
            .filter(|one| matches!(one.cause, StuckCause::Unread))
            .filter_map(|one| ends(&one.socket))
            .collect();
        for one in stuck.iter_mut() {
            let reader = ends(&one.socket).map(|(local, peer)| (peer, local));
            one.is_effect =
                one.cause == StuckCause::PeerWindow && reader.is_some_and(|reader| unread.contains(&reader));
        }
        Ok(())
    }

    /// Whether a network namespace has the address of a socket's peer.
    fn has_address(&self, netns: Option<NetnsInode>, socket: &Socket) -> bool {
        let Some(peer) = socket.peer.ip().map(|ip| ip.to_canonical()) else {
            return false;
        };
        if peer.is_loopback() {
            return netns == socket.netns;
        }
        let devices = self.within(netns, vitals::namespace).map(|vitals| vitals.devices);
        let mut all = devices.iter().flatten().flat_map(|device| &device.addresses);
        all.any(|ip| ip.to_canonical() == peer)
    }

    /// Looks up how this host would send to the peer of a socket; `None` without a device.
    fn way(&self, socket: &Socket, now: &mut HashMap<Option<NetnsInode>, Option<Vitals>>) -> Option<Way> {
        let query = sockeye_verdict::path_query(socket)?;
        let found = self.within(socket.netns, || vitals::send_paths(&[query]))?;
        let path = found.first()?;
        let Route::Via { device, gateway } = path.route else {
            return None;
        };
        let vitals = now
            .entry(socket.netns)
            .or_insert_with(|| self.within(socket.netns, vitals::namespace));
        let with_index = |vitals: &Vitals| {
            let mut devices = vitals.devices.iter();
            devices.find(|one| one.index == device).cloned()
        };
        let device = with_index(vitals.as_ref()?)?;
        let queue = queue_of(&device);
        let earlier = self.before.get(&socket.netns).and_then(with_index);
        let passed = queue.zip(earlier.as_ref().and_then(queue_of));
        let sent = |device: &Device| device.traffic.map(|traffic| traffic.tx_packets);
        let tunnel = matches!(device.driver.as_bytes(), b"tun" | b"tap").then(|| Tunnel {
            program: self.tunnel_program(&device, socket.netns),
            // It counts a packet when its program has read it.
            read_packets: earlier
                .as_ref()
                .and_then(|earlier| sent(&device)?.checked_sub(sent(earlier)?)),
        });
        Some(Way {
            tunnel,
            gateway,
            next_hop: path.next_hop,
            queued_packets: queue.map(|(waiting, _)| waiting),
            passed_packets: passed.and_then(|((_, now), (_, before))| now.checked_sub(before)),
            device,
        })
    }

    /// Returns the first of the programs that have a tunnel open.
    fn tunnel_program(&self, device: &Device, netns: Option<NetnsInode>) -> Option<Program> {
        let name = String::from_utf8_lossy(device.name.as_bytes()).into_owned();
        let readers = self.within(netns, || vitals::tunnel_readers(&name))?;
        let (pid, comm) = *readers.first()?;
        Some(program_of(Process {
            pid,
            pgid: None,
            comm,
        }))
    }

    /// Runs `read` in a network namespace; `None` if it cannot be entered.
    fn within<T: Send>(&self, netns: Option<NetnsInode>, read: impl FnOnce() -> T + Send) -> Option<T> {
        let Some(netns) = netns.filter(|netns| own_namespace() != Some(*netns)) else {
            return Some(read());
        };
        let context = self.listing.context;
        context.run_in(context.namespaces.with_inode(netns)?, read)
    }
}

/// Returns what a process does.
pub(super) fn program_of(process: Process) -> Program {
    Program {
        process,
        state: vitals::process_state(Pid(process.pid.0)),
    }
}

/// Returns the packets that wait at the root of a device's queues, and those that have left it; `None` without a queue.
fn queue_of(device: &Device) -> Option<(u64, u64)> {
    let root = device.qdiscs.iter().find(|qdisc| qdisc.is_root())?;
    (root.kind.as_bytes() != b"noqueue").then(|| (root.waiting_packets.into(), root.packets))
}

/// Whether a socket is the other end of a connection, or a listener to which it may go: `Some(true)`.
fn is_peer(socket: &Socket, other: &Socket) -> Option<bool> {
    if other.protocol != socket.protocol {
        return None;
    }
    let (local, peer) = ends(socket)?;
    let (other_local, other_peer) = ends(other)?;
    if socket.state == State::SynSent && other.state == State::Listen {
        let is_address = other_local.ip().is_unspecified() || other_local.ip() == peer.ip();
        return (is_address && other_local.port() == peer.port()).then_some(true);
    }
    (other_local == peer && other_peer == local && peer.port() != 0).then_some(false)
}

/// Returns what the rules say of a socket; `None` if they do not name it.
fn words(findings: &[Finding], access: &RemedyAccess, stuck: &Stuck) -> Option<FindingWords> {
    let socket = &stuck.socket;
    let is_it = |finding: &&Finding| {
        let mut examples = finding.examples.iter();
        let is_here = |one: &sockeye_verdict::Example| {
            one.protocol == socket.protocol && one.local == socket.local && one.peer == socket.peer
        };
        finding.netns == socket.netns && is_about(finding.rule, stuck.cause) && examples.any(is_here)
    };
    let place = |finding: &&Finding| RULES.iter().position(|rule| *rule == finding.rule);
    let finding = findings.iter().filter(is_it).min_by_key(place)?;
    let of_example = |finding: &Finding| {
        let example = finding
            .examples
            .iter()
            .find(|one| one.local == socket.local && one.peer == socket.peer)?;
        example.facts.value("untried_pmtu_bytes")
    };
    let is_untried = finding.rule == Rule::MtuBlackHole || of_example(finding).is_some();
    let remedies = access.remedies(finding);
    let is_name = !matches!(
        finding.subject,
        Subject::Sockets | Subject::Listener(_) | Subject::Process
    );
    let (commands, advice): (Vec<_>, Vec<_>) = remedies.into_iter().partition(|(_, is_command)| *is_command);
    let text = |(text, _): (String, bool)| text;
    Some(FindingWords {
        rule: finding.rule,
        meaning: finding.meaning.to_owned(),
        subject: is_name.then(|| finding.subject.to_string()),
        commands: commands.into_iter().map(text).collect(),
        advice: advice.into_iter().map(text).collect(),
        untried_mtu: socket
            .tcp_info
            .as_ref()
            .and_then(|info| info.pmtu_bytes)
            .filter(|_| is_untried),
    })
}

/// Whether a rule says something about what data wait for.
fn is_about(rule: Rule, cause: StuckCause) -> bool {
    match rule {
        Rule::Unread => cause == StuckCause::Unread,
        Rule::UdpUnread | Rule::SocketDrops => cause == StuckCause::Unread,
        Rule::AcceptQueue => cause == StuckCause::NotAccepted,
        Rule::ZeroWindow => cause == StuckCause::PeerWindow,
        Rule::ConnectUnanswered => cause == StuckCause::Connecting,
        Rule::PeerSilent | Rule::SendStuck | Rule::MtuBlackHole => {
            matches!(cause, StuckCause::Unanswered | StuckCause::NotSent)
        }
        Rule::CannotSend | Rule::FirewallDrops | Rule::ReversePath => cause.is_about_the_way(),
        _ => false,
    }
}

/// Rules that say why data stand still, the first of two that name a socket first.
const RULES: [Rule; 12] = [
    Rule::CannotSend,
    Rule::FirewallDrops,
    Rule::ReversePath,
    Rule::MtuBlackHole,
    Rule::Unread,
    Rule::UdpUnread,
    Rule::SocketDrops,
    Rule::AcceptQueue,
    Rule::ZeroWindow,
    Rule::ConnectUnanswered,
    Rule::PeerSilent,
    Rule::SendStuck,
];
/// Thresholds: shorter than those of `check`, which looks once.
const LIMITS: [(Limit, u64); 6] = [
    (Limit::UnreadFor, 500),
    (Limit::ZeroWindowFor, 500),
    (Limit::SendStuckFor, 1_000),
    (Limit::PeerSilentRetransmissions, 2),
    (Limit::ConnectRetransmissions, 1),
    (Limit::MtuRetransmissions, 2),
];
/// Time between two samples, where the first is not that of the beginning.
const APART: Duration = Duration::from_millis(500);
/// Namespaces whose devices are compared.
const NAMESPACES_MAX: usize = 16;
