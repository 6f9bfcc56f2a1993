//! Two recorders of the same sockets: one reads all of them in each sample, the other leaves out those without anything new. Both write the
//! same.
#![allow(clippy::unwrap_used, reason = "a surprise fails the test")]

use super::*;
use crate::listing_args::listing_args;
use crate::record::clocks;
use sockeye_console::envelope;
use sockeye_history::{SampleClocks, Values};
use sockeye_lab::{Lab, need};
use sockeye_query::args::SourceArg;
use sockeye_query::context::QueryContext;
use sockeye_source::BpfEngine;
use sockeye_store::{By, Limits, Lost, Run, StoreReader, StoreWriter};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// With fewer sockets they are dumped by netlink.
const CONNECTIONS: usize = 4_200;

/// Longer than the kernel delays an ACK, and than the margin of a walk.
const QUIET: Duration = Duration::from_millis(500);

/// Samples come earlier: they are no gap.
const INTERVAL_MS: u64 = 10_000;

struct Recorder<'a> {
    listing: &'a Listing<'a>,
    sampler: Sampler<'a>,
    store: StoreWriter,
    path: PathBuf,
    reads_all: bool,
}

impl<'a> Recorder<'a> {
    fn new(listing: &'a Listing<'a>, folder: &Path, reads_all: bool) -> Self {
        let path = folder.join(if reads_all { "all.db" } else { "quiet.db" });
        let run = Run {
            host: None,
            version: "0",
            interval_ms: INTERVAL_MS,
        };
        let limits = Limits {
            max_bytes: 64 << 20,
            max_age: None,
        };
        Self {
            listing,
            sampler: Sampler::new(listing),
            store: StoreWriter::open(&path, limits, run).unwrap(),
            path,
            reads_all,
        }
    }

    /// Takes the sample of this time. Returns how many connections were not read.
    fn take(&mut self, clocks: SampleClocks) -> usize {
        if self.reads_all {
            self.sampler.began = None;
        }
        let at_ms = clocks.at_ms;
        let mut report = self.listing.begin();
        let mut sample = self.store.begin(clocks).unwrap();
        let sampled = self
            .sampler
            .sample(at_ms, &mut report, None, &mut sample)
            .unwrap();
        // Other processes of the host end as they like.
        report.losses.vanished_processes = 0;
        assert_eq!(report.losses, sockeye_model::Losses::default());
        sample.finish(Lost::default()).unwrap();
        sampled.unchanged
    }

    /// Returns the sockets of the last sample by their cookies.
    fn last(&self) -> BTreeMap<Cookie, (Identity, Values)> {
        let moment = StoreReader::open(&self.path).unwrap().last().unwrap().unwrap();
        let all = moment.sockets.sockets();
        all.map(|(identity, values)| (identity.cookie.unwrap(), (identity.clone(), *values)))
            .collect()
    }

    fn top(&self) -> Vec<(Option<String>, sockeye_history::Sums)> {
        let reader = StoreReader::open(&self.path).unwrap();
        let all = reader
            .top((0, u64::from(u32::MAX) * 1000), By::Port, 1_000)
            .unwrap();
        all.talkers.into_iter().map(|one| (one.name, one.sums)).collect()
    }
}

