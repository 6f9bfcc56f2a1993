//! Command line arguments, parsed. Errors are whole sentences for stderr; the programs then exit with 2.

use crate::holder::Clients;
use crate::load::SOCKETS_DEFAULT;
use crate::namespaces::{SOCKETS_IN_SET, Share};
use crate::packets::{Plan, TransferKind};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// An error on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; try --help", self.0)
    }
}

impl std::error::Error for Usage {}

/// A command of `bench-load`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadArguments {
    /// Show the help.
    Help,
    /// Create the load.
    Make {
        /// Number of sockets: both ends of each connection count.
        sockets: usize,
        /// Whether to create a network namespace for the load.
        private_netns: bool,
        /// Whether each connection comes from an address of its own.
        distinct_clients: bool,
    },
    /// Create a load of named namespaces.
    MakeNamespaces {
        /// Number of namespaces.
        namespaces: usize,
        /// Sets of four sockets per namespace.
        sets: usize,
    },
    /// Run as one of the processes of a load.
    Hold {
        /// Number of the process.
        number: usize,
        /// Number of its connections.
        connections: usize,
        /// Where they come from.
        clients: Clients,
    },
    /// Run as one of the processes of a load of named namespaces.
    HoldNamespaces(Share),
}

impl LoadArguments {
    /// The text of `--help`.
    pub const HELP: &str = "\
usage: bench-load [--sockets N] [--private-netns] [--distinct-clients]
       bench-load --namespaces N [--sockets N]

Holds N TCP sockets (default 79200), both ends of loopback connections, in at least four processes.
Prints `ready N sockets` when all stand; ends when its stdin closes, or by SIGTERM or SIGINT.

  --sockets N       how many sockets, both ends counted, listeners not
  --private-netns   make them in a network namespace of their own (root)
  --distinct-clients
                    each connection comes from an address, and a /24, of its own: each socket is a flow
  --namespaces N    make N named network namespaces (root) with four sockets each, or as many fours as --sockets
                    asks for; only this program sees the names: nsenter --mount --target PID COMMAND";

    /// Parses the arguments after the program's name.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, Usage> {
        let mut arguments = arguments;
        let (mut sockets, mut namespaces, mut private_netns) = (None, None, false);
        let mut distinct_clients = false;
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--help" | "-h") => return Ok(Self::Help),
                Some("--sockets") => sockets = Some(number("--sockets", arguments.next())?),
                Some("--namespaces") => namespaces = Some(number("--namespaces", arguments.next())?),
                Some("--private-netns") => private_netns = true,
                Some("--distinct-clients") => distinct_clients = true,
                Some("--hold") => {
                    let mut next = || number("--hold", arguments.next());
                    return Ok(Self::Hold {
                        number: next()?,
                        connections: next()?,
                        clients: Clients::Few,
                    });
                }
                Some("--hold-clients") => {
                    let mut next = || number("--hold-clients", arguments.next());
                    return Ok(Self::Hold {
                        number: next()?,
                        connections: next()?,
                        clients: Clients::Distinct { first: next()? },
                    });
                }
                Some("--hold-namespaces") => {
                    let mut next = || number("--hold-namespaces", arguments.next());
                    return Ok(Self::HoldNamespaces(Share {
                        first: next()?,
                        namespaces: next()?,
                        sets: next()?,
                        idlers: next()?,
                    }));
                }
                _ => return Err(unknown(&argument)),
            }
        }
        Ok(match namespaces {
            None => Self::Make {
                sockets: sockets.unwrap_or(SOCKETS_DEFAULT),
                private_netns,
                distinct_clients,
            },
            Some(namespaces) => Self::MakeNamespaces {
                namespaces,
                sets: sockets.map_or(1, |sockets| {
                    sockets.div_ceil(SOCKETS_IN_SET).div_ceil(namespaces.max(1))
                }),
            },
        })
    }
}

/// A command of `bench-packets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketsArguments {
    /// Show the help.
    Help,
    /// Create the capture.
    Make {
        /// Its content.
        plan: Plan,
        /// The file.
        output: PathBuf,
    },
}

impl PacketsArguments {
    /// The text of `--help`.
    pub const HELP: &str = "\
usage: bench-packets [--packets N] [--connections N] [--each N | --half-open] [--snaplen N] [--seed N] -o FILE

Writes a capture (pcap, Ethernet) of TCP transfers with handshakes, data, acknowledgements, losses and
retransmissions. The same arguments make the same file.

  --packets N       packets in all (default 2400000)
  --connections N   connections at any time (default 5)
  --each N          packets of each connection, at least 10 (default: they share all packets)
  --half-open       each connection is a SYN without answer
  --snaplen N       bytes kept of each packet (default 100)
  --seed N          where chance begins (default 1)
  -o FILE           the file";

