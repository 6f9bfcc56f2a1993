//! Runs Sockeye and its peers interleaved on a host full of sockets, and prints ratios and verdicts.

use anyhow::{Context, Result, ensure};
use sockeye_compare::answers;
use sockeye_compare::arguments::CompareArguments;
use sockeye_compare::attended::{ATTEND, HOLD_NETNS, attend, hold_namespace};
use sockeye_compare::capturing;
use sockeye_compare::deeds;
use sockeye_compare::document;
use sockeye_compare::exercise::{EXERCISE, exercise};
use sockeye_compare::floor;
use sockeye_compare::judgement::{judge, kilobytes};
use sockeye_compare::load::Load;
use sockeye_compare::log;
use sockeye_compare::machine::Machine;
use sockeye_compare::measure::{SUPERVISE, supervise};
use sockeye_compare::namespaces::{Names, SOCKETS_IN_SET};
use sockeye_compare::neighbours::Neighbours;
use sockeye_compare::netns;
use sockeye_compare::netns_acts::{self, Act, ActFigures};
use sockeye_compare::network::{Rows, Site};
use sockeye_compare::packets::Plan;
use sockeye_compare::profiling::{self, Work};
use sockeye_compare::programs::{beside_or_on_path, is_executable, on_path};
use sockeye_compare::report::{Report, Table};
use sockeye_compare::run::{Figures, Installed, interleaved};
use sockeye_compare::suite::{CAPTURE, LOG, Phase, entries};
use sockeye_compare::transfers::{self, Extent};
use sockeye_compare::tunnels;
use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    // First of all and with nothing done before: this process must stay small.
    if words.next_if(|word| word == SUPERVISE).is_some() {
        return exit(supervise(words).map(|()| true));
    }
    if words.next_if(|word| word == ATTEND).is_some() {
        return exit(attend(words).map(|()| true));
    }
    if words.next_if(|word| word == HOLD_NETNS).is_some() {
        return exit(hold_namespace().map(|()| true));
    }
    if words.next_if(|word| word == EXERCISE).is_some() {
        return exit(exercise(words).map(|()| true));
    }
    let arguments = match CompareArguments::parse(words) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("bench-compare: {usage}");
            return ExitCode::from(2);
        }
    };
    if arguments.help {
        println!("{}", CompareArguments::HELP);
        return ExitCode::SUCCESS;
    }
    exit(compare(&arguments))
}

