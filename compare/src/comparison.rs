//! The phases of a comparison: each fills the host, runs Sockeye and its peers in turns, and adds a table to the report.
//! `bench-compare` chooses the phases; which commands run is in `suite.rs`, and how they are judged in `judgement.rs`.

use crate::arguments::CompareArguments;
use crate::capturing;
use crate::close_sockets;
use crate::entry::Phase;
use crate::floor;
use crate::judgement::{judge, kilobytes};
use crate::kernel_totals::KernelTotals;
use crate::load::Load;
use crate::log;
use crate::namespaces::{Names, SOCKETS_IN_SET};
use crate::netns_operations::{self, NetnsOperation, OperationFigures};
use crate::network::{HostPair, Rows};
use crate::packets::{Plan, TransferKind};
use crate::profiling::{self, Work};
use crate::programs::sibling_or_on_path;
use crate::report::Table;
use crate::response_times;
use crate::run::{Figures, Installed, interleaved};
use crate::suite::{CAPTURE, LOG, entries};
use crate::transfers::{self, Extent};
use crate::tunnels;
use anyhow::{Context, Result, ensure};
use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

/// All phases, and their results so far.
pub struct Comparison {
    installed: Installed,
    bench_load: PathBuf,
    /// Figures of earlier phases, for targets that refer to them.
    measured: Vec<Figures>,
    tables: Vec<Table>,
}

/// The host of a phase.
struct Host {
    title: String,
    /// Sockets of the load: commands print at least as many lines.
    sockets: usize,
    /// The load's part of the kernel's totals.
    ours: KernelTotals,
}

impl Comparison {
    /// Begins without results.
    pub fn new(installed: Installed, bench_load: PathBuf) -> Self {
        Self {
            installed,
            bench_load,
            measured: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Returns the tables of all measured phases.
    pub fn into_tables(self) -> Vec<Table> {
        self.tables
    }

    /// Measures start-up, with almost nothing to show. Runs of a millisecond vary more and cost little: give it more rounds.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_empty_host(&mut self, rounds: usize) -> Result<()> {
        // A listener, because the first record of an empty list never comes.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
        let host = Host {
            title: "Nearly empty host".to_owned(),
            sockets: 1,
            ours: KernelTotals {
                tcp_sockets: 1,
                files: 1,
                namespaces: 1,
            },
        };
        self.measure(Phase::Empty, host, rounds)?;
        drop(listener);
        Ok(())
    }

    /// Measures listings of a host full of sockets: their time, and their memory.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_full_host(&mut self, arguments: &CompareArguments) -> Result<()> {
        let load = self.start(arguments.sockets, false)?;
        self.measure(Phase::Speed, Host::full("Speed", &load), arguments.rounds)?;
        let load = if arguments.memory_sockets == arguments.sockets {
            load
        } else {
            load.stop()?;
            self.start(arguments.memory_sockets, false)?
        };
        // Peaks hardly vary: a few rounds are enough.
        self.measure(
            Phase::Memory,
            Host::full("Memory", &load),
            arguments.rounds.min(3),
        )?;
        load.stop()
    }

