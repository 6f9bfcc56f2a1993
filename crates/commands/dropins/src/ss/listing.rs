//! From what was asked for to rows: each table after the other, in ss's order.

use super::book::Book;
use super::options::{Asked, Source};
use super::tables::{self, Table};
use super::threads::Threads;
use super::{errno_text, is_inet};
use crate::output::{SsHolders, SsLayout, SsRow, SsWriter};
use anyhow::{Context, bail};
use rustix::io::Errno;
use sockeye_act::{CloseOutcome, SocketCloser};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_filter::ss::Filter;
use sockeye_filter::{Filter as KernelFilter, Kernel, Program};
use sockeye_model::{
    Endpoint, Entry, Family, Losses, Owner, Particulars, Protocol, ProtocolSet, Socket, StateSet,
};
use sockeye_source::owners::Owners;
use sockeye_source::{
    BpfEngine, Choice, Detail, DumpContext, Error, Families, KernelVerdict, NetnsScope, OpenNetns, Query,
    QueryOutcome, SourceKind, list_with_message, refusal,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

/// A listing as it was asked for.
pub(super) struct Listing<'a> {
    pub(super) asked: &'a Asked,
    pub(super) filter: &'a Filter,
    pub(super) book: &'a Book,
    pub(super) layout: SsLayout,
    /// What the kernel decides of the filter.
    kernel: KernelFilter,
    program: Program,
    place: Option<OpenNetns<'a>>,
    engine: BpfEngine,
}

/// Who holds the sockets, as it is shown.
#[derive(Default)]
struct Holders {
    owners: Option<Owners>,
    threads: Option<Threads>,
}

/// The tables that one query is about.
struct Group {
    tables: &'static [Table],
    families: &'static [Family],
    protocols: ProtocolSet,
}

/// In the order in which ss lists them. Of the tables that are missing here see [`Listing::absent`].
const GROUPS: &[Group] = &[
    Group {
        tables: &[Table::Netlink],
        families: &[Family::Netlink],
        protocols: ProtocolSet::of(&[Protocol::Netlink]),
    },
    Group {
        tables: &[Table::PacketDgram, Table::PacketRaw],
        families: &[Family::Packet],
        protocols: ProtocolSet::PACKET,
    },
    Group {
        tables: &[Table::UnixDgram, Table::UnixStream, Table::UnixSeqpacket],
        families: &[Family::Unix],
        protocols: ProtocolSet::UNIX,
    },
    Group {
        tables: &[Table::Raw],
        families: INET,
        protocols: ProtocolSet::of(&[Protocol::Raw]),
    },
    Group {
        tables: &[Table::Udp],
        families: INET,
        protocols: ProtocolSet::of(&[Protocol::Udp]),
    },
    Group {
        tables: &[Table::Tcp],
        families: INET,
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
    },
    Group {
        tables: &[Table::Mptcp],
        families: INET,
        protocols: ProtocolSet::of(&[Protocol::Mptcp]),
    },
];
const INET: &[Family] = &[Family::Inet, Family::Inet6];

impl<'a> Listing<'a> {
    pub(super) fn new(
        asked: &'a Asked,
        filter: &'a Filter,
        book: &'a Book,
        place: Option<OpenNetns<'a>>,
    ) -> Self {
        let kernel = filter.kernel();
        let knows = if sockeye_query::listing::may_see_marks() {
            Kernel::FULL
        } else {
            Kernel::UNPRIVILEGED
        };
        Self {
            program: kernel.program(knows),
            kernel,
            asked,
            filter,
            book,
            layout: super::layout(asked),
            place,
            engine: BpfEngine::default(),
        }
    }

