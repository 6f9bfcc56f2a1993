//! Queues that a program should empty, and what the program is doing: datagrams that wait to be read, and
//! connections that wait to be accepted at a UNIX listener. A few that wait are no fault, unless the program is
//! stopped, or the first is the same in two looks; `tcp_info`, which would show for how long they wait, exists for TCP
//! only.

use crate::finding::{Example, Facts, Subject};
use crate::{Finding, Rule, Severity, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, Inode, NetnsInode, Pid, Process, ProcessState, Protocol, Queues, State};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Sockets with something in their queue, and the states of their owners.
#[derive(Debug, Default)]
pub(crate) struct WaitingQueues {
    all: Vec<Waiting>,
    states: HashMap<Pid, ProcessState, FixedState>,
    /// The first connection in the queue of each UNIX listener
    firsts: UnixQueues,
    /// Listeners whose first connection was the same in two looks, and the time between these
    stalled: HashMap<(Option<NetnsInode>, Inode), Duration, FixedState>,
}

/// The first connection in the queue of UNIX listeners, by the inode of the client.
pub(crate) type UnixQueues = HashMap<(Option<NetnsInode>, Inode), u32, FixedState>;

#[derive(Debug)]
struct Waiting {
    rule: Rule,
    netns: Option<NetnsInode>,
    /// All processes that have the socket: each could empty its queue
    owners: Vec<Process>,
    example: Example,
    facts: Facts,
    waiting: u64,
    is_full: bool,
}

impl WaitingQueues {
    /// Adds a UDP socket with unread datagrams.
    pub(crate) fn datagrams(&mut self, entry: &Entry<'_>) {
        let Queues::Data { receive_bytes, .. } = entry.socket.queues else {
            return;
        };
        if receive_bytes > 0 {
            let memory = entry.socket.memory.unwrap_or_default();
            let facts = Facts::NONE
                .with("recvq_bytes", receive_bytes)
                .with("rcvbuf_bytes", memory.rcvbuf_bytes);
            self.add(entry, Rule::UdpUnread, facts, 0, false);
        }
    }

    /// Adds a UNIX listener with connections that wait to be accepted.
    pub(crate) fn unix_listener(&mut self, entry: &Entry<'_>) {
        let socket = entry.socket;
        let (Queues::Accept { waiting, backlog }, State::Listen) = (socket.queues, socket.state) else {
            return;
        };
        if waiting > 0 {
            // The kernel lets one more than the backlog wait (`unix_recvq_full()`).
            let is_full = backlog.is_some_and(|backlog| waiting > backlog);
            let facts = Facts::NONE.with("waiting", waiting).with("backlog", backlog);
            self.add(entry, Rule::AcceptQueue, facts, waiting.into(), is_full);
        }
    }

    fn add(&mut self, entry: &Entry<'_>, rule: Rule, facts: Facts, waiting: u64, is_full: bool) {
        if self.all.len() >= QUEUES_MAX {
            return;
        }
        let owners = entry.owners.unwrap_or_default().iter();
        let mut owners: Vec<Process> = owners.map(|owner| owner.process).collect();
        owners.dedup_by_key(|process| process.pid);
        self.all.push(Waiting {
            rule,
            netns: entry.socket.netns,
            owners,
            example: Example::new(entry.socket, facts),
            facts,
            waiting,
            is_full,
        });
    }

    /// Network namespaces in which connections wait at a UNIX listener.
    pub(crate) fn unix_namespaces(&self) -> BTreeSet<Option<NetnsInode>> {
        let queues = self.all.iter().filter(|queue| queue.waiting > 0);
        queues.map(|queue| queue.netns).collect()
    }

    /// Adds which connections wait at the UNIX listeners of a namespace.
    pub(crate) fn set_queues(&mut self, netns: Option<NetnsInode>, queues: &[(Inode, Vec<u32>)]) {
        for (listener, clients) in queues {
            // The inode of a client that is gone is 0.
            if let Some(first) = clients.first().filter(|first| **first != 0) {
                self.firsts.insert((netns, *listener), *first);
            }
        }
    }

