//! Lists sockets: one table of the kernel after the other, in the original's order.

use super::buffered_stdout::{BufferedStdout, text_form};
use super::groups;
use super::names::HostNames;
use super::options::Flags;
use super::programs::{ProgramNames, Programs};
use crate::output::netstat::{InetLayout, InetRow, Shown, UnixLayout, UnixRow};
use sockeye_console::notes;
use sockeye_model::{Endpoint, Family, Protocol, ProtocolSet, Socket, State, StateSet};
use sockeye_source::owners::Owners;
use sockeye_source::{
    Announce, BpfEngine, Choice, Detail, Ends, Error, Families, NetnsScope, Query, QueryOutcome, list,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// Prints the selected sockets; with `-c` every second.
pub(super) fn run(flags: &Flags, out: &mut BufferedStdout) -> anyhow::Result<ExitCode> {
    let mut listing = Listing::new(flags);
    loop {
        let outcome = listing.round(out);
        out.flush()?;
        match outcome? {
            Ok(()) if flags.continuous => {}
            Ok(()) => return Ok(ExitCode::SUCCESS),
            Err(Unsupported) => return Ok(ExitCode::FAILURE),
        }
        if !out.flush_and_pause()? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The kernel lacks a protocol that was selected by name. This ends the program.
struct Unsupported;

struct Listing<'a> {
    flags: &'a Flags,
    engine: BpfEngine,
    names: HostNames,
    programs: Programs,
    layout: InetLayout,
    /// Rows of IPv6 that wait until all rows of IPv4 are written.
    ipv6_rows: Vec<u8>,
}

/// The tables of a protocol.
#[derive(Clone, Copy)]
struct Table {
    protocol: Protocol,
    /// Names in the column Proto, for IPv4 and IPv6.
    names: [&'static str; 2],
    /// Name in the original's error messages.
    what: &'static str,
}

const TCP: Table = table(Protocol::Tcp, ["tcp", "tcp6"], "AF INET (tcp)");
const UDP: Table = table(Protocol::Udp, ["udp", "udp6"], "AF INET (udp)");
const UDPLITE: Table = table(Protocol::UdpLite, ["udpl", "udpl6"], "AF INET (udplite)");
const RAW: Table = table(Protocol::Raw, ["raw", "raw6"], "AF INET (raw)");

const fn table(protocol: Protocol, names: [&'static str; 2], what: &'static str) -> Table {
    Table {
        protocol,
        names,
        what,
    }
}

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
            // Reserved pages cost no memory until they are written to; growing would copy the rows.
            ipv6_rows: Vec::with_capacity(IPV6_ROWS_MAX_BYTES + 1024),
        }
    }

    /// Prints all selected tables once.
    fn round(&mut self, out: &mut BufferedStdout) -> anyhow::Result<Result<(), Unsupported>> {
        let flags = self.flags;
        let shows_all = !flags.selects_sockets();
        let families = &flags.families;
        if flags.programs && (shows_all || flags.selects_protocol() || families.unix) {
            // Owners come first: a socket opened later has no program, one closed later is not listed.
            self.programs = Programs::find(&self.engine, flags.source);
        }
        if shows_all || flags.selects_protocol() {
            self.layout.push_header(&mut out.text);
        }
        let tables = [
            (flags.tcp, TCP),
            (flags.udp, UDP),
            (flags.udplite, UDPLITE),
            (flags.raw, RAW),
        ];
        for (is_selected, table) in tables {
            if (shows_all || is_selected) && self.inet(out, table)?.is_err() {
                return Ok(Err(Unsupported));
            }
            let is_tcp = table.protocol == Protocol::Tcp;
            if is_tcp && (shows_all || flags.sctp) && self.sctp().is_err() {
                return Ok(Err(Unsupported));
            }
        }
        if flags.groups {
            groups::push(flags, &self.names, out)?;
        }
        if shows_all || families.unix {
            self.unix(out)?;
        }
        let others = [
            (families.ipx, "AF IPX"),
            (families.ax25, "AF AX25"),
            (families.x25, "AF X25"),
            (families.netrom, "AF NETROM"),
            (families.rose, "AF ROSE"),
        ];
        for (is_selected, what) in others {
            if is_selected || (shows_all && flags.verbose) {
                notes::say(&format!("netstat: no support for `{what}' on this system.\n"));
            }
            if is_selected {
                return Ok(Err(Unsupported));
            }
        }
        if flags.l2cap || flags.rfcomm {
            notes::say(
                "netstat: feature `AF BLUETOOTH' not supported.\n\
                 Please recompile `net-tools' with newer kernel source or full configuration.\n",
            );
            return Ok(Err(Unsupported));
        }
        Ok(Ok(()))
    }

    /// Prints the original's message about a protocol that the kernel lacks. An error if the protocol was selected by name.
    fn report_unsupported(&self, what: &str) -> Result<(), Unsupported> {
        let flags = self.flags;
        if flags.no_protocol {
            return Ok(());
        }
        let is_named = flags.selects_sockets();
        if is_named || flags.verbose {
            notes::say(&format!("netstat: no support for `{what}' on this system.\n"));
        }
        if is_named { Err(Unsupported) } else { Ok(()) }
    }

    /// SCTP, of which nothing is listed. The original reads two files of it for `-a`, else one, and reports each that is
    /// missing.
    fn sctp(&self) -> Result<(), Unsupported> {
        let flags = self.flags;
        if flags.selects_sockets() && !flags.families.inet {
            return Ok(());
        }
        if std::path::Path::new("/proc/net/sctp").exists() {
            if !flags.no_protocol {
                notes::say("netstat: SCTP sockets are not listed by sockeye yet\n");
            }
            return Ok(());
        }
        let times = if flags.all && !flags.selects_sockets() {
            2
        } else {
            1
        };
        (0..times).try_for_each(|_| self.report_unsupported("AF INET (sctp)"))
    }

    /// Lists a protocol: IPv4, then IPv6.
    fn inet(&mut self, out: &mut BufferedStdout, table: Table) -> anyhow::Result<Result<(), Unsupported>> {
        let shows_all = !self.flags.selects_sockets();
        let v4 = shows_all || self.flags.families.inet;
        let v6 = shows_all || self.flags.families.inet6;
        if !self.flags.numeric_hosts {
            self.resolve_hosts(table, Families { v4, v6 })?;
        }
        // A dump or walk reports both families mixed; other sources report one after the other.
        let is_mixed =
            self.flags.source != Choice::Procfs && matches!(table.protocol, Protocol::Tcp | Protocol::Udp);
        let queries: &[Families] = match (v4, v6) {
            (true, true) if is_mixed => &[Families::BOTH],
            (true, true) => &[V4, V6],
            (true, false) => &[V4],
            (false, true) => &[V6],
            (false, false) => &[],
        };
        let states = self.states(table.protocol);
        let syn_recv = StateSet::EMPTY.with(State::SynRecv);
        for &families in queries {
            let listed = self.list(out, table, self.query(table, families, states))?;
            if !listed.is_supported && families.v4 {
                return Ok(self.report_unsupported(table.what));
            }
            if listed.has_syn_recv && families.v4 {
                self.list(out, table, by_procfs(self.query(table, V4, syn_recv)))?;
            }
            if listed.is_too_long {
                self.list(out, table, self.query(table, V6, states))?;
            }
            out.text.append(&mut self.ipv6_rows);
            if listed.has_syn_recv && families.v6 {
                self.list(out, table, by_procfs(self.query(table, V6, syn_recv)))?;
            }
        }
        Ok(Ok(()))
    }

    /// Runs one query and prints its rows as they arrive.
    fn list(
        &mut self,
        out: &mut BufferedStdout,
        table: Table,
        query: Query<'_>,
    ) -> anyhow::Result<ListOutcome> {
        let Programs { owners, names } = &mut self.programs;
        let query = Query {
            announce: self.layout.programs.then_some(&*owners as &dyn Announce),
            ..query
        };
        let mut rows = Rows {
            layout: &self.layout,
            names: &self.names,
            owners,
            programs: names,
            table,
            is_mixed: query.families == Families::BOTH,
            needs_procfs: query.choice != Choice::Procfs && (self.layout.timers || self.layout.extended),
            out,
            ipv6_rows: &mut self.ipv6_rows,
            listed: ListOutcome {
                is_supported: true,
                ..ListOutcome::default()
            },
            written: Ok(()),
        };
        let outcome = list(&self.engine, &query, &mut |socket, _| rows.take(socket));
        let Rows {
            mut listed, written, ..
        } = rows;
        written?;
        match outcome {
            Ok(outcome) => {
                listed.is_supported = outcome.used.iter().all(|used| used.source.is_some());
                report(&outcome);
            }
            // The kernel lacks IPv6, which the original does not report either.
            Err(Error::NoSource(_)) if query.families == V6 => listed.is_supported = false,
            Err(error) => return Err(error.into()),
        }
        Ok(listed)
    }

    /// Resolves the names of all hosts that the table will show.
    fn resolve_hosts(&self, table: Table, families: Families) -> anyhow::Result<()> {
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
            // The listing itself reports losses.
            Ok(_) | Err(Error::NoSource(_)) => self.names.resolve_hosts(hosts),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Lists UNIX sockets. They are read from `/proc/net/unix` whatever the source: only that file has RefCnt and these
    /// states.
    fn unix(&mut self, out: &mut BufferedStdout) -> anyhow::Result<()> {
        let layout = UnixLayout {
            shown: self.layout.shown,
            programs: self.layout.programs,
            text: self.layout.text,
        };
        layout.push_header(&mut out.text);
        let query = by_procfs(Query {
            protocols: ProtocolSet::UNIX,
            ..self.query(TCP, Families::BOTH, StateSet::ALL)
        });
        let mut written = Ok(());
        let Programs { owners, names } = &mut self.programs;
        let outcome = list(&self.engine, &query, &mut |socket, _| {
            let is_selected = match layout.shown {
                Shown::All => true,
                Shown::Listening => socket.state == State::Listen,
                Shown::Connected => socket.state != State::Listen,
            };
            if !is_selected {
                return ControlFlow::Continue(());
            }
            let program = if layout.programs {
                names.of(owners, socket.inode)
            } else {
                &[]
            };
            layout.push_row(&mut out.text, &UnixRow { socket, program });
            written = out.flush_if_large();
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
            // BPF walks the tables of TCP and UDP only.
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
            quiet: None,
            announce: None,
        }
    }

    /// Returns the states to list. Sockets that are only bound are left out, as in `/proc/net/tcp`.
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

/// The outcome of one query.
#[derive(Debug, Clone, Copy, Default)]
struct ListOutcome {
    /// Whether the kernel has this protocol.
    is_supported: bool,
    /// Whether connections in SYN_RECV were left out. They are read from `/proc/net/tcp`: netlink reports neither their
    /// user, which is their listener's, nor how often their timer expired (`num_timeout`).
    has_syn_recv: bool,
    /// Whether rows of IPv6 were dropped because they exceeded [`IPV6_ROWS_MAX_BYTES`].
    is_too_long: bool,
}

/// Turns sockets into rows.
struct Rows<'a> {
    layout: &'a InetLayout,
    names: &'a HostNames,
    owners: &'a Owners,
    programs: &'a mut ProgramNames,
    table: Table,
    is_mixed: bool,
    needs_procfs: bool,
    out: &'a mut BufferedStdout,
    ipv6_rows: &'a mut Vec<u8>,
    listed: ListOutcome,
    written: anyhow::Result<()>,
}

impl Rows<'_> {
    fn take(&mut self, socket: &Socket) -> ControlFlow<()> {
        if !is_shown(self.layout.shown, socket) {
            return ControlFlow::Continue(());
        }
        let is_tcp = socket.protocol == Protocol::Tcp;
        if self.needs_procfs && is_tcp && matches!(socket.state, State::SynRecv | State::NewSynRecv) {
            self.listed.has_syn_recv = true;
            return ControlFlow::Continue(());
        }
        let is_v6 = socket.family == Family::Inet6;
        let is_deferred = is_v6 && self.is_mixed;
        if is_deferred && self.listed.is_too_long {
            return ControlFlow::Continue(());
        }
        let program = if self.layout.programs {
            self.programs.of(self.owners, socket.inode)
        } else {
            &[]
        };
        let row = InetRow {
            protocol: self.table.names[usize::from(is_v6)],
            socket,
            program,
        };
        if is_deferred {
            self.layout.push_row(self.ipv6_rows, &row, self.names);
            if self.ipv6_rows.len() > IPV6_ROWS_MAX_BYTES {
                self.ipv6_rows.clear();
                self.listed.is_too_long = true;
            }
            return ControlFlow::Continue(());
        }
        self.layout.push_row(&mut self.out.text, &row, self.names);
        self.written = self.out.flush_if_large();
        if self.written.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

/// Whether a socket is selected: of TCP by its peer's port, of other protocols by its peer's address, as in the original.
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

/// Reports sources that were not available, and losses.
fn report(answer: &QueryOutcome) {
    sockeye_query::notes::sources(&answer.used, false);
    sockeye_query::notes::losses(&answer.losses, sockeye_query::notes::LossScope::default());
}

const V4: Families = Families { v4: true, v6: false };
const V6: Families = Families { v4: false, v6: true };

/// Most bytes of rows of IPv6 that wait until those of IPv4 are written; for more the kernel is queried again.
const IPV6_ROWS_MAX_BYTES: usize = 1024 * 1024;