/// Takes a sample with both. Returns how many connections the first did not read; the other reads all.
fn take([quiet, all]: &mut [Recorder<'_>; 2]) -> usize {
    let clocks = clocks::read(&envelope::now());
    let unchanged = quiet.take(clocks.clone());
    assert_eq!(all.take(clocks), 0);
    unchanged
}

/// What both recorders have of the last sample.
#[track_caller]
fn assert_same([quiet, all]: &[Recorder<'_>; 2]) {
    let (quiet_last, all_last) = (quiet.last(), all.last());
    assert_eq!(quiet_last.len(), all_last.len());
    for (cookie, (identity, values)) in &all_last {
        let (found, found_values) = &quiet_last[cookie];
        assert_eq!(found, identity);
        for column in &Values::COLUMNS {
            let [one, other] = [found_values, values].map(|values| values.number(column.name));
            // Ages are read at slightly different times.
            let is_time = column.name.ends_with("_at_s");
            let is_near = one
                .zip(other)
                .is_some_and(|(one, other)| one.abs_diff(other) <= 2);
            assert!(
                one == other || (is_time && is_near),
                "{}: {one:?} {other:?} {identity:?}",
                column.name
            );
        }
    }
    assert_eq!(quiet.top(), all.top());
}

/// A process, ended when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(listener: &TcpListener) -> [TcpStream; 2] {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [client, listener.accept().unwrap().0]
}

/// Calls `act` with a recorder that leaves out what is quiet, and one that reads all, and with a listener.
fn with_recorders(
    name: &str,
    owners: fn() -> RememberedOwners,
    act: fn(&mut [Recorder<'_>; 2], &TcpListener, &mut Vec<[TcpStream; 2]>),
) {
    let lab = need!(Lab::new(name));
    let namespace = lab.namespace("a");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let ran = namespace.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all: Vec<_> = (0..CONNECTIONS).map(|_| connect(&listener)).collect();
        let args = listing_args(None, SourceArg::Auto, BpfEngine::TYPES.into());
        let context = QueryContext::new(&args, false, true).unwrap();
        let mut listing = Listing::new(&args, &[], None, &context).unwrap();
        listing.require_workloads(&WorkloadKind::ALL);
        let folder = std::env::temp_dir().join(format!("sockeye-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let mut recorders = [false, true].map(|reads_all| Recorder::new(&listing, &folder, reads_all));
        recorders[0].sampler.owners = owners();
        thread::sleep(QUIET);
        // The first listing is a dump, which makes the cookies; the second one is the first walk.
        for _ in 0..2 {
            take(&mut recorders);
        }
        let is_walked = recorders[0].sampler.began.is_some();
        if is_walked {
            act(&mut recorders, &listener, &mut all);
        }
        std::fs::remove_dir_all(&folder).unwrap();
        is_walked
    });
    if !ran {
        sockeye_lab::Skip::new("no walk over the kernel's tables here".to_owned()).print();
    }
}

#[test]
fn what_is_not_read_again_is_recorded_as_it_is() {
    with_recorders(
        "recorded_quiet",
        RememberedOwners::default,
        |recorders, listener, all| {
            let mut waiting = Some(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let mut bytes = [0; 100];
            for number in 2..9 {
                match number {
                    2 => {}
                    // Data that is read, and data that waits.
                    3 => {
                        for [client, server] in &mut all[..500] {
                            client.write_all(b"question").unwrap();
                            server.read_exact(&mut bytes[..8]).unwrap();
                        }
                        for [client, _] in &mut all[500..600] {
                            client.write_all(b"unread").unwrap();
                        }
                    }
                    // It is read without a segment.
                    4 => {
                        for [_, server] in &mut all[500..550] {
                            server.read_exact(&mut bytes[..6]).unwrap();
                        }
                    }
                    // Some are closed, others come, one was accepted.
                    5 => {
                        all.truncate(CONNECTIONS - 50);
                        all.extend((0..30).map(|_| connect(listener)));
                    }
                    6 => all.push([waiting.take().unwrap(), listener.accept().unwrap().0]),
                    7 => drop(all.drain(..100)),
                    _ => {}
                }
                thread::sleep(QUIET);
                let unchanged = take(recorders);
                // At most 600 connections are active.
                assert!(unchanged > CONNECTIONS, "{unchanged}");
                assert_same(recorders);
            }
        },
    );
}

#[test]
fn owner_that_changes_is_recorded() {
    let always = || RememberedOwners::searched_every(Duration::ZERO);
    with_recorders("recorded_owners", always, |recorders, _, all| {
        let inherited = &all[7][0];
        thread::sleep(QUIET);
        take(recorders);
        assert_same(recorders);
        rustix::io::fcntl_setfd(inherited, rustix::io::FdFlags::empty()).unwrap();
        let child = Process(Command::new("sleep").arg("60").spawn().unwrap());
        rustix::io::fcntl_setfd(inherited, rustix::io::FdFlags::CLOEXEC).unwrap();
        // The child has become another program.
        let comm = format!("/proc/{}/comm", child.0.id());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            thread::sleep(Duration::from_millis(10));
        }
        take(recorders);
        assert_same(recorders);
        let both = |recorder: &Recorder<'_>| {
            let all = recorder.last().into_values();
            all.filter(|(identity, _)| identity.owners.as_ref().is_some_and(|owners| owners.len() == 2))
                .count()
        };
        assert_eq!([both(&recorders[0]), both(&recorders[1])], [1, 1]);
        drop(child);
        take(recorders);
        assert_same(recorders);
        assert_eq!(both(&recorders[0]), 0);
    });
}