    /// Compares with the queues at another look, `apart` from this one.
    pub(crate) fn compare_queues(&mut self, other: &UnixQueues, apart: Duration) {
        let same = self
            .firsts
            .iter()
            .filter(|(place, first)| apart >= UNIX_PATIENCE && other.get(place) == Some(first));
        self.stalled.extend(same.map(|(place, _)| (*place, apart)));
    }

    /// Whether another look would show that nothing is accepted.
    pub(crate) fn needs_other_look(&self) -> bool {
        !self.firsts.is_empty()
    }

    pub(crate) fn into_firsts(self) -> UnixQueues {
        self.firsts
    }

    /// The processes whose state is evidence.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Pid> {
        let all = self.all.iter().flat_map(|queue| &queue.owners);
        all.map(|process| process.pid)
    }

    pub(crate) fn set_state(&mut self, pid: Pid, state: ProcessState) {
        self.states.insert(pid, state);
    }

    /// Whether all owners are stopped: nothing will be taken from the queue.
    fn is_stopped(&self, queue: &Waiting) -> bool {
        let state = |process: &Process| self.states.get(&process.pid);
        !queue.owners.is_empty()
            && queue
                .owners
                .iter()
                .all(|process| state(process).is_some_and(ProcessState::is_stopped))
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut unread: BTreeMap<(Option<NetnsInode>, Pid), Finding> = BTreeMap::new();
        for queue in &self.all {
            let is_stopped = self.is_stopped(queue);
            let stalled = queue
                .example
                .inode
                .and_then(|inode| self.stalled.get(&(queue.netns, inode)));
            if !is_stopped && !queue.is_full && stalled.is_none() {
                continue;
            }
            let owner = queue.owners.first().copied();
            if queue.rule == Rule::AcceptQueue {
                let is_stuck = !is_stopped && !queue.is_full;
                found.push(listener(queue, owner, stalled.copied().filter(|_| is_stuck)));
                continue;
            }
            // `is_stopped` has shown that there is an owner.
            let Some(owner) = owner else { continue };
            let finding = unread.entry((queue.netns, owner.pid)).or_insert_with(|| Finding {
                owner: Some(owner),
                ..Finding::about(Rule::UdpUnread, queue.netns, Subject::Sockets)
            });
            finding.sockets += 1;
            if finding.examples.len() < EXAMPLES_MAX {
                finding.examples.push(queue.example);
            }
        }
        found.extend(unread.into_values().map(|mut finding| {
            finding.remedies = remedy::remedies(&finding);
            finding
        }));
        found
    }
}

/// `stalled`: the first connection is the same after this time.
fn listener(queue: &Waiting, owner: Option<Process>, stalled: Option<Duration>) -> Finding {
    let stalled_ms = stalled.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let subject = Subject::Listener(queue.example.local);
    let mut finding = Finding {
        owner,
        meaning: if stalled.is_some() {
            UNIX_STALLED
        } else {
            UNIX_FULL
        },
        facts: queue.facts.with("longest_wait_ms", stalled_ms),
        sockets: 1,
        examples: vec![queue.example],
        ..Finding::about(Rule::AcceptQueue, queue.netns, subject).with(if stalled.is_some() {
            Severity::Warning
        } else {
            Severity::Critical
        })
    };
    let kind = match queue.example.protocol {
        Protocol::UnixSeqpacket => "u_seq",
        _ => "u_str",
    };
    finding = finding.sockeye(format!("sockets -xlp 'netid = {kind}'"));
    if let Some(owner) = owner {
        finding = finding.anywhere(format!(
            "grep . /proc/{0}/task/*/wchan; cat /proc/{0}/stack",
            owner.pid
        ));
    }
    finding.advice(if stalled.is_some() {
        "see what the program waits for, or restart it"
    } else {
        "let the program accept faster (more workers), or give listen() a longer backlog"
    })
}

/// As many as may wait.
const UNIX_FULL: &str = "Connections wait to be accepted at a UNIX socket, as many as may wait: the program is too slow or stuck, and further clients wait or fail with EAGAIN.";
const UNIX_STALLED: &str = "The program accepted nothing between two looks: the same connection is first in the queue of its UNIX socket. It is stopped, stuck, or busy with something else.";
/// A program may be busy with one request for as long.
pub(crate) const UNIX_PATIENCE: Duration = Duration::from_secs(2);
/// Queues that are kept.
const QUEUES_MAX: usize = 10_000;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
