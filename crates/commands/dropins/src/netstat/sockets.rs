//! The listing of sockets: one table of the kernel after the other, in the original's order.

use super::args::Flags;
use super::groups;
use super::names::HostNames;
use super::page::{Page, text_form};
use super::programs::Programs;
use crate::output::netstat::{InetLayout, InetRow, Shown, UnixLayout, UnixRow};
use sockeye_console::notes;
use sockeye_model::{Endpoint, Family, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_source::{
    BpfEngine, Choice, Detail, Ends, Error, Families, NetnsScope, Query, QueryOutcome, list,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::process::ExitCode;

pub(super) fn run(flags: &Flags, page: &mut Page) -> anyhow::Result<ExitCode> {
    let mut listing = Listing::new(flags);
    loop {
        let outcome = listing.round(page);
        page.flush()?;
        match outcome? {
            Ok(()) if flags.continuous => {}
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(Missing) => return Ok(ExitCode::FAILURE),
        }
        if !page.rest()? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Something was asked for by name that this kernel has not got: that ends it.
struct Missing;

struct Listing<'a> {
    flags: &'a Flags,
    engine: BpfEngine,
    names: HostNames,
    programs: Programs,
    layout: InetLayout,
    /// Rows of IPv6 that came before all of IPv4 were out.
    held: Vec<u8>,
}

/// A protocol, what its two tables are called, and the name under which the original misses it.
#[derive(Clone, Copy)]
struct Table {
    protocol: Protocol,
    names: [&'static str; 2],
    what: &'static str,
}

const TCP: Table = Table {
    protocol: Protocol::Tcp,
    names: ["tcp", "tcp6"],
    what: "AF INET (tcp)",
};
const UDP: Table = Table {
    protocol: Protocol::Udp,
    names: ["udp", "udp6"],
    what: "AF INET (udp)",
};
const UDPLITE: Table = Table {
    protocol: Protocol::UdpLite,
    names: ["udpl", "udpl6"],
    what: "AF INET (udplite)",
};
const RAW: Table = Table {
    protocol: Protocol::Raw,
    names: ["raw", "raw6"],
    what: "AF INET (raw)",
};

impl<'a> Listing<'a> {
    fn new(flags: &'a Flags) -> Self {
        let shown = match (flags.all, flags.listening) {
            (true, _) => Shown::All,
            (false, true) => Shown::Listening,
            (false, false) => Shown::Connected,
        };
        Self {
            flags,
            engine: BpfEngine::default(),
            names: HostNames::new(flags),
            programs: Programs::default(),
            layout: InetLayout {
                shown,
                extended: flags.extended > 1,
                programs: flags.programs,
                timers: flags.timers,
                wide: flags.wide,
                numeric_hosts: flags.numeric_hosts,
                text: text_form(),
            },
            // Of it only what is written to takes memory; growing would copy it.
            held: Vec::with_capacity(HELD_MAX + 1024),
        }
    }

    /// All that was asked for, once.
    fn round(&mut self, page: &mut Page) -> anyhow::Result<Result<(), Missing>> {
        let flags = self.flags;
        let everything = !flags.names_some();
        let families = &flags.families;
        if flags.programs && (everything || flags.names_protocol() || families.unix) {
            // First of all: a socket opened after this has no program, one closed after this is not listed.
            self.programs = Programs::find(&self.engine, flags.source);
        }
        if everything || flags.names_protocol() {
            self.layout.push_header(&mut page.text);
        }
        let tables = [
            (flags.tcp, TCP),
            (flags.udp, UDP),
            (flags.udplite, UDPLITE),
            (flags.raw, RAW),
        ];
        for (is_wanted, table) in tables {
            if (everything || is_wanted) && self.inet(page, table)?.is_err() {
                return Ok(Err(Missing));
            }
            let is_tcp = table.protocol == Protocol::Tcp;
            if is_tcp && (everything || flags.sctp) && self.sctp().is_err() {
                return Ok(Err(Missing));
            }
        }
        if flags.groups {
            groups::push(flags, &self.names, page)?;
        }
        if everything || families.unix {
            self.unix(page)?;
        }
        let others = [
            (families.ipx, "AF IPX"),
            (families.ax25, "AF AX25"),
            (families.x25, "AF X25"),
            (families.netrom, "AF NETROM"),
            (families.rose, "AF ROSE"),
        ];
        for (is_wanted, what) in others {
            if is_wanted || (everything && flags.verbose) {
                notes::say(&format!("netstat: no support for `{what}' on this system.\n"));
            }
            if is_wanted {
                return Ok(Err(Missing));
            }
        }
        if flags.l2cap || flags.rfcomm {
            notes::say(
                "netstat: feature `AF BLUETOOTH' not supported.\n\
                 Please recompile `net-tools' with newer kernel source or full configuration.\n",
            );
            return Ok(Err(Missing));
        }
        Ok(Ok(()))
    }

    /// What is said where this kernel lacks a protocol, and whether that ends it.
    fn missing(&self, what: &str) -> Result<(), Missing> {
        let flags = self.flags;
        if flags.no_protocol {
            return Ok(());
        }
        let is_named = flags.names_some();
        if is_named || flags.verbose {
            notes::say(&format!("netstat: no support for `{what}' on this system.\n"));
        }
        if is_named { Err(Missing) } else { Ok(()) }
    }

    /// The original reads two files of SCTP for `-a`, else one; that of IPv4 is missed.
    fn sctp(&self) -> Result<(), Missing> {
        let flags = self.flags;
        if flags.names_some() && !flags.families.inet {
            return Ok(());
        }
        if std::path::Path::new("/proc/net/sctp").exists() {
            if !flags.no_protocol {
                notes::say("netstat: SCTP sockets are not listed by sockeye yet\n");
            }
            return Ok(());
        }
        let times = if flags.all && !flags.names_some() { 2 } else { 1 };
        (0..times).try_for_each(|_| self.missing("AF INET (sctp)"))
    }

    /// Both families of a protocol.
    fn inet(&mut self, page: &mut Page, table: Table) -> anyhow::Result<Result<(), Missing>> {
        let everything = !self.flags.names_some();
        let v4 = everything || self.flags.families.inet;
        let v6 = everything || self.flags.families.inet6;
        if !self.flags.numeric_hosts {
            self.seek_hosts(table, Families { v4, v6 })?;
        }
        // One dump or walk tells both families, mixed; other sources tell one after the other.
        let is_mixed =
            self.flags.source != Choice::Procfs && matches!(table.protocol, Protocol::Tcp | Protocol::Udp);
        let asked: &[Families] = match (v4, v6) {
            (true, true) if is_mixed => &[Families::BOTH],
            (true, true) => &[V4, V6],
            (true, false) => &[V4],
            (false, true) => &[V6],
            (false, false) => &[],
        };
        let states = self.states(table.protocol);
        let embryos = StateSet::EMPTY.with(State::SynRecv);
        for &families in asked {
            let passed = self.pass(page, table, self.query(table, families, states))?;
            if !passed.is_there && families.v4 {
                return Ok(self.missing(table.what));
            }
            if passed.has_embryos && families.v4 {
                self.pass(page, table, by_procfs(self.query(table, V4, embryos)))?;
            }
            if passed.is_too_long {
                self.pass(page, table, self.query(table, V6, states))?;
            }
            page.text.append(&mut self.held);
            if passed.has_embryos && families.v6 {
                self.pass(page, table, by_procfs(self.query(table, V6, embryos)))?;
            }
        }
        Ok(Ok(()))
    }

    /// One listing, printed as it comes.
    fn pass(&mut self, page: &mut Page, table: Table, query: Query<'_>) -> anyhow::Result<Passed> {
        let mut rows = Rows {
            layout: &self.layout,
            names: &self.names,
            programs: &mut self.programs,
            table,
            is_mixed: query.families == Families::BOTH,
            needs_procfs: query.choice != Choice::Procfs && (self.layout.timers || self.layout.extended),
            page,
            held: &mut self.held,
            passed: Passed {
                is_there: true,
                ..Passed::default()
            },
            written: Ok(()),
        };
        let outcome = list(&self.engine, &query, &mut |socket, _| rows.take(socket));
        let Rows {
            mut passed, written, ..
        } = rows;
        written?;
        match outcome {
            Ok(outcome) => {
                passed.is_there = outcome.used.iter().all(|used| used.source.is_some());
                report(&outcome);
            }
            // A kernel without IPv6; the original is silent about that too.
            Err(Error::NoSource(_)) if query.families == V6 => passed.is_there = false,
            Err(error) => return Err(error.into()),
        }
        Ok(passed)
    }

    /// Has the names of all hosts looked for that the table will show.
    fn seek_hosts(&self, table: Table, families: Families) -> anyhow::Result<()> {
        let mut hosts = HashSet::new();
        let query = Query {
            detail: Detail::default(),
            ..self.query(table, families, self.states(table.protocol))
        };
        let listed = list(&self.engine, &query, &mut |socket, _| {
            if is_shown(self.layout.shown, socket) {
                let ends = [&socket.local, &socket.peer];
                hosts.extend(ends.into_iter().filter_map(Endpoint::ip));
            }
            ControlFlow::Continue(())
        });
        match listed {
            // What it lost the listing itself will tell.
            Ok(_) | Err(Error::NoSource(_)) => self.names.seek(hosts),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// `/proc/net/unix` is read whatever the source: only there the kernel tells RefCnt, and states as that file
    /// names them.
    fn unix(&mut self, page: &mut Page) -> anyhow::Result<()> {
        let layout = UnixLayout {
            shown: self.layout.shown,
            programs: self.layout.programs,
            text: self.layout.text,
        };
        layout.push_header(&mut page.text);
        let query = by_procfs(Query {
            protocols: ProtocolSet::UNIX,
            ..self.query(TCP, Families::BOTH, StateSet::ALL)
        });
        let mut written = Ok(());
        let programs = &mut self.programs;
        let outcome = list(&self.engine, &query, &mut |socket, _| {
            let is_wanted = match layout.shown {
                Shown::All => true,
                Shown::Listening => socket.state == State::Listen,
                Shown::Connected => socket.state != State::Listen,
            };
            if !is_wanted {
                return ControlFlow::Continue(());
            }
            let program = if layout.programs {
                programs.of(socket.inode)
            } else {
                &[]
            };
            layout.push_row(&mut page.text, &UnixRow { socket, program });
            written = page.turn();
            if written.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        written?;
        report(&outcome?);
        Ok(())
    }

    fn query(&self, table: Table, families: Families, states: StateSet) -> Query<'static> {
        let layout = &self.layout;
        let choice = match self.flags.source {
            // There is a walk over the tables of two protocols.
            Choice::Bpf if !matches!(table.protocol, Protocol::Tcp | Protocol::Udp) => Choice::Auto,
            choice => choice,
        };
        Query {
            protocols: ProtocolSet::of(&[table.protocol]),
            families,
            states,
            detail: Detail::QUEUES
                | Detail::TIMER.when(layout.timers)
                | Detail::INODE.when(layout.extended || layout.programs)
                | Detail::USER.when(layout.extended)
                // A timer alone has only one of two counts.
                | Detail::TCP_INFO.when(layout.timers && table.protocol == Protocol::Tcp),
            program: &[],
            ends: Ends::ANYWHERE,
            choice,
            scope: NetnsScope::Own,
        }
    }

    /// Nothing that is merely bound: `/proc/net/tcp` does not tell of it.
    fn states(&self, protocol: Protocol) -> StateSet {
        if protocol != Protocol::Tcp {
            return StateSet::ALL;
        }
        match self.layout.shown {
            Shown::All => StateSet::ALL.without(State::BoundInactive),
            Shown::Listening => StateSet::EMPTY.with(State::Listen),
            Shown::Connected => StateSet::ALL.without(State::BoundInactive).without(State::Listen),
        }
    }
}

/// How a listing went.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    /// The kernel has such sockets.
    is_there: bool,
    /// Connections in SYN_RECV were left out, for `/proc/net/tcp` to tell of them: netlink knows neither their
    /// user, which is their listener's, nor how often their timer ran off (`num_timeout`).
    has_embryos: bool,
    /// Rows of IPv6 were left out, for there were too many to be kept.
    is_too_long: bool,
}

/// NetnsScope sockets become rows.
struct Rows<'a> {
    layout: &'a InetLayout,
    names: &'a HostNames,
    programs: &'a mut Programs,
    table: Table,
    is_mixed: bool,
    needs_procfs: bool,
    page: &'a mut Page,
    held: &'a mut Vec<u8>,
    passed: Passed,
    written: anyhow::Result<()>,
}

impl Rows<'_> {
    fn take(&mut self, socket: &Socket) -> ControlFlow<()> {
        if !is_shown(self.layout.shown, socket) {
            return ControlFlow::Continue(());
        }
        let is_tcp = socket.protocol == Protocol::Tcp;
        if self.needs_procfs && is_tcp && matches!(socket.state, State::SynRecv | State::NewSynRecv) {
            self.passed.has_embryos = true;
            return ControlFlow::Continue(());
        }
        let is_v6 = socket.family == Family::Inet6;
        let waits = is_v6 && self.is_mixed;
        if waits && self.passed.is_too_long {
            return ControlFlow::Continue(());
        }
        let program = if self.layout.programs {
            self.programs.of(socket.inode)
        } else {
            &[]
        };
        let row = InetRow {
            protocol: self.table.names[usize::from(is_v6)],
            socket,
            program,
        };
        if waits {
            self.layout.push_row(self.held, &row, self.names);
            if self.held.len() > HELD_MAX {
                self.held.clear();
                self.passed.is_too_long = true;
            }
            return ControlFlow::Continue(());
        }
        self.layout.push_row(&mut self.page.text, &row, self.names);
        self.written = self.page.turn();
        if self.written.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// The original goes by ports of TCP, and by addresses of all else.
fn is_shown(shown: Shown, socket: &Socket) -> bool {
    let has_peer = match socket.protocol {
        Protocol::Tcp => socket.peer.port().is_some_and(|port| port.0 != 0),
        _ => socket.peer.ip().is_some_and(|ip| !ip.is_unspecified()),
    };
    match shown {
        Shown::All => true,
        Shown::Listening => !has_peer,
        Shown::Connected => has_peer,
    }
}

fn by_procfs(query: Query<'_>) -> Query<'_> {
    Query {
        choice: Choice::Procfs,
        ..query
    }
}

/// What could not be seen.
fn report(answer: &QueryOutcome) {
    sockeye_query::notes::sources(&answer.used, false);
    sockeye_query::notes::losses(&answer.losses, false, false);
}

const V4: Families = Families { v4: true, v6: false };
const V6: Families = Families { v4: false, v6: true };

/// So many bytes of rows wait until those of IPv4 are out; for more the kernel is asked once more.
const HELD_MAX: usize = 1024 * 1024;