    /// Measures flows of a host on which each connection comes from another address.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_distinct_clients(&mut self, arguments: &CompareArguments) -> Result<()> {
        let load = self.start(arguments.sockets, true)?;
        let host = Host::full("A client address for each connection", &load);
        self.measure(Phase::DistinctClients, host, arguments.rounds)?;
        load.stop()
    }

    /// Changes options of sockets of running processes, and then closes the sockets.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_socket_changes(&mut self, arguments: &CompareArguments) -> Result<()> {
        let sockets = arguments.changed;
        if sockets == 0 {
            return Ok(());
        }
        let load = self.start(sockets, false)?;
        self.measure(
            Phase::SocketOptions,
            Host::full("Keepalive", &load),
            arguments.rounds,
        )?;
        load.stop()?;
        let title = format!("Closing, {sockets} sockets");
        announce(&title);
        let mut report_progress = |text: &str| progress(&format!("{title}: {text}"));
        let rounds = arguments.rounds.div_ceil(3);
        let figures = close_sockets::closing(
            &self.installed,
            &self.bench_load,
            sockets,
            rounds,
            &mut report_progress,
        )?;
        self.judge(title, None, sockets, figures);
        Ok(())
    }

    /// Late, because the kernel removes namespaces some time after their end.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_namespaces(&mut self, arguments: &CompareArguments) -> Result<()> {
        const FEW: usize = CompareArguments::NAMESPACES_FEW;
        let many = arguments.namespaces;
        if many == 0 {
            return Ok(());
        }
        for (phase, namespaces) in [(Phase::FewNamespaces, FEW), (Phase::Namespaces, many)] {
            // One set per namespace of the large phase, in both phases.
            let sets = many / namespaces;
            let sockets = many * SOCKETS_IN_SET;
            let title = format!("{namespaces} named namespaces, {sockets} sockets");
            let names = match empty_folder(&title, namespaces) {
                Ok(names) => names,
                Err(why) => {
                    let figures = Figures::absent(entries(phase), &why);
                    self.judge(title, None, sockets, figures);
                    continue;
                }
            };
            progress(&format!("making {title}"));
            let load = Load::start_namespaces(&self.bench_load, namespaces, sets, 0)?;
            ensure!(
                load.sockets() == sockets,
                "the load has {} sockets, not {sockets}",
                load.sockets()
            );
            let host = Host {
                title,
                sockets,
                ours: KernelTotals {
                    // One of the four in a set is UDP.
                    tcp_sockets: (3 * many) as u64,
                    files: sockets as u64,
                    namespaces: namespaces as u64 + 1,
                },
            };
            self.measure(phase, host, arguments.rounds)?;
            load.stop()?;
            drop(names);
        }
        Ok(())
    }

    /// Lists named namespaces with a process in each.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_namespace_lists(&mut self, arguments: &CompareArguments) -> Result<()> {
        let namespaces = 2 * arguments.operations;
        if namespaces == 0 {
            return Ok(());
        }
        let title = format!("{namespaces} named namespaces, a process in each");
        let names = match empty_folder(&title, namespaces) {
            Ok(names) => names,
            Err(why) => {
                let figures = Figures::absent(entries(Phase::ListedNamespaces), &why);
                self.judge(title, None, namespaces, figures);
                return Ok(());
            }
        };
        progress("waiting until the namespaces of before are freed");
        netns_operations::settle(&self.installed)?;
        progress(&format!("making {title}"));
        let load = Load::start_namespaces(&self.bench_load, namespaces, 0, 1)?;
        let host = Host {
            title,
            sockets: namespaces,
            ours: KernelTotals {
                tcp_sockets: 0,
                // Mapped files are open too: the program, its libraries, its locale.
                files: (20 * namespaces) as u64,
                namespaces: namespaces as u64 + 1,
            },
        };
        self.measure(Phase::ListedNamespaces, host, arguments.rounds)?;
        load.stop()?;
        drop(names);
        Ok(())
    }

    /// Captures of a few connections, of one, and of very many: long, short, and half-open.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_capture_analysis(&mut self, arguments: &CompareArguments) -> Result<()> {
        let packets = arguments.packets;
        if packets == 0 {
            return Ok(());
        }
        let crowd = u32::try_from(packets / PACKETS_EACH).unwrap_or(u32::MAX);
        let short = TransferKind::Short(SHORT_PACKETS);
        for (phase, connections, kind, packets) in [
            (Phase::CapturedTransfers, 5, TransferKind::Long, packets),
            (Phase::SingleTransfer, 1, TransferKind::Long, packets),
            (Phase::ManyTransfers, crowd.max(1), TransferKind::Long, packets),
            (Phase::BulkTransfers, 100, TransferKind::Long, packets),
            // tcptrace needs two minutes for a million connections.
            (Phase::ShortTransfers, 1_000, short, packets / 2),
            (
                Phase::HalfOpenConnections,
                1_000,
                TransferKind::HalfOpen,
                packets / 2,
            ),
        ] {
            let title = match (kind, connections) {
                (TransferKind::Long, 1) => {
                    format!("A capture of one connection, {packets} packets, snaplen 100")
                }
                (TransferKind::Long, many) => {
                    format!("A capture of {many} connections at a time, {packets} packets, snaplen 100")
                }
                (TransferKind::Short(each), _) => {
                    format!("A capture of connections of {each} packets each, {packets} packets, snaplen 100")
                }
                (TransferKind::HalfOpen, _) => format!("A capture of {packets} SYNs that nothing answers"),
            };
            let plan = Plan {
                packets: packets as u64,
                connections,
                kind,
                snaplen: 100,
                seed: 1,
            };
            let write = |out: &mut dyn Write| plan.write(&mut { out });
            // Some runs take half a minute each.
            self.in_folder(phase, title, packets, arguments.rounds.min(3), CAPTURE, &write)?;
        }
        Ok(())
    }

    /// Captures packets while they are sent at the highest possible rate.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_capturing(&mut self, arguments: &CompareArguments) -> Result<()> {
        if arguments.packets == 0 {
            return Ok(());
        }
        let title = "Capturing on lo, at the highest rate that one sender reaches".to_owned();
        announce(&title);
        let blast = sibling_or_on_path("bench-blast")
            .context("bench-blast is not in the folder of this program: build it too")?;
        let folder = std::env::temp_dir().join(format!("sockeye-compare-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        let seconds = if arguments.rounds <= QUICK_ROUNDS {
            0.5
        } else {
            5.0
        };
        let mut report_progress = |text: &str| progress(&format!("{title}: {text}"));
        let rounds = arguments.rounds.div_ceil(3);
        let captured = capturing::interleaved(
            &self.installed,
            &blast,
            &folder,
            seconds,
            rounds,
            &mut report_progress,
        );
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        self.tables.push(Table {
            rows: captured.rows,
            notes: captured.notes,
            title,
            warning: None,
        });
        Ok(())
    }

    /// Explains a long log.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_log_explanation(&mut self, arguments: &CompareArguments) -> Result<()> {
        let lines = arguments.log_lines;
        if lines == 0 {
            return Ok(());
        }
        let title = format!("A log of {lines} lines");
        let write = |out: &mut dyn Write| log::write(lines, &mut { out });
        self.in_folder(Phase::KernelLog, title, lines, arguments.rounds, LOG, &write)
    }

    /// Writes a file in a new current folder: commands use only the file's name.
    fn in_folder(
        &mut self,
        phase: Phase,
        title: String,
        count: usize,
        rounds: usize,
        file: &str,
        write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        progress(&format!("making {title}"));
        let back = std::env::current_dir().context("finding the current folder")?;
        let folder = std::env::temp_dir().join(format!("sockeye-compare-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        let measured = write_file(&folder.join(file), write)
            .and_then(|()| {
                std::env::set_current_dir(&folder).with_context(|| format!("going to {}", folder.display()))
            })
            .and_then(|()| {
                let host = Host {
                    title,
                    sockets: count,
                    ours: KernelTotals {
                        tcp_sockets: 0,
                        files: 1,
                        namespaces: 1,
                    },
                };
                self.measure(phase, host, rounds)
            });
        std::env::set_current_dir(&back).with_context(|| format!("going back to {}", back.display()))?;
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        measured
    }

    /// Network measurements: transfers, response times, and tunnels.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_network(&mut self, arguments: &CompareArguments) -> Result<()> {
        let seconds = arguments.seconds;
        if seconds == 0 {
            return Ok(());
        }
        let this = std::env::current_exe().context("finding this program")?;
        let hosts = match HostPair::new(&this).and_then(|hosts| hosts.join().map(|()| hosts)) {
            Ok(hosts) => hosts,
            Err(error) => {
                let note = format!("not measured: {error:#}");
                self.add_table(
                    NETWORK.to_owned(),
                    Rows {
                        notes: vec![note],
                        ..Rows::default()
                    },
                );
                return Ok(());
            }
        };
        let is_quick = arguments.rounds <= QUICK_ROUNDS;
        let rounds = arguments.rounds.div_ceil(3);
        let (extent, tun_seconds) = if is_quick {
            (Extent::Mebibytes(64), 0.3)
        } else {
            (Extent::Seconds(seconds), 1.0)
        };
        announce(TRANSFERS);
        let mut report_progress = |text: &str| progress(&format!("{TRANSFERS}: {text}"));
        let streamed = transfers::interleaved(&self.installed, &hosts, extent, rounds, &mut report_progress);
        self.add_table(TRANSFERS.to_owned(), streamed);
        announce(RESPONSE_TIMES);
        let mut report_progress = |text: &str| progress(&format!("{RESPONSE_TIMES}: {text}"));
        let answered =
            response_times::interleaved(&self.installed, &hosts, seconds, rounds, &mut report_progress);
        self.add_table(RESPONSE_TIMES.to_owned(), answered);
        announce(TUNNELS);
        progress(TUNNELS);
        let repeats = rounds.min(3);
        let tunnelled = tunnels::measured(&self.installed, &hosts, tun_seconds, repeats);
        self.add_table(TUNNELS.to_owned(), tunnelled);
        Ok(())
    }

    /// Profiled programs.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_profilers(&mut self, arguments: &CompareArguments) -> Result<()> {
        let thousands = arguments.profiled;
        if thousands == 0 {
            return Ok(());
        }
        let this = std::env::current_exe().context("finding this program")?;
        let work = Work {
            bytes: 500 * thousands,
            steps: 1_000_000 * thousands,
            calls: 100 * thousands,
        };
        announce(PROFILES);
        let mut report_progress = |text: &str| progress(&format!("{PROFILES}: {text}"));
        let rows = profiling::interleaved(
            &self.installed,
            &this,
            work,
            arguments.rounds,
            &mut report_progress,
        );
        let rows = rows.unwrap_or_else(|error| Rows {
            notes: vec![format!("not measured: {error:#}")],
            ..Rows::default()
        });
        self.add_table(PROFILES.to_owned(), rows);
        Ok(())
    }

    fn add_table(&mut self, title: String, rows: Rows) {
        self.tables.push(Table {
            rows: rows.rows,
            notes: rows.notes,
            title,
            warning: None,
        });
    }

    /// Last, because they wait until the kernel has removed all namespaces.
    ///
    /// # Errors
    /// If a command fails or prints too little.
    pub fn measure_operations(&mut self, arguments: &CompareArguments) -> Result<()> {
        let count = arguments.operations;
        if count == 0 {
            return Ok(());
        }
        let (first, last) = (count / 2, 5 * count / 2);
        for (title, operations) in [
            (
                format!("Making {count} named namespaces"),
                netns_operations::making(count),
            ),
            (
                format!("Flat: the last {first} of {last} named namespaces compared with the first"),
                netns_operations::flat(count),
            ),
            (
                format!("Removing {count} named namespaces"),
                netns_operations::removing(count),
            ),
        ] {
            self.measure_operation(title, &operations, arguments.rounds.div_ceil(3))?;
        }
        Ok(())
    }

    fn measure_operation(
        &mut self,
        title: String,
        operations: &[NetnsOperation],
        rounds: usize,
    ) -> Result<()> {
        announce(&title);
        let most = operations
            .iter()
            .map(|operation| operation.before.max(operation.after))
            .max()
            .unwrap_or(0);
        let measured = match empty_folder(&title, most) {
            Ok(_names) => {
                let mut report_progress = |text: &str| progress(&format!("{title}: {text}"));
                netns_operations::interleaved(operations, &self.installed, rounds, &mut report_progress)?
            }
            Err(why) => netns_operations::absent(operations, &why),
        };
        let notes = measured.iter().filter_map(memory).collect();
        let figures: Vec<Figures> = measured.into_iter().map(|operation| operation.figures).collect();
        self.tables.push(Table {
            rows: judge(&figures, &[], 0),
            title,
            warning: None,
            notes,
        });
        Ok(())
    }

    fn start(&self, sockets: usize, distinct_clients: bool) -> Result<Load> {
        progress(&format!("making {sockets} sockets"));
        let load = Load::start_program(&self.bench_load, sockets, distinct_clients)?;
        let seen = floor::dump(floor::Request::default())
            .context("counting the load")?
            .records;
        ensure!(
            seen >= load.sockets() as u64,
            "the load has {} sockets, the kernel reports {seen}",
            load.sockets()
        );
        Ok(load)
    }

    fn measure(&mut self, phase: Phase, host: Host, rounds: usize) -> Result<()> {
        let Host { title, sockets, ours } = host;
        announce(&title);
        // Also between the rounds: other processes come and go.
        let mut there = KernelTotals::now()?;
        let mut report_progress = |text: &str| {
            progress(&format!("{title}: {text}"));
            // A failed reading is ignored: there are others.
            there = there.max(KernelTotals::now().unwrap_or_default());
        };
        let figures = interleaved(
            entries(phase),
            &self.installed,
            sockets,
            WARM_UPS,
            rounds,
            &mut report_progress,
        )?;
        report_progress("done");
        let others = there.without(ours);
        self.judge(title, others.warning(), sockets, figures);
        Ok(())
    }

    fn judge(&mut self, title: String, warning: Option<String>, sockets: usize, figures: Vec<Figures>) {
        self.tables.push(Table {
            rows: judge(&figures, &self.measured, sockets),
            title,
            warning,
            notes: Vec::new(),
        });
        self.measured.extend(figures);
    }
}