fn exit(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-compare: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// True if all went well, or well enough.
fn compare(arguments: &CompareArguments) -> Result<bool> {
    if let Some(sockeye) = &arguments.sockeye {
        ensure!(
            is_executable(sockeye),
            "--sockeye {}: no such program",
            sockeye.display()
        );
    }
    // A document that cannot take the report should be known before the work, not after.
    let document = arguments.markdown.as_deref().map(read_document).transpose()?;
    let installed = Installed {
        floor: beside_or_on_path("bench-floor"),
        // Also from another folder, where captures are.
        sockeye: arguments
            .sockeye
            .as_ref()
            .map(|sockeye| sockeye.canonicalize())
            .transpose()
            .context("finding sockeye")?
            .or_else(|| beside_or_on_path("sockeye")),
        peer: on_path,
    };
    let bench_load =
        beside_or_on_path("bench-load").context("bench-load is not beside this program: build it too")?;

    let mut method = vec![format!("rounds: {}, interleaved, medians", arguments.rounds)];
    method.push(if arguments.host_netns {
        "measured in the network namespace of the host, whose own sockets are counted too".to_owned()
    } else if netns::enter_private()? {
        "measured in a network namespace of its own".to_owned()
    } else {
        eprintln!("bench-compare: no rights to make a network namespace: the host's own sockets are measured too");
        "measured on the host itself (no rights to make a network namespace), whose own sockets are counted too".to_owned()
    });
    let mut machine = Machine::this();
    machine.ask_version("sockeye", installed.sockeye.as_deref(), "--version");
    machine.ask_version("ss", on_path("ss").as_deref(), "-V");
    machine.ask_version("netstat", on_path("netstat").as_deref(), "-V");
    machine.ask_version("lsof", on_path("lsof").as_deref(), "-v");
    machine.ask_version("ip", on_path("ip").as_deref(), "-V");
    machine.ask_version("tshark", on_path("tshark").as_deref(), "--version");
    machine.ask_version("tcptrace", on_path("tcptrace").as_deref(), "-version");
    machine.ask_version("iperf3", on_path("iperf3").as_deref(), "--version");
    machine.ask_version("sockperf", on_path("sockperf").as_deref(), "--version");
    machine.ask_version("strace", on_path("strace").as_deref(), "--version");
    machine.ask_version("lstf", on_path("lstf").as_deref(), "--version");

    let mut comparison = Comparison {
        installed,
        bench_load,
        measured: Vec::new(),
        tables: Vec::new(),
    };
    let is_whole = !arguments.only_network && !arguments.only_profiles;
    if is_whole {
        comparison.empty(4 * arguments.rounds)?;
        comparison.full(arguments)?;
        comparison.changed(arguments)?;
        comparison.namespaces(arguments)?;
        comparison.listed(arguments)?;
        comparison.captured(arguments)?;
        comparison.capturing(arguments)?;
        comparison.logged(arguments)?;
    }
    if !arguments.only_profiles {
        comparison.network(arguments)?;
    }
    if !arguments.only_network {
        comparison.profiled(arguments)?;
    }
    if is_whole {
        comparison.acts(arguments)?;
    }
    let report = Report {
        machine,
        method,
        tables: comparison.tables,
    };

    progress("");
    let mut stdout = std::io::stdout();
    write!(stdout, "{}", report.text())
        .and_then(|()| stdout.flush())
        .context("stdout")?;
    if let (Some(path), Some(document)) = (&arguments.markdown, document) {
        let document = document::replace(&document, &report.markdown())
            .context("putting the report into the document")?;
        std::fs::write(path, document).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(!arguments.strict || report.tally().is_clean())
}

/// The phases in turn, and what they have brought so far.
struct Comparison {
    installed: Installed,
    bench_load: PathBuf,
    /// Of all phases so far, for targets that look back.
    measured: Vec<Figures>,
    tables: Vec<Table>,
}

/// The host that a phase is measured on.
struct Host {
    title: String,
    /// What the load counts: commands print at least as many lines.
    sockets: usize,
    /// What the kernel counts that is ours.
    ours: Neighbours,
}

impl Comparison {
    /// Runs of a millisecond scatter more, and cost little: more rounds.
    fn empty(&mut self, rounds: usize) -> Result<()> {
        // The first record of nothing never comes.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
        let host = Host {
            title: "Nearly empty host".to_owned(),
            sockets: 1,
            ours: Neighbours {
                tcp_sockets: 1,
                files: 1,
                namespaces: 1,
            },
        };
        self.measure(Phase::Empty, host, rounds)?;
        drop(listener);
        Ok(())
    }

    fn full(&mut self, arguments: &CompareArguments) -> Result<()> {
        let load = self.start(arguments.sockets)?;
        self.measure(Phase::Speed, Host::full("Speed", &load), arguments.rounds)?;
        let load = if arguments.memory_sockets == arguments.sockets {
            load
        } else {
            load.stop()?;
            self.start(arguments.memory_sockets)?
        };
        // Peaks hardly scatter: a few rounds are enough.
        self.measure(
            Phase::Memory,
            Host::full("Memory", &load),
            arguments.rounds.min(3),
        )?;
        load.stop()
    }

    /// Sockets of running processes, which are changed, and then closed.
    fn changed(&mut self, arguments: &CompareArguments) -> Result<()> {
        let sockets = arguments.changed;
        if sockets == 0 {
            return Ok(());
        }
        let load = self.start(sockets)?;
        self.measure(Phase::Kept, Host::full("Keepalive", &load), arguments.rounds)?;
        load.stop()?;
        let title = format!("Closing, {sockets} sockets");
        announce(&title);
        let mut tell = |text: &str| progress(&format!("{title}: {text}"));
        let rounds = arguments.rounds.div_ceil(3);
        let figures = deeds::closing(&self.installed, &self.bench_load, sockets, rounds, &mut tell)?;
        self.judge(title, None, sockets, figures);
        Ok(())
    }

    /// Late, because the kernel goes on clearing namespaces away after their end.
    fn namespaces(&mut self, arguments: &CompareArguments) -> Result<()> {
        const FEW: usize = CompareArguments::NAMESPACES_FEW;
        let many = arguments.namespaces;
        if many == 0 {
            return Ok(());
        }
        for (phase, namespaces) in [(Phase::FewNamespaces, FEW), (Phase::Namespaces, many)] {
            // A set for each of the many, whichever holds it.
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
                "the load says {} sockets, not {sockets}",
                load.sockets()
            );
            let host = Host {
                title,
                sockets,
                ours: Neighbours {
                    // Of the four in a set, one is UDP.
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

    fn listed(&mut self, arguments: &CompareArguments) -> Result<()> {
        let namespaces = 2 * arguments.acts;
        if namespaces == 0 {
            return Ok(());
        }
        let title = format!("{namespaces} named namespaces, a process in each");
        let names = match empty_folder(&title, namespaces) {
            Ok(names) => names,
            Err(why) => {
                let figures = Figures::absent(entries(Phase::Listed), &why);
                self.judge(title, None, namespaces, figures);
                return Ok(());
            }
        };
        progress("waiting until the namespaces of before are freed");
        netns_acts::settle(&self.installed)?;
        progress(&format!("making {title}"));
        let load = Load::start_namespaces(&self.bench_load, namespaces, 0, 1)?;
        let host = Host {
            title,
            sockets: namespaces,
            ours: Neighbours {
                tcp_sockets: 0,
                // Mapped ones are open too: the program, its libraries, its locale.
                files: (20 * namespaces) as u64,
                namespaces: namespaces as u64 + 1,
            },
        };
        self.measure(Phase::Listed, host, arguments.rounds)?;
        load.stop()?;
        drop(names);
        Ok(())
    }

    /// Captures of a few connections, of one, and of very many.
    fn captured(&mut self, arguments: &CompareArguments) -> Result<()> {
        let packets = arguments.packets;
        if packets == 0 {
            return Ok(());
        }
        let crowd = u32::try_from(packets / PACKETS_EACH).unwrap_or(u32::MAX);
        for (phase, connections) in [
            (Phase::Captured, 5),
            (Phase::Drawn, 1),
            (Phase::Crowded, crowd.max(1)),
        ] {
            let title = match connections {
                1 => format!("A capture of one connection, {packets} packets, snaplen 100"),
                many => format!("A capture of {many} connections at a time, {packets} packets, snaplen 100"),
            };
            let plan = Plan {
                packets: packets as u64,
                connections,
                snaplen: 100,
                seed: 1,
            };
            let write = |out: &mut dyn Write| plan.write(&mut { out });
            // Some take half a minute each.
            self.in_folder(phase, title, packets, arguments.rounds.min(3), CAPTURE, &write)?;
        }
        Ok(())
    }

    /// Packets are captured while they are sent, at the highest rate that there is.
    fn capturing(&mut self, arguments: &CompareArguments) -> Result<()> {
        if arguments.packets == 0 {
            return Ok(());
        }
        let title = "Capturing on lo, at the highest rate that one sender reaches".to_owned();
        announce(&title);
        let blast = beside_or_on_path("bench-blast")
            .context("bench-blast is not beside this program: build it too")?;
        let folder = std::env::temp_dir().join(format!("sockeye-compare-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        let seconds = if arguments.rounds <= QUICK_ROUNDS {
            0.5
        } else {
            5.0
        };
        let mut tell = |text: &str| progress(&format!("{title}: {text}"));
        let rounds = arguments.rounds.div_ceil(3);
        let captured = capturing::interleaved(&self.installed, &blast, &folder, seconds, rounds, &mut tell);
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
        self.tables.push(Table {
            rows: captured.rows,
            notes: captured.notes,
            title,
            warning: None,
        });
        Ok(())
    }

    fn logged(&mut self, arguments: &CompareArguments) -> Result<()> {
        let lines = arguments.log_lines;
        if lines == 0 {
            return Ok(());
        }
        let title = format!("A log of {lines} lines");
        let write = |out: &mut dyn Write| log::write(lines, &mut { out });
        self.in_folder(Phase::Logged, title, lines, arguments.rounds, LOG, &write)
    }

    /// A file in a folder of its own, which is the current one meanwhile: commands name the file only.
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
                    ours: Neighbours {
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

    /// What goes through a network of our own: much, quickly answered, or through a tunnel.
    fn network(&mut self, arguments: &CompareArguments) -> Result<()> {
        let seconds = arguments.seconds;
        if seconds == 0 {
            return Ok(());
        }
        let this = std::env::current_exe().context("finding this program")?;
        let site = match Site::new(&this).and_then(|site| site.join().map(|()| site)) {
            Ok(site) => site,
            Err(error) => {
                let note = format!("not measured: {error:#}");
                self.told(
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
        announce(STREAMED);
        let mut tell = |text: &str| progress(&format!("{STREAMED}: {text}"));
        let streamed = transfers::interleaved(&self.installed, &site, extent, rounds, &mut tell);
        self.told(STREAMED.to_owned(), streamed);
        announce(ANSWERED);
        let mut tell = |text: &str| progress(&format!("{ANSWERED}: {text}"));
        let answered = answers::interleaved(&self.installed, &site, seconds, rounds, &mut tell);
        self.told(ANSWERED.to_owned(), answered);
        announce(TUNNELLED);
        progress(TUNNELLED);
        let repeats = rounds.min(3);
        let tunnelled = tunnels::measured(&self.installed, &site, tun_seconds, repeats);
        self.told(TUNNELLED.to_owned(), tunnelled);
        Ok(())
    }

    /// Programs that are looked at.
    fn profiled(&mut self, arguments: &CompareArguments) -> Result<()> {
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
        announce(PROFILED);
        let mut tell = |text: &str| progress(&format!("{PROFILED}: {text}"));
        let rows = profiling::interleaved(&self.installed, &this, work, arguments.rounds, &mut tell);
        let rows = rows.unwrap_or_else(|error| Rows {
            notes: vec![format!("not measured: {error:#}")],
            ..Rows::default()
        });
        self.told(PROFILED.to_owned(), rows);
        Ok(())
    }

    fn told(&mut self, title: String, told: Rows) {
        self.tables.push(Table {
            rows: told.rows,
            notes: told.notes,
            title,
            warning: None,
        });
    }

    /// Last of all, for the same reason; they wait for the end of that clearing themselves.
    fn acts(&mut self, arguments: &CompareArguments) -> Result<()> {
        let count = arguments.acts;
        if count == 0 {
            return Ok(());
        }
        let (first, last) = (count / 2, 5 * count / 2);
        for (title, acts) in [
            (
                format!("Making {count} named namespaces"),
                netns_acts::making(count),
            ),
            (
                format!("Flat: the last {first} of {last} named namespaces beside the first"),
                netns_acts::flat(count),
            ),
            (
                format!("Removing {count} named namespaces"),
                netns_acts::removing(count),
            ),
        ] {
            self.act(title, &acts, arguments.rounds.div_ceil(3))?;
        }
        Ok(())
    }

    fn act(&mut self, title: String, acts: &[Act], rounds: usize) -> Result<()> {
        announce(&title);
        let most = acts
            .iter()
            .map(|act| act.before.max(act.after))
            .max()
            .unwrap_or(0);
        let measured = match empty_folder(&title, most) {
            Ok(_names) => {
                let mut tell = |text: &str| progress(&format!("{title}: {text}"));
                netns_acts::interleaved(acts, &self.installed, rounds, &mut tell)?
            }
            Err(why) => netns_acts::absent(acts, &why),
        };
        let notes = measured.iter().filter_map(memory).collect();
        let figures: Vec<Figures> = measured.into_iter().map(|act| act.figures).collect();
        self.tables.push(Table {
            rows: judge(&figures, &[], 0),
            title,
            warning: None,
            notes,
        });
        Ok(())
    }

    fn start(&self, sockets: usize) -> Result<Load> {
        progress(&format!("making {sockets} sockets"));
        let load = Load::start_program(&self.bench_load, sockets)?;
        let seen = floor::dump(floor::Request::default())
            .context("counting the load")?
            .records;
        ensure!(
            seen >= load.sockets() as u64,
            "the load says {} sockets, the kernel {seen}",
            load.sockets()
        );
        Ok(load)
    }

    fn measure(&mut self, phase: Phase, host: Host, rounds: usize) -> Result<()> {
        let Host { title, sockets, ours } = host;
        announce(&title);
        // Between the rounds too: others come and go.
        let mut there = Neighbours::now()?;
        let mut tell = |text: &str| {
            progress(&format!("{title}: {text}"));
            // What cannot be read now could be read before, and will be again.
            there = there.max(Neighbours::now().unwrap_or_default());
        };
        let figures = interleaved(
            entries(phase),
            &self.installed,
            sockets,
            WARM_UPS,
            rounds,
            &mut tell,
        )?;
        tell("done");
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
            ours: Neighbours {
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

/// A folder for so many names, or why there is none, which is told at once too.
fn empty_folder(title: &str, namespaces: usize) -> Result<Names, String> {
    let names = netns_acts::room(namespaces)
        .and_then(|()| Names::hide_others().map_err(|error| format!("{error:#}")));
    names.inspect_err(|why| eprintln!("bench-compare: {title}: not measured: {why}"))
}

/// What the namespaces that an act has left take; nothing of one that has left none.
fn memory(act: &ActFigures) -> Option<String> {
    let (each, there) = (act.bytes_each?, act.after);
    Some(format!(
        "{there} namespaces: {} of kernel memory each (Slab and Percpu of /proc/meminfo)",
        kilobytes(each)
    ))
}

/// Where there is no terminal for progress, a line a phase: a log shall show that this lives.
fn announce(title: &str) {
    if !std::io::stderr().is_terminal() {
        eprintln!("bench-compare: {title}");
    }
}

/// Long work shows itself on a terminal, on one line; see [`announce`] for anywhere else.
fn progress(text: &str) {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
    }
}

fn read_document(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    document::replace(&text, "").with_context(|| path.display().to_string())?;
    Ok(text)
}

const NETWORK: &str = "Transfers, answers and tunnels";
const STREAMED: &str = "Transfers, beside iperf3";
const ANSWERED: &str = "Answers, beside sockperf";
const TUNNELLED: &str = "Tunnels, beside the bare veth pair";
const PROFILED: &str = "Profiles, beside strace";
const WARM_UPS: usize = 1;
/// So few rounds show that everything runs, not how fast it is.
const QUICK_ROUNDS: usize = 3;
/// Of each connection, where there are very many.
const PACKETS_EACH: usize = 24;