    /// Parses the arguments after the program's name.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, Usage> {
        let mut arguments = arguments;
        let (mut packets, mut connections, mut snaplen, mut seed) = (2_400_000, 5, 100, 1);
        let (mut output, mut kind) = (None, TransferKind::Long);
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--help" | "-h") => return Ok(Self::Help),
                Some("--each") => {
                    let each = number("--each", arguments.next())?.max(10);
                    kind = TransferKind::Short(u32::try_from(each).unwrap_or(u32::MAX));
                }
                Some("--half-open") => kind = TransferKind::HalfOpen,
                Some("--packets") => packets = number("--packets", arguments.next())?,
                Some("--connections") => connections = number("--connections", arguments.next())?,
                Some("--snaplen") => snaplen = number("--snaplen", arguments.next())?,
                Some("--seed") => seed = number("--seed", arguments.next())?,
                Some("-o") => output = Some(value("-o", arguments.next())?.into()),
                _ => return Err(unknown(&argument)),
            }
        }
        let connections = u32::try_from(connections)
            .ok()
            .filter(|many| (1..=10_000_000).contains(many));
        let snaplen = u32::try_from(snaplen)
            .ok()
            .filter(|len| (64..=1514).contains(len));
        Ok(Self::Make {
            plan: Plan {
                packets: packets as u64,
                connections: connections
                    .ok_or_else(|| Usage("--connections must be between 1 and 10000000".to_owned()))?,
                kind,
                snaplen: snaplen.ok_or_else(|| Usage("--snaplen must be between 64 and 1514".to_owned()))?,
                seed: seed as u64,
            },
            output: output.ok_or_else(|| Usage("-o FILE is needed".to_owned()))?,
        })
    }
}

/// The options of `bench-compare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareArguments {
    /// Only show the help.
    pub help: bool,
    /// The sockeye binary; `None`: next to this program, or on the path.
    pub sockeye: Option<PathBuf>,
    /// Measured rounds.
    pub rounds: usize,
    /// Sockets for the speed phase.
    pub sockets: usize,
    /// Sockets for the memory phase.
    pub memory_sockets: usize,
    /// Named namespaces for the last phase; a multiple of [`NAMESPACES_FEW`](Self::NAMESPACES_FEW), or 0 to
    /// skip it.
    pub namespaces: usize,
    /// Named namespaces that one command creates or removes; a multiple of [`ACTS_STEP`](Self::ACTS_STEP), or
    /// 0 to skip this.
    pub operations: usize,
    /// Number of sockets to change options of, and to close; 0 to skip this.
    pub changed: usize,
    /// Packets of the capture to be analysed; 0 to skip this.
    pub packets: usize,
    /// Lines of the log to be explained; 0 to skip this.
    pub log_lines: usize,
    /// Seconds of each network transfer; 0 to skip this.
    pub seconds: usize,
    /// Only network transfers.
    pub only_network: bool,
    /// Only flows where each connection comes from an address of its own.
    pub only_distinct_clients: bool,
    /// Thousands of system calls to be profiled; 0 to skip this.
    pub profiled: usize,
    /// Only profiles.
    pub only_profiles: bool,
    /// A document to write the report into.
    pub markdown: Option<PathBuf>,
    /// Exit with 1 if a target is missed or not judged, or a command failed.
    pub strict: bool,
    /// Run on the host itself instead of in a new network namespace.
    pub host_netns: bool,
}

impl CompareArguments {
    /// Number of namespaces that growth is measured from.
    pub const NAMESPACES_FEW: usize = 10;

    /// A multiple, so that half of the count and two and two and a half times the count are whole numbers.
    pub const ACTS_STEP: usize = 10;

    /// The text of `--help`.
    pub const HELP: &str = "\
usage: bench-compare [--sockeye FILE] [--rounds N] [--sockets N] [--quick] [--markdown FILE] [--strict]

Fills a network namespace with TCP sockets, then thousands of named ones with a few each, runs sockeye and its
peers there in turn, has them make and remove namespaces by the thousand, and prints medians, their ratios, and
which targets are met. Exits with 0 also when some are missed, unless --strict.