impl Host {
    fn full(what: &str, load: &Load) -> Self {
        Self {
            title: format!("{what}, {} sockets", load.sockets()),
            sockets: load.sockets(),
            ours: KernelTotals {
                tcp_sockets: load.sockets() as u64,
                files: load.sockets() as u64,
                namespaces: 1,
            },
        }
    }
}

fn write_file(path: &Path, write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("creating {}", path.display()))?;
    let mut out = std::io::BufWriter::with_capacity(1 << 20, file);
    write(&mut out)
        .and_then(|()| out.flush())
        .with_context(|| format!("writing {}", path.display()))
}

/// An empty folder for names, or the reason why there is none, which is also printed at once.
fn empty_folder(title: &str, namespaces: usize) -> Result<Names, String> {
    let names = netns_operations::check_memory(namespaces)
        .and_then(|()| Names::isolate().map_err(|error| format!("{error:#}")));
    names.inspect_err(|why| eprintln!("bench-compare: {title}: not measured: {why}"))
}

/// Memory of the namespaces that an operation has left; `None` if it has left none.
fn memory(operation: &OperationFigures) -> Option<String> {
    let (each, there) = (operation.bytes_per_namespace?, operation.after);
    Some(format!(
        "{there} namespaces: {} of kernel memory each (Slab and Percpu of /proc/meminfo)",
        kilobytes(each)
    ))
}

/// Without a terminal for progress, prints a line per phase, so that a log shows activity.
fn announce(title: &str) {
    if !std::io::stderr().is_terminal() {
        eprintln!("bench-compare: {title}");
    }
}

/// Shows progress on a terminal, on one line; see `announce` for other outputs.
pub fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // A failed write of progress is ignored.
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
    }
}

const NETWORK: &str = "Transfers, answers and tunnels";
const TRANSFERS: &str = "Transfers, compared with iperf3";
const RESPONSE_TIMES: &str = "Answers, compared with sockperf";
const TUNNELS: &str = "Tunnels, compared with the bare veth pair";
const PROFILES: &str = "Profiles, compared with strace";
const WARM_UPS: usize = 1;
/// So few rounds show that everything works, not its speed.
const QUICK_ROUNDS: usize = 3;
/// Packets per connection, if there are very many connections.
const PACKETS_EACH: usize = 24;

/// Packets of a short connection: handshake, request, answer, end.
const SHORT_PACKETS: u32 = 10;
