//! Lists the tables of sockets, one after the other, in ss's order.

use super::options::{BpfMaps, EXIT_USAGE, SsOptions};
use super::resolver::Resolver;
use super::tables::{self, Table};
use super::threads::Threads;
use crate::errno::errno_text;
use crate::output::{SsLayout, SsLevel, SsOwners, SsRow, SsWriter};
use crate::proc_note;
use anyhow::{Context, bail};
use rustix::io::Errno;
use sockeye_act::{CloseOutcome, SocketCloser};
use sockeye_console::notes;
use sockeye_console::output_file::OutputFile;
use sockeye_console::stdout;
use sockeye_filter::ss::Filter;
use sockeye_filter::{Filter as KernelFilter, KernelFeatures, Program};
use sockeye_model::{
    DiagDetails, Endpoint, Entry, Family, Losses, Owner, Protocol, ProtocolSet, Socket, StateSet,
};
use sockeye_source::owners::Owners;
use sockeye_source::{
    Announce, BpfEngine, Choice, Detail, DumpContext, Error, Families, KernelVerdict, NetnsScope, OpenNetns,
    Query, QueryOutcome, SourceKind, list_with_message, refusal,
};
use sockeye_sys::proc_mount;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

/// A listing, as selected by options and filter.
pub(super) struct Listing<'a> {
    pub(super) options: &'a SsOptions,
    pub(super) filter: &'a Filter,
    pub(super) resolver: &'a Resolver,
    pub(super) layout: SsLayout,
    /// The part of the filter that `ss` lets the kernel evaluate.
    kernel: KernelFilter,
    program: Program,
    netns: Option<OpenNetns<'a>>,
    engine: BpfEngine,
}

/// Owners of sockets; `None` unless they are shown.
#[derive(Default)]
struct OwnerLists {
    owners: Option<Owners>,
    threads: Option<Threads>,
}

/// Tables that are read by one query.
struct Group {
    tables: &'static [Table],
    families: &'static [Family],
    protocols: ProtocolSet,
}

/// Groups in the order in which ss lists them. For the tables that are missing here see
/// [`Listing::report_unlisted_tables`].
const GROUPS: &[Group] = &[
    group(
        &[Table::Netlink],
        &[Family::Netlink],
        ProtocolSet::of(&[Protocol::Netlink]),
    ),
    group(
        &[Table::PacketDgram, Table::PacketRaw],
        &[Family::Packet],
        ProtocolSet::PACKET,
    ),
    group(
        &[Table::UnixDgram, Table::UnixStream, Table::UnixSeqpacket],
        &[Family::Unix],
        ProtocolSet::UNIX,
    ),
    group(&[Table::Raw], INET, ProtocolSet::of(&[Protocol::Raw])),
    group(&[Table::Udp], INET, ProtocolSet::of(&[Protocol::Udp])),
    group(&[Table::Tcp], INET, ProtocolSet::of(&[Protocol::Tcp])),
    group(&[Table::Mptcp], INET, ProtocolSet::of(&[Protocol::Mptcp])),
];
const INET: &[Family] = &[Family::Inet, Family::Inet6];

const fn group(tables: &'static [Table], families: &'static [Family], protocols: ProtocolSet) -> Group {
    Group {
        tables,
        families,
        protocols,
    }
}

impl<'a> Listing<'a> {
    pub(super) fn new(
        options: &'a SsOptions,
        filter: &'a Filter,
        resolver: &'a Resolver,
        netns: Option<OpenNetns<'a>>,
    ) -> Self {
        let kernel = filter.kernel();
        let features = if sockeye_query::listing::may_see_marks() {
            KernelFeatures::FULL
        } else {
            KernelFeatures::UNPRIVILEGED
        };
        Self {
            program: kernel.program(features),
            kernel,
            options,
            filter,
            resolver,
            layout: layout(options),
            netns,
            engine: BpfEngine::default(),
        }
    }