  --sockeye FILE      the sockeye binary (default: in the folder of this program, then on the path)
  --rounds N          measured rounds (default 15)
  --sockets N         sockets for the speed figures (default 79200)
  --memory-sockets N  sockets for the memory figures (default 100800)
  --namespaces N      named namespaces (default 2000), a multiple of 10; 0 leaves them out
  --acts N            named namespaces made and removed at a time (default 2000), a multiple of 10; 0 leaves them out
  --changed N         sockets that get keepalive, and that are closed, at a time (default 10000); 0 leaves them out
  --packets N         packets of the capture that is analysed (default 2400000); 0 leaves it out
  --log-lines N       lines of the log that is explained (default 100000); 0 leaves it out
  --seconds N         seconds of each transfer through the network (default 3); 0 leaves them out
  --only-network      transfers, answers and tunnels, and nothing else
  --only-distinct-clients
                      flows where each connection comes from an address of its own, and nothing else
  --profiled N        thousands of system calls that are counted by profilers (default 1000); 0 leaves them out
  --only-profiles     what it costs to be profiled, and nothing else
  --quick             3 rounds, 2000 sockets, 20 namespaces: shows that everything runs, not how fast it is
  --markdown FILE     put the report into this document, between its two markers
  --strict            exit with 1 if a target is missed or cannot be judged, or a command fails
  --host-netns        stay in the current network namespace; its own sockets are then measured too";

    /// Parses the arguments after the program's name.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, Usage> {
        let mut arguments = arguments;
        let (mut rounds, mut sockets, mut memory_sockets, mut namespaces) = (None, None, None, None);
        let (mut operations, mut changed, mut packets, mut log_lines) = (None, None, None, None);
        let (mut seconds, mut profiled, mut quick) = (None, None, false);
        let mut parsed = Self {
            help: false,
            sockeye: None,
            rounds: 0,
            sockets: 0,
            memory_sockets: 0,
            namespaces: 0,
            operations: 0,
            changed: 0,
            packets: 0,
            log_lines: 0,
            seconds: 0,
            only_network: false,
            only_distinct_clients: false,
            profiled: 0,
            only_profiles: false,
            markdown: None,
            strict: false,
            host_netns: false,
        };
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--help" | "-h") => parsed.help = true,
                Some("--sockeye") => parsed.sockeye = Some(value("--sockeye", arguments.next())?.into()),
                Some("--rounds") => rounds = Some(number("--rounds", arguments.next())?),
                Some("--sockets") => sockets = Some(number("--sockets", arguments.next())?),
                Some("--memory-sockets") => {
                    memory_sockets = Some(number("--memory-sockets", arguments.next())?);
                }
                Some("--namespaces") => namespaces = Some(number("--namespaces", arguments.next())?),
                Some("--acts") => operations = Some(number("--acts", arguments.next())?),
                Some("--changed") => changed = Some(number("--changed", arguments.next())?),
                Some("--packets") => packets = Some(number("--packets", arguments.next())?),
                Some("--log-lines") => log_lines = Some(number("--log-lines", arguments.next())?),
                Some("--seconds") => seconds = Some(number("--seconds", arguments.next())?),
                Some("--only-network") => parsed.only_network = true,
                Some("--only-distinct-clients") => parsed.only_distinct_clients = true,
                Some("--profiled") => profiled = Some(number("--profiled", arguments.next())?),
                Some("--only-profiles") => parsed.only_profiles = true,
                Some("--quick") => quick = true,
                Some("--markdown") => parsed.markdown = Some(value("--markdown", arguments.next())?.into()),
                Some("--strict") => parsed.strict = true,
                Some("--host-netns") => parsed.host_netns = true,
                _ => return Err(unknown(&argument)),
            }
        }
        // Explicit options override those implied by --quick.
        parsed.rounds = rounds.unwrap_or(if quick { 3 } else { 15 });
        parsed.sockets = sockets.unwrap_or(if quick { 2_000 } else { SOCKETS_DEFAULT });
        parsed.memory_sockets = memory_sockets.unwrap_or(if quick { 2_000 } else { 100_800 });
        parsed.namespaces = namespaces.unwrap_or(if quick { 20 } else { 2_000 });
        parsed.operations = operations.unwrap_or(if quick { 20 } else { 2_000 });
        parsed.changed = changed.unwrap_or(if quick { 200 } else { 10_000 });
        parsed.packets = packets.unwrap_or(if quick { 20_000 } else { 2_400_000 });
        parsed.log_lines = log_lines.unwrap_or(if quick { 1_000 } else { 100_000 });
        parsed.seconds = seconds.unwrap_or(if quick { 1 } else { 3 });
        parsed.profiled = profiled.unwrap_or(if quick { 20 } else { 1_000 });
        if !parsed.operations.is_multiple_of(Self::ACTS_STEP) {
            return Err(Usage(format!("--acts must be a multiple of {}", Self::ACTS_STEP)));
        }
        if !parsed.namespaces.is_multiple_of(Self::NAMESPACES_FEW) {
            return Err(Usage(format!(
                "--namespaces must be a multiple of {}",
                Self::NAMESPACES_FEW
            )));
        }
        if parsed.rounds == 0 {
            return Err(Usage("--rounds must be at least 1".to_owned()));
        }
        Ok(parsed)
    }
}

