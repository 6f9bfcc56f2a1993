//! Queues that a program should empty, and what the program is doing: datagrams that wait to be read, and
//! connections that wait to be accepted at a UNIX listener. A few that wait are no fault, unless the program is
//! stopped; `tcp_info`, which would show for how long they wait, exists for TCP only.

use crate::finding::{Example, Facts, Subject};
use crate::{Finding, Rule, Severity, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, NetnsInode, Pid, Process, ProcessState, Protocol, Queues, State};
use std::collections::{BTreeMap, HashMap};

/// Sockets with something in their queue, and the states of their owners.
#[derive(Debug, Default)]
pub(crate) struct WaitingQueues {
    all: Vec<Waiting>,
    states: HashMap<Pid, ProcessState, FixedState>,
}

#[derive(Debug)]
struct Waiting {
    rule: Rule,
    netns: Option<NetnsInode>,
    /// All processes that have the socket: each could empty its queue
    owners: Vec<Process>,
    example: Example,
    facts: Facts,
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
            self.add(entry, Rule::UdpUnread, facts, false);
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
            self.add(entry, Rule::AcceptQueue, facts, is_full);
        }
    }

    fn add(&mut self, entry: &Entry<'_>, rule: Rule, facts: Facts, is_full: bool) {
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
            is_full,
        });
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
            if !is_stopped && !queue.is_full {
                continue;
            }
            let owner = queue.owners.first().copied();
            if queue.rule == Rule::AcceptQueue {
                found.push(listener(queue, owner));
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

fn listener(queue: &Waiting, owner: Option<Process>) -> Finding {
    let subject = Subject::Listener(queue.example.local);
    let mut finding = Finding {
        owner,
        meaning: UNIX_FULL,
        facts: queue.facts,
        sockets: 1,
        examples: vec![queue.example],
        ..Finding::about(Rule::AcceptQueue, queue.netns, subject).with(Severity::Critical)
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
    finding.advice("let the program accept faster (more workers), or give listen() a longer backlog")
}

/// As many as may wait.
const UNIX_FULL: &str = "Connections wait to be accepted at a UNIX socket, as many as may wait: the program is too slow or stuck, and further clients wait or fail with EAGAIN.";
/// Queues that are kept.
const QUEUES_MAX: usize = 10_000;
/// Sockets that are shown.
const EXAMPLES_MAX: usize = 5;