    /// Writes the listing; with `-K` closes the sockets first.
    pub(super) fn list(&self) -> anyhow::Result<ExitCode> {
        let owners = self.owners()?;
        if self.options.resolve {
            self.resolve_hosts()?;
        }
        let mut writer = SsWriter::new(stdout::open().context(stdout::WRITING)?, self.layout);
        if !self.options.no_header {
            writer.header();
        }
        let mut closer = self
            .options
            .kill
            .then(SocketCloser::open)
            .transpose()
            .context("open a sock_diag socket")?;
        let mut losses = owners.owners.as_ref().map(Owners::losses).unwrap_or_default();
        let mut status = ExitCode::SUCCESS;
        for group in GROUPS {
            if !self.is_selected(group) {
                continue;
            }
            if group.protocols.contains(Protocol::Tcp)
                && let Some(path) = std::env::var_os("TCPDIAG_FILE")
            {
                if let Err(error) = self.list_saved(Path::new(&path), &owners, &mut writer) {
                    notes::say(&format!("{error:#}"));
                }
                continue;
            }
            self.report_refusals(group);
            let (mut written, mut closed) = (Ok(()), Ok(()));
            let outcome = self.list_group(group, owners.owners.as_ref(), &mut |socket, context| {
                // As in ss, sockets that were read from /proc are shown, though they cannot be closed.
                if let Some(closer) = closer
                    .as_mut()
                    .filter(|_| is_inet(socket.family) && context.message.is_some())
                {
                    match closer.close(socket.protocol, context.message) {
                        Ok(CloseOutcome::Closed) => {}
                        Ok(CloseOutcome::Skipped) => return ControlFlow::Continue(()),
                        Err(errno) => {
                            closed = Err(errno);
                            return ControlFlow::Break(());
                        }
                    }
                }
                written = self.row(&mut writer, socket, context, &owners);
                match written {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
            written.context(stdout::WRITING)?;
            if let Err(errno) = closed {
                let error = io::Error::from(errno);
                notes::say(&format!("SOCK_DESTROY answers: {}\n", errno_text(&error)));
                status = ExitCode::FAILURE;
                break;
            }
            match outcome {
                Ok(outcome) => losses += outcome.losses,
                Err(Error::NoSource(used))
                    if self.options.source.is_none() && used.iter().all(|used| used.optional) => {}
                // ss is silent here; in both it is not fatal, unless the option was given that ss does not have.
                Err(error @ Error::NoSource(_)) => {
                    notes::say(&format!("sockeye ss: {error}\n"));
                    if self.options.source.is_some() {
                        status = ExitCode::FAILURE;
                    }
                }
                Err(error @ Error::Namespace(..)) => {
                    writer.finish().context(stdout::WRITING)?;
                    return Err(error.into());
                }
            }
        }
        self.report_unlisted_tables();
        if self.options.bpf_maps != BpfMaps::None {
            notes::say(
                "sockeye ss: data that BPF programs keep with sockets is not shown here; ss of iproute2 shows it\n",
            );
        }
        writer.finish().context(stdout::WRITING)?;
        self.report(&losses);
        Ok(status)
    }

    /// `-D`: writes the kernel's messages about TCP sockets unchanged, for `TCPDIAG_FILE`. As in ss, an end message
    /// follows each family.
    pub(super) fn dump(&self, path: &OsStr) -> anyhow::Result<ExitCode> {
        let tcp = GROUPS
            .iter()
            .find(|group| group.protocols.contains(Protocol::Tcp));
        let tcp = tcp.context("TCP is among the tables")?;
        let is_stdout = path.as_encoded_bytes().starts_with(b"-");
        let file = if is_stdout {
            None
        } else {
            match OutputFile::create(Path::new(path)) {
                Ok(file) => Some(file),
                // ss 7.3 notices it too, and has a status of its own for it.
                Err(error) if self.options.level >= SsLevel::V7_3 => {
                    notes::say(&format!("sockeye ss: {error:#}\n"));
                    return Ok(ExitCode::from(EXIT_USAGE));
                }
                Err(error) => return Err(error),
            }
        };
        let mut bytes = Vec::new();
        let mut losses = Losses::default();
        let Families { v4, v6 } = self.families(Choice::Diag);
        for (is_selected, family) in [(v4, Family::Inet), (v6, Family::Inet6)] {
            if !is_selected {
                continue;
            }
            let outcome = self.list_group(tcp, None, &mut |socket, context| {
                if socket.family == family {
                    bytes.extend(sockeye_source::saved::message(
                        context.message.unwrap_or_default(),
                    ));
                }
                ControlFlow::Continue(())
            })?;
            losses += outcome.losses;
            bytes.extend(sockeye_source::saved::END);
        }
        match file {
            None => stdout::write(&bytes)?,
            Some(mut file) => {
                file.write_all(&bytes)
                    .with_context(|| format!("write {:?}", Path::new(path)))?;
                file.finish()?;
            }
        }
        self.report(&losses);
        Ok(ExitCode::SUCCESS)
    }

    /// Lists the sockets of a file that `-D` wrote.
    fn list_saved<W: Write>(
        &self,
        path: &Path,
        owners: &OwnerLists,
        writer: &mut SsWriter<W>,
    ) -> anyhow::Result<()> {
        let mut file = match File::open(path) {
            Ok(file) => BufReader::new(file),
            Err(error) => bail!("fopen($TCPDIAG_FILE): {}\n", errno_text(&error)),
        };
        let mut written = Ok(());
        let read = sockeye_source::saved::read(&mut file, &mut |socket, context| {
            if self.filter.accepts(socket) && written.is_ok() {
                written = self.row(writer, socket, context, owners);
            }
        });
        written.context(stdout::WRITING)?;
        read.map_err(Into::into)
    }

    /// Writes a row.
    fn row<W: Write>(
        &self,
        writer: &mut SsWriter<W>,
        socket: &Socket,
        context: DumpContext<'_>,
        owners: &OwnerLists,
    ) -> io::Result<()> {
        let read;
        let diag_details = match context.message {
            Some(message) if self.wants_particulars() => {
                read = DiagDetails::read(socket.protocol, message);
                &read
            }
            _ => DiagDetails::NONE,
        };
        let row = SsRow {
            socket,
            diag_details,
            owners: owners.of(socket),
            // For sockets from /proc ss shows no details, except for TCP.
            is_brief: context.source == SourceKind::Procfs && socket.protocol != Protocol::Tcp,
        };
        writer.row(&row, self.resolver)
    }

    /// Passes the sockets of a group that match the filter to `take`, which will ask for their owners if there are any.
    fn list_group(
        &self,
        group: &Group,
        owners: Option<&Owners>,
        take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    ) -> Result<QueryOutcome, Error> {
        let choice = self.choice(group);
        let is_raw = group.tables == [Table::Raw];
        if !is_raw || choice == Choice::Procfs {
            return self.list_from(choice, group, owners, take);
        }
        // Many kernels report RAW sockets only in /proc, where ss reads both families.
        match self.list_from(Choice::Diag, group, owners, take) {
            Err(Error::NoSource(_)) => self.list_from(Choice::Procfs, group, owners, take),
            outcome => outcome,
        }
    }

    fn list_from(
        &self,
        choice: Choice,
        group: &Group,
        owners: Option<&Owners>,
        take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    ) -> Result<QueryOutcome, Error> {
        let bounds = self.kernel.bounds();
        let query = Query {
            protocols: self.protocols(group),
            families: self.families(choice),
            states: self.states(group),
            detail: self.detail(),
            program: &self.program.bytecode,
            ends: sockeye_query::netns_targets::ends(&bounds),
            choice,
            scope: self.netns.map_or(NetnsScope::Own, NetnsScope::One),
            quiet: None,
            announce: owners.map(|owners| owners as &dyn Announce),
        };
        let has_no_filter = self.filter.is_empty();
        list_with_message(&self.engine, &query, &mut |socket, context| {
            if !has_no_filter && !self.accepts(socket, context) {
                return ControlFlow::Continue(());
            }
            take(socket, context)
        })
    }

    /// Whether the socket matches both the kernel's part of the filter (netlink only) and ss's own part.
    fn accepts(&self, socket: &Socket, context: DumpContext<'_>) -> bool {
        let decided = context.kernel_verdict == KernelVerdict::Passed && self.program.exact;
        let is_kernel_filtered = is_inet(socket.family) && context.source != SourceKind::Procfs;
        let kernel = decided || !is_kernel_filtered || self.kernel.matches(&Entry::new(socket));
        kernel && self.filter.accepts(socket)
    }

    /// Returns the error with which the kernel refuses the filter, if it does. ss reads `/proc/net` then.
    fn refusal(&self) -> Option<Errno> {
        if self.filter.is_refused() {
            return Some(Errno::INVAL);
        }
        (self.kernel.needs().mark && !sockeye_query::listing::may_see_marks()).then_some(Errno::PERM)
    }

    /// Prints the refusals that ss prints: for TCP one for each of its two kinds of request, for MPTCP none.
    /// ss 7.3 prints none.
    fn report_refusals(&self, group: &Group) {
        if self.options.level >= SsLevel::V7_3 {
            return;
        }
        let times = match group.tables {
            [Table::Tcp] => 2,
            [Table::Udp | Table::Raw] => 1,
            _ => 0,
        };
        if let Some(errno) = self.refusal() {
            let error = io::Error::from(errno);
            for _ in 0..times {
                notes::say(&format!("RTNETLINK answers: {}\n", errno_text(&error)));
            }
        }
    }

    fn is_selected(&self, group: &Group) -> bool {
        let selection = &self.options.selection;
        let has_states = match group.families {
            [Family::Packet | Family::Netlink] => selection.states & tables::CLOSE != 0,
            _ => true,
        };
        let has_family = group.families.iter().any(|family| selection.has_family(*family));
        has_states && has_family && selection.has_any(group.tables)
    }

    /// Like ss, distinguishes the types of UNIX sockets but not those of PACKET sockets.
    fn protocols(&self, group: &Group) -> ProtocolSet {
        let selection = &self.options.selection;
        group.protocols.retain(|protocol| match protocol {
            Protocol::UnixStream => selection.has(Table::UnixStream),
            Protocol::UnixDgram => selection.has(Table::UnixDgram),
            Protocol::UnixSeqpacket => selection.has(Table::UnixSeqpacket),
            _ => true,
        })
    }

    /// PACKET and NETLINK sockets have no states to select by.
    fn states(&self, group: &Group) -> StateSet {
        match group.families {
            [Family::Packet | Family::Netlink] => StateSet::ALL,
            _ => StateSet::from_bits(tables::with_half_open(self.options.selection.states)),
        }
    }

    /// With netlink only the family that was named last is queried.
    fn families(&self, choice: Choice) -> Families {
        let selection = &self.options.selection;
        let last = selection.preferred.filter(|_| choice != Choice::Procfs);
        Families {
            v4: selection.has_family(Family::Inet) && last != Some(Family::Inet6),
            v6: selection.has_family(Family::Inet6) && last != Some(Family::Inet),
        }
    }

    fn detail(&self) -> Detail {
        let options = self.options;
        let needs = self.filter.needs();
        let socket_options =
            options.extended || options.cgroup || options.options || needs.mark || needs.cgroup;
        // REPEATS: ss prints a socket as often as the kernel reports it.
        Detail::QUEUES
            | Detail::REPEATS
            | Detail::TIMER.when(options.timers)
            | Detail::INODE.when(options.extended || options.processes || options.threads)
            | Detail::USER.when(options.extended)
            | Detail::OPTIONS.when(socket_options)
            | Detail::COOKIE.when(options.extended || options.kill)
            | Detail::AUTOBOUND.when(self.kernel.needs().kernel_only)
            | (Detail::TCP_INFO | Detail::CONGESTION).when(options.info)
            | Detail::MEMORY.when(options.memory)
            | Detail::SERVICE_CLASS.when(options.service_class)
            | Detail::DIAG_DETAILS.when(self.wants_particulars())
    }

    const fn wants_particulars(&self) -> bool {
        self.options.extended || self.options.bpf || self.options.info || self.options.memory
    }

    /// Closing sockets (`-K`) and saving messages (`-D`) need netlink.
    fn choice(&self, group: &Group) -> Choice {
        let named = self.options.source.unwrap_or(Choice::Auto);
        let needs_messages = self.options.kill || self.options.dump.is_some();
        if needs_messages {
            Choice::Diag
        } else if group.families == INET && self.refusal().is_some() {
            Choice::Procfs
        } else {
            named
        }
    }

    fn owners(&self) -> anyhow::Result<OwnerLists> {
        // Since 6.15 threads are in a column that only -p shows.
        let has_column = self.options.level == SsLevel::V6_1 || self.options.processes;
        if !has_column || !self.options.processes && !self.options.threads {
            return Ok(OwnerLists::default());
        }
        let named = self.options.source.unwrap_or(Choice::Auto);
        // As in ss, rows then have no owners.
        let owners = match Owners::find(&self.engine, named) {
            Ok((owners, _)) => owners,
            Err(_) if proc_mount::problem().is_some() => {
                proc_note::say_if_missing("ss");
                Owners::default()
            }
            Err(error) => return Err(error.into()),
        };
        let threads = self.options.threads.then(|| {
            let all = owners.iter().flat_map(|(_, owners)| owners.iter().copied());
            Threads::find(all)
        });
        Ok(OwnerLists {
            owners: Some(owners),
            threads,
        })
    }

    /// Resolves the names of all hosts before rows are written. This takes a separate listing.
    fn resolve_hosts(&self) -> anyhow::Result<()> {
        let mut hosts: Vec<IpAddr> = Vec::new();
        for group in GROUPS
            .iter()
            .filter(|group| group.families == INET && self.is_selected(group))
        {
            let outcome = self.list_group(group, None, &mut |socket, _| {
                let ends = [&socket.local, &socket.peer];
                hosts.extend(
                    ends.into_iter()
                        .filter_map(Endpoint::ip)
                        .filter(|ip| !ip.is_unspecified()),
                );
                ControlFlow::Continue(())
            });
            if let Err(error @ Error::Namespace(..)) = outcome {
                return Err(error.into());
            }
        }
        self.resolver.resolve_hosts(hosts);
        Ok(())
    }

    /// Reports selected tables that are never listed, if this kernel has them; prints ss's message if it has not.
    fn report_unlisted_tables(&self) {
        let selection = &self.options.selection;
        let has_inet = INET.iter().any(|family| selection.has_family(*family));
        for (table, what, family, protocol) in [
            (Table::Dccp, "DCCP", Family::Inet, 33),
            (Table::Sctp, "SCTP", Family::Inet, 132),
            (Table::VsockStream, "VSOCK", Family::Unknown(40), 0),
            (Table::Tipc, "TIPC", Family::Unknown(30), 0),
            (Table::Xdp, "XDP", Family::Unknown(44), 0),
        ] {
            let is_selected = selection.has(table)
                && if family == Family::Inet {
                    has_inet
                } else {
                    selection.has_family(family)
                };
            if !is_selected {
                continue;
            }
            match refusal(family, protocol) {
                None => notes::say(&format!(
                    "sockeye ss: {what} sockets are not listed here, though this kernel may have some; ss of iproute2 lists them\n"
                )),
                Some(Errno::NOENT | Errno::OPNOTSUPP) => {}
                Some(_) if family == Family::Inet && self.options.level >= SsLevel::V7_3 => {}
                Some(errno) => {
                    let error = io::Error::from(errno);
                    notes::say(&format!("RTNETLINK answers: {}\n", errno_text(&error)));
                }
            }
        }
    }

    fn report(&self, losses: &Losses) {
        // ss does not report processes that it may not read.
        let quiet = Losses {
            unreadable_processes: 0,
            vanished_processes: 0,
            repeated_dumps: 0,
            ..*losses
        };
        sockeye_query::notes::losses(&quiet, sockeye_query::notes::LossScope::default());
    }
}

impl OwnerLists {
    fn of(&self, socket: &Socket) -> SsOwners<'_> {
        if let Some(threads) = &self.threads {
            return SsOwners::Threads(threads.of(socket.inode));
        }
        let owners = self
            .owners
            .as_ref()
            .zip(socket.inode)
            .map(|(owners, inode)| owners.of(inode));
        owners.map_or(SsOwners::None, |owners: &[Owner]| SsOwners::Processes(owners))
    }
}

/// Returns the columns of a row and the details shown in it.
fn layout(options: &SsOptions) -> SsLayout {
    SsLayout {
        level: options.level,
        queues: !options.no_queues,
        processes: options.processes,
        netid: !options.selection.is_one_table(),
        state: !options.selection.is_one_state(),
        timers: options.timers,
        extended: options.extended,
        memory: options.memory,
        info: options.info,
        service_class: options.service_class,
        cgroup: options.cgroup,
        options: options.options,
        bpf: options.bpf,
        one_line: options.one_line,
        numeric: options.numeric,
        width: stdout::width().or_else(|| named_width(options.level)),
        terminal: io::stdout().is_terminal(),
    }
}

/// Returns the width that `COLUMNS` names, as `atoi` reads it. ss uses it where there is no terminal, since 6.15.
fn named_width(level: SsLevel) -> Option<usize> {
    if level < SsLevel::V6_15 {
        return None;
    }
    let text = std::env::var_os("COLUMNS")?;
    let digits = text.as_encoded_bytes().trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let width: i32 = std::str::from_utf8(&digits[..len]).ok()?.parse().ok()?;
    usize::try_from(width).ok().filter(|&width| width > 0)
}

/// Whether a family is IPv4 or IPv6.
const fn is_inet(family: Family) -> bool {
    matches!(family, Family::Inet | Family::Inet6)
}