fn value(option: &str, argument: Option<OsString>) -> Result<OsString, Usage> {
    argument.ok_or_else(|| Usage(format!("{option} needs a value")))
}

fn number(option: &str, argument: Option<OsString>) -> Result<usize, Usage> {
    let argument = value(option, argument)?;
    let parsed = argument.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Usage(format!("{option} needs a number, not {argument:?}")))
}

fn unknown(argument: &OsString) -> Usage {
    Usage(format!("unknown argument {argument:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split_whitespace()
            .map(OsString::from)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn compare(line: &str) -> Result<CompareArguments, Usage> {
        CompareArguments::parse(words(line))
    }

    #[test]
    fn load_arguments_are_parsed() {
        let load = |line| LoadArguments::parse(words(line));
        assert_eq!(
            load(""),
            Ok(LoadArguments::Make {
                sockets: 79_200,
                private_netns: false,
                distinct_clients: false
            })
        );
        assert_eq!(
            load("--private-netns --sockets 200 --distinct-clients"),
            Ok(LoadArguments::Make {
                sockets: 200,
                private_netns: true,
                distinct_clients: true
            })
        );
        assert_eq!(
            load("--hold 3 9900"),
            Ok(LoadArguments::Hold {
                number: 3,
                connections: 9_900,
                clients: Clients::Few
            })
        );
        assert_eq!(
            load("--hold-clients 1 9900 9900"),
            Ok(LoadArguments::Hold {
                number: 1,
                connections: 9_900,
                clients: Clients::Distinct { first: 9_900 }
            })
        );
        assert_eq!(
            load("--hold-namespaces 500 250 4 1"),
            Ok(LoadArguments::HoldNamespaces(Share {
                first: 500,
                namespaces: 250,
                sets: 4,
                idlers: 1
            }))
        );
        let made = |namespaces, sets| Ok(LoadArguments::MakeNamespaces { namespaces, sets });
        assert_eq!(load("--namespaces 2000"), made(2_000, 1));
        assert_eq!(load("--sockets 8000 --namespaces 10"), made(10, 200));
        assert_eq!(load("--sockets 8000 --namespaces 0"), made(0, 2_000));
        assert_eq!(load("-h"), Ok(LoadArguments::Help));
        for wrong in [
            "--sockets",
            "--sockets many",
            "--sockets -1",
            "--hold 3",
            "--hold-clients 1 2",
            "--hold-namespaces 1 2 3",
            "200",
        ] {
            assert!(load(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn packets_arguments_are_parsed() {
        let packets = |line| PacketsArguments::parse(words(line));
        assert_eq!(packets("-h"), Ok(PacketsArguments::Help));
        assert_eq!(
            packets("--packets 10 --connections 2 --seed 3 -o /tmp/x"),
            Ok(PacketsArguments::Make {
                plan: Plan {
                    packets: 10,
                    connections: 2,
                    kind: TransferKind::Long,
                    snaplen: 100,
                    seed: 3
                },
                output: "/tmp/x".into()
            })
        );
        for wrong in [
            "",
            "--packets 10",
            "-o",
            "-o x --connections 0",
            "-o x --snaplen 20",
            "x",
        ] {
            assert!(packets(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn compare_defaults_and_quick() {
        let full = compare("").expect("valid");
        assert_eq!(
            (full.rounds, full.sockets, full.memory_sockets, full.namespaces),
            (15, 79_200, 100_800, 2_000)
        );
        assert_eq!(
            (full.operations, full.changed, full.packets),
            (2_000, 10_000, 2_400_000)
        );
        assert_eq!((full.seconds, full.only_network), (3, false));
        let network = compare("--only-network --seconds 5").expect("valid");
        assert_eq!((network.seconds, network.only_network), (5, true));
        let quick = compare("--rounds 5 --quick").expect("valid");
        assert_eq!(
            (
                quick.rounds,
                quick.sockets,
                quick.memory_sockets,
                quick.namespaces
            ),
            (5, 2_000, 2_000, 20)
        );
    }

    #[test]
    fn compare_errors_name_the_option() {
        for (wrong, named) in [
            ("--rounds 0", "--rounds"),
            ("--namespaces 15", "--namespaces"),
            ("--acts 15", "--acts"),
            ("--sockeye", "--sockeye"),
            ("--markdown", "--markdown"),
            ("fast", "fast"),
        ] {
            let message = compare(wrong).expect_err(wrong).to_string();
            assert!(message.contains(named), "{message}");
        }
    }
}
