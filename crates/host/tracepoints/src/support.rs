//! What can be watched on this kernel, with these rights.

use crate::connections::{ConnectionOptions, ConnectionWatch, Protocols};
use crate::drops::{DropOptions, DropWatch};
use crate::path::{PathOptions, PathWatch, WRITES};
use sockeye_source::{BpfEngine, Ends, Families, Unavailable};
use sockeye_wire::connections::kind;
use sockeye_wire::drops::{INDEXES, Treatment};

/// What a command can watch.
#[derive(Debug)]
pub struct WatchSupport {
    /// The command.
    pub command: &'static str,
    /// How it watches, or why it cannot.
    pub mechanism: Result<String, Unavailable>,
    /// What this kernel does not show, although the rest works.
    pub missing: Vec<String>,
}

/// Loads the programs of each command, and attaches none.
#[must_use]
pub fn probe_watches(engine: &BpfEngine) -> Vec<WatchSupport> {
    vec![events(engine), drops(engine), path(engine)]
}

fn events(engine: &BpfEngine) -> WatchSupport {
    let options = ConnectionOptions {
        kinds: (kind::OPENED..=kind::UNSENT).collect(),
        ends: Ends::ANYWHERE,
        families: Families::BOTH,
        netns: None,
        ring_bytes: 0,
        pid_namespace: 0,
        readers: true,
        protocols: Protocols {
            tcp: true,
            udp: true,
            mptcp: true,
        },
        cpu_ppm_max: None,
    };
    let loaded = ConnectionWatch::load(engine, &options);
    let missing = loaded.as_ref().map_or_else(
        |_| Vec::new(),
        |watch| {
            let all = watch.missing().iter();
            all.map(|(event, error)| format!("{event}: {error}")).collect()
        },
    );
    WatchSupport {
        command: "events",
        mechanism: loaded.map(|watch| {
            format!(
                "{} BPF programs at tracepoints (tp_btf) and the root cgroup",
                watch.programs()
            )
        }),
        missing,
    }
}

fn drops(engine: &BpfEngine) -> WatchSupport {
    let options = DropOptions {
        treatments: &[Treatment::InTotals; INDEXES],
        packets: false,
        ring_bytes: 0,
        keys: 1,
        cpu_ppm_max: None,
        by_rule: false,
        pid_namespace: 0,
    };
    let loaded = DropWatch::load(engine, &options);
    let missing = loaded.as_ref().map_or_else(
        |_| Vec::new(),
        |watch| {
            let parts = [
                (watch.has_reasons(), "reasons: they came with Linux 5.17"),
                (
                    watch.has_receivers(),
                    "the socket that a packet was for: it came with Linux 6.11",
                ),
            ];
            let missing = parts.into_iter().filter(|(is_there, _)| !is_there);
            missing.map(|(_, part)| part.to_owned()).collect()
        },
    );
    WatchSupport {
        command: "drops",
        mechanism: loaded.map(|_| "BPF at the tracepoint kfree_skb (tp_btf)".to_owned()),
        missing,
    }
}

fn path(engine: &BpfEngine) -> WatchSupport {
    let options = PathOptions {
        ends: Ends::ANYWHERE,
        sample_every: 1,
        ring_bytes: 0,
        slots: 1,
        pid_namespace: 0,
        accepts: true,
    };
    let loaded = PathWatch::load(engine, &options);
    let missing = loaded.as_ref().map_or_else(
        |_| Vec::new(),
        |watch| {
            // Of writes there is a sentence below.
            let events = watch.missing().iter().filter(|(event, _)| *event != WRITES);
            let mut missing: Vec<String> = events.map(|(event, error)| format!("{event}: {error}")).collect();
            if !watch.has_reasons() {
                missing.push("reasons of drops: they came with Linux 5.17".to_owned());
            }
            if !watch.sees_writes() {
                missing.push("when a program writes to TCP: it came with Linux 6.13".to_owned());
            }
            missing
        },
    );
    WatchSupport {
        command: "path",
        mechanism: loaded.map(|watch| format!("{} BPF programs at tracepoints (tp_btf)", watch.programs())),
        missing,
    }
}