    /// Lists everything.
    pub(super) fn list(&self) -> anyhow::Result<ExitCode> {
        let holders = self.holders()?;
        if self.asked.resolve {
            self.look_up_hosts()?;
        }
        let mut writer = SsWriter::new(stdout::open()?, self.layout);
        if !self.asked.no_header {
            writer.header();
        }
        let mut closer = self
            .asked
            .kill
            .then(SocketCloser::open)
            .transpose()
            .context("open a sock_diag socket")?;
        let mut losses = holders.owners.as_ref().map(Owners::losses).unwrap_or_default();
        let mut status = ExitCode::SUCCESS;
        for group in GROUPS {
            if !self.wants(group) {
                continue;
            }
            if group.protocols.contains(Protocol::Tcp)
                && let Some(path) = std::env::var_os("TCPDIAG_FILE")
            {
                if let Err(error) = self.saved(Path::new(&path), &holders, &mut writer) {
                    notes::say(&format!("{error:#}"));
                }
                continue;
            }
            self.say_refusals(group);
            let (mut written, mut closed) = (Ok(()), Ok(()));
            let outcome = self.ask(group, &mut |socket, context| {
                // What was read from /proc is shown, as by ss, though it cannot be closed.
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
                written = self.row(&mut writer, socket, context, &holders);
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
                    if self.asked.source.is_none() && used.iter().all(|used| used.optional) => {}
                // ss says nothing and goes on.
                Err(error @ Error::NoSource(_)) => notes::say(&format!("sockeye ss: {error}\n")),
                Err(error @ Error::Namespace(..)) => {
                    writer.finish().context(stdout::WRITING)?;
                    return Err(error.into());
                }
            }
        }
        self.absent();
        writer.finish().context(stdout::WRITING)?;
        self.report(&losses);
        Ok(status)
    }

    /// `-D`: what the kernel says of TCP, as it says it, for `TCPDIAG_FILE`. As in ss each family has an end of its own.
    pub(super) fn dump(&self, path: &OsStr) -> anyhow::Result<ExitCode> {
        let tcp = GROUPS
            .iter()
            .find(|group| group.protocols.contains(Protocol::Tcp));
        let tcp = tcp.context("TCP is among the tables")?;
        let mut out: Box<dyn Write> = if path.as_encoded_bytes().starts_with(b"-") {
            Box::new(stdout::open()?)
        } else {
            let file = File::create(path);
            Box::new(file.with_context(|| format!("write {}", Path::new(path).display()))?)
        };
        let mut bytes = Vec::new();
        let mut losses = Losses::default();
        let Families { v4, v6 } = self.families(Choice::Diag);
        for (is_wanted, family) in [(v4, Family::Inet), (v6, Family::Inet6)] {
            if !is_wanted {
                continue;
            }
            let outcome = self.ask(tcp, &mut |socket, context| {
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
        out.write_all(&bytes)
            .and_then(|()| out.flush())
            .with_context(|| format!("write {}", Path::new(path).display()))?;
        self.report(&losses);
        Ok(ExitCode::SUCCESS)
    }

    /// What a file holds that was written by `-D`.
    fn saved<W: Write>(
        &self,
        path: &Path,
        holders: &Holders,
        writer: &mut SsWriter<W>,
    ) -> anyhow::Result<()> {
        let mut file = match File::open(path) {
            Ok(file) => BufReader::new(file),
            Err(error) => bail!("fopen($TCPDIAG_FILE): {}\n", errno_text(&error)),
        };
        let mut written = Ok(());
        let read = sockeye_source::saved::read(&mut file, &mut |socket, context| {
            if self.filter.accepts(socket) && written.is_ok() {
                written = self.row(writer, socket, context, holders);
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
        holders: &Holders,
    ) -> io::Result<()> {
        let read;
        let particulars = match context.message {
            Some(message) if self.wants_particulars() => {
                read = Particulars::read(socket.protocol, message);
                &read
            }
            _ => Particulars::NONE,
        };
        let row = SsRow {
            socket,
            particulars,
            holders: holders.of(socket),
            // Of lines of /proc ss shows little, but for TCP.
            is_brief: context.source == SourceKind::Procfs && socket.protocol != Protocol::Tcp,
        };
        writer.row(&row, self.book)
    }

    /// Hands the sockets of a group that pass the filter to `take`.
    fn ask(
        &self,
        group: &Group,
        take: &mut dyn FnMut(&Socket, DumpContext<'_>) -> ControlFlow<()>,
    ) -> Result<QueryOutcome, Error> {
        let choice = self.choice(group);
        let is_raw = group.tables == [Table::Raw];
        if !is_raw || choice == Choice::Procfs {
            return self.ask_by(choice, group, take);
        }
        // Many kernels tell of RAW sockets only in /proc, where ss looks for both families.
        match self.ask_by(Choice::Diag, group, take) {
            Err(Error::NoSource(_)) => self.ask_by(Choice::Procfs, group, take),
            outcome => outcome,
        }
    }

    fn ask_by(
        &self,
        choice: Choice,
        group: &Group,
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
            scope: self.place.map_or(NetnsScope::Own, NetnsScope::One),
        };
        let is_everything = self.filter.is_empty();
        list_with_message(&self.engine, &query, &mut |socket, context| {
            if !is_everything && !self.accepts(socket, context) {
                return ControlFlow::Continue(());
            }
            take(socket, context)
        })
    }

    /// ss takes an IP socket if the kernel takes it, where that is asked, and it does itself.
    fn accepts(&self, socket: &Socket, context: DumpContext<'_>) -> bool {
        let decided = context.kernel_verdict == KernelVerdict::Passed && self.program.exact;
        let is_asked = is_inet(socket.family) && context.source != SourceKind::Procfs;
        let kernel = decided || !is_asked || self.kernel.matches(&Entry::new(socket));
        kernel && self.filter.accepts(socket)
    }

    /// Whether the kernel refuses what it is to decide of the filter, and how. ss reads `/proc/net` then.
    fn refused(&self) -> Option<Errno> {
        if self.filter.is_refused() {
            return Some(Errno::INVAL);
        }
        (self.kernel.needs().mark && !sockeye_query::listing::may_see_marks()).then_some(Errno::PERM)
    }

    /// ss tells every refusal: of TCP by both kinds of request, of MPTCP none.
    fn say_refusals(&self, group: &Group) {
        let times = match group.tables {
            [Table::Tcp] => 2,
            [Table::Udp | Table::Raw] => 1,
            _ => 0,
        };
        if let Some(errno) = self.refused() {
            let error = io::Error::from(errno);
            for _ in 0..times {
                notes::say(&format!("RTNETLINK answers: {}\n", errno_text(&error)));
            }
        }
    }

    fn wants(&self, group: &Group) -> bool {
        let selection = &self.asked.selection;
        let has_states = match group.families {
            [Family::Packet | Family::Netlink] => selection.states & tables::CLOSE != 0,
            _ => true,
        };
        let has_family = group.families.iter().any(|family| selection.has_family(*family));
        has_states && has_family && selection.has_any(group.tables)
    }

    /// By netlink ss tells types of UNIX sockets apart, but not of PACKET sockets.
    fn protocols(&self, group: &Group) -> ProtocolSet {
        let selection = &self.asked.selection;
        group.protocols.retain(|protocol| match protocol {
            Protocol::UnixStream => selection.has(Table::UnixStream),
            Protocol::UnixDgram => selection.has(Table::UnixDgram),
            Protocol::UnixSeqpacket => selection.has(Table::UnixSeqpacket),
            _ => true,
        })
    }

    /// PACKET and NETLINK sockets have no states by which ss would choose among them.
    fn states(&self, group: &Group) -> StateSet {
        match group.families {
            [Family::Packet | Family::Netlink] => StateSet::ALL,
            _ => StateSet::from_bits(self.asked.selection.states),
        }
    }

    /// By netlink the family that was named last is the only one of the two that is asked for.
    fn families(&self, choice: Choice) -> Families {
        let selection = &self.asked.selection;
        let last = selection.preferred.filter(|_| choice != Choice::Procfs);
        Families {
            v4: selection.has_family(Family::Inet) && last != Some(Family::Inet6),
            v6: selection.has_family(Family::Inet6) && last != Some(Family::Inet),
        }
    }

    fn detail(&self) -> Detail {
        let asked = self.asked;
        let needs = self.filter.needs();
        let options = asked.extended || asked.cgroup || asked.options || needs.mark || needs.cgroup;
        // REPEATS: ss prints a socket as often as the kernel reports it.
        Detail::QUEUES
            | Detail::REPEATS
            | Detail::TIMER.when(asked.timers)
            | Detail::INODE.when(asked.extended || asked.processes || asked.threads)
            | Detail::USER.when(asked.extended)
            | Detail::OPTIONS.when(options)
            | Detail::COOKIE.when(asked.extended || asked.kill)
            | Detail::AUTOBOUND.when(self.kernel.needs().kernel_only)
            | (Detail::TCP_INFO | Detail::CONGESTION).when(asked.info)
            | Detail::MEMORY.when(asked.memory)
            | Detail::SERVICE_CLASS.when(asked.service_class)
            | Detail::DIAG_DETAILS.when(self.wants_particulars())
    }

    const fn wants_particulars(&self) -> bool {
        self.asked.extended || self.asked.bpf || self.asked.info || self.asked.memory
    }

    /// Whoever closes sockets or saves messages needs them from netlink.
    fn choice(&self, group: &Group) -> Choice {
        let named = self.asked.source.map_or(Choice::Auto, |Source(choice)| choice);
        let needs_messages = self.asked.kill || self.asked.dump.is_some();
        if needs_messages {
            Choice::Diag
        } else if group.families == INET && self.refused().is_some() {
            Choice::Procfs
        } else {
            named
        }
    }

    fn holders(&self) -> anyhow::Result<Holders> {
        if !self.asked.processes && !self.asked.threads {
            return Ok(Holders::default());
        }
        let named = self.asked.source.map_or(Choice::Auto, |Source(choice)| choice);
        let (owners, _) = Owners::find(&self.engine, named)?;
        let threads = self.asked.threads.then(|| {
            let all = owners.iter().flat_map(|(_, owners)| owners.iter().copied());
            Threads::find(all)
        });
        Ok(Holders {
            owners: Some(owners),
            threads,
        })
    }

    /// A listing of its own, so that names are there when rows are made.
    fn look_up_hosts(&self) -> anyhow::Result<()> {
        let mut hosts: Vec<IpAddr> = Vec::new();
        for group in GROUPS
            .iter()
            .filter(|group| group.families == INET && self.wants(group))
        {
            let told = self.ask(group, &mut |socket, _| {
                let ends = [&socket.local, &socket.peer];
                hosts.extend(
                    ends.into_iter()
                        .filter_map(Endpoint::ip)
                        .filter(|ip| !ip.is_unspecified()),
                );
                ControlFlow::Continue(())
            });
            if let Err(error @ Error::Namespace(..)) = told {
                return Err(error.into());
            }
        }
        self.book.hosts(hosts);
        Ok(())
    }

    /// Tables that this kernel may lack, and that are not listed if it has them. What ss says of an absent one is said.
    fn absent(&self) {
        let selection = &self.asked.selection;
        let has_inet = INET.iter().any(|family| selection.has_family(*family));
        for (table, what, family, protocol) in [
            (Table::Dccp, "DCCP", Family::Inet, 33),
            (Table::Sctp, "SCTP", Family::Inet, 132),
            (Table::VsockStream, "VSOCK", Family::Unknown(40), 0),
            (Table::Tipc, "TIPC", Family::Unknown(30), 0),
            (Table::Xdp, "XDP", Family::Unknown(44), 0),
        ] {
            let is_wanted = selection.has(table)
                && if family == Family::Inet {
                    has_inet
                } else {
                    selection.has_family(family)
                };
            if !is_wanted {
                continue;
            }
            match refusal(family, protocol) {
                None => notes::say(&format!(
                    "sockeye ss: {what} sockets are not listed here, though this kernel may have some; ss of iproute2 lists them\n"
                )),
                Some(Errno::NOENT | Errno::OPNOTSUPP) => {}
                Some(errno) => {
                    let error = io::Error::from(errno);
                    notes::say(&format!("RTNETLINK answers: {}\n", errno_text(&error)));
                }
            }
        }
    }

    fn report(&self, losses: &Losses) {
        // ss says nothing of processes that it may not read.
        let quiet = Losses {
            unreadable_processes: 0,
            vanished_processes: 0,
            repeated_dumps: 0,
            ..*losses
        };
        sockeye_query::notes::losses(&quiet, false, false);
    }
}

impl Holders {
    fn of(&self, socket: &Socket) -> SsHolders<'_> {
        if let Some(threads) = &self.threads {
            return SsHolders::Threads(threads.of(socket.inode));
        }
        let owners = self
            .owners
            .as_ref()
            .zip(socket.inode)
            .map(|(owners, inode)| owners.of(inode));
        owners.map_or(SsHolders::None, |owners: &[Owner]| SsHolders::Processes(owners))
    }
}
