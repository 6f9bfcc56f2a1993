//! The options of `netstat`, read in the order in which they are typed, as net-tools 2.10 does. Some end the program at
//! once.

use super::help;
use crate::getopt::{Argument, OptionReader, OptionTable};
use sockeye_console::notes;
use sockeye_source::Choice;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

/// The options of a command line. Numbers count how often an option was given.
#[derive(Debug, Clone, Default)]
pub(super) struct Flags {
    pub(super) interfaces: u32,
    pub(super) routes: u32,
    pub(super) masquerade: u32,
    pub(super) statistics: u32,
    pub(super) groups: bool,
    pub(super) all: bool,
    pub(super) listening: bool,
    pub(super) continuous: bool,
    /// 1, plus the number of `-e`.
    pub(super) extended: u32,
    pub(super) programs: bool,
    pub(super) timers: bool,
    pub(super) verbose: bool,
    pub(super) wide: bool,
    pub(super) numeric_hosts: bool,
    pub(super) numeric_ports: bool,
    pub(super) numeric_users: bool,
    pub(super) symbolic: bool,
    pub(super) cache: bool,
    pub(super) fib: bool,
    pub(super) tcp: bool,
    pub(super) sctp: bool,
    pub(super) udp: bool,
    pub(super) udplite: bool,
    pub(super) raw: bool,
    pub(super) l2cap: bool,
    pub(super) rfcomm: bool,
    pub(super) families: Families,
    /// Whether all protocols are shown because none was named: those that the kernel lacks are not reported then.
    pub(super) no_protocol: bool,
    /// `--source`, which only Sockeye has.
    pub(super) source: Choice,
}

/// The address families that were named.
#[derive(Debug, Clone, Default)]
pub(super) struct Families {
    pub(super) unix: bool,
    pub(super) ipx: bool,
    pub(super) ax25: bool,
    pub(super) netrom: bool,
    pub(super) inet: bool,
    pub(super) inet6: bool,
    pub(super) rose: bool,
    pub(super) x25: bool,
    pub(super) bluetooth: bool,
    /// Their names, in the order of the command line.
    pub(super) names: Vec<&'static str>,
}

impl Flags {
    /// Reads the words of a command line; or prints help, version or an error, and returns the exit status.
    pub(super) fn read(words: &[OsString]) -> Result<Self, ExitCode> {
        let mut flags = Self {
            extended: 1,
            ..Self::default()
        };
        let words = flags.take_source(words)?;
        let mut words = OptionReader::new(&KNOWN, &words);
        while let Some(option) = words.next() {
            match option {
                Ok((key, value)) => flags.set(key, value.as_deref())?,
                Err(error) => {
                    notes::say(&format!("netstat: {error}\n"));
                    return Err(help::usage_error());
                }
            }
        }
        // Operands are ignored, as in the original.
        drop(words.operands());
        if flags.interfaces + flags.routes + flags.masquerade + flags.statistics > 1 {
            return Err(help::usage_error());
        }
        flags.add_implied();
        Ok(flags)
    }

    /// Whether a protocol or family with sockets was named, so that only these are shown.
    pub(super) fn selects_sockets(&self) -> bool {
        let families = &self.families;
        self.selects_protocol()
            || self.groups
            || self.l2cap
            || self.rfcomm
            || families.unix
            || families.ipx
            || families.ax25
            || families.netrom
            || families.x25
            || families.rose
    }

    /// Whether a protocol over IP was named.
    pub(super) fn selects_protocol(&self) -> bool {
        self.tcp || self.sctp || self.udp || self.udplite || self.raw
    }

    /// Returns the names of the families; `inet` if none was named.
    pub(super) fn family_names(&self) -> &[&'static str] {
        match &self.families.names[..] {
            [] => &["inet"],
            names => names,
        }
    }

    /// Takes out `--source`, which only Sockeye has, before the other options are read.
    fn take_source(&mut self, words: &[OsString]) -> Result<Vec<OsString>, ExitCode> {
        let mut rest = Vec::with_capacity(words.len());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = match word.as_bytes() {
                b"--" => {
                    rest.push(word.clone());
                    rest.extend(words.cloned());
                    break;
                }
                b"--source" => words.next().map(|word| word.as_bytes()),
                text => match text.strip_prefix(b"--source=") {
                    Some(value) => Some(value),
                    None => {
                        rest.push(word.clone());
                        continue;
                    }
                },
            };
            self.source = match value {
                Some(b"auto") => Choice::Auto,
                Some(b"bpf") => Choice::Bpf,
                Some(b"diag") => Choice::Diag,
                Some(b"diag-v2") => Choice::DiagV2,
                Some(b"procfs") => Choice::Procfs,
                _ => {
                    notes::say("netstat: --source is one of auto, bpf, diag, diag-v2, procfs\n");
                    return Err(ExitCode::from(3));
                }
            };
        }
        Ok(rest)
    }

    fn set(&mut self, key: Key, value: Option<&OsStr>) -> Result<(), ExitCode> {
        match key.letter {
            // The original accepts it and reports an internal error.
            FAMILY if key.family == "tcpip" => notes::say("netstat.c: Internal Error `longopts 1 range'.\n"),
            FAMILY => self.add_families(key.family.as_bytes())?,
            b'A' => self.add_families(value.unwrap_or_default().as_bytes())?,
            b'M' => self.masquerade += 1,
            b'a' => self.all = true,
            b'l' => self.listening = true,
            b'c' => self.continuous = true,
            b'g' => self.groups = true,
            b'e' => self.extended += 1,
            b'p' => self.programs = true,
            b'i' => self.interfaces += 1,
            b'W' => self.wide = true,
            b'n' => (self.numeric_hosts, self.numeric_ports, self.numeric_users) = (true, true, true),
            b'!' => self.numeric_hosts = true,
            b'@' => self.numeric_ports = true,
            b'#' => self.numeric_users = true,
            b'N' => self.symbolic = true,
            b'C' => self.cache = true,
            b'F' => self.fib = true,
            b'o' => self.timers = true,
            b'6' => self.add_families(b"inet6")?,
            b'4' => self.add_families(b"inet")?,
            b'V' => return Err(help::version()),
            b'v' => self.verbose = true,
            b'r' => self.routes += 1,
            b't' => self.tcp = true,
            b'S' => self.sctp = true,
            b'u' => self.udp = true,
            b'U' => self.udplite = true,
            b'w' => self.raw = true,
            b'2' => self.l2cap = true,
            b'f' => self.rfcomm = true,
            b'x' => self.add_families(b"unix")?,
            b'Z' => return Err(context()),
            b'?' => return Err(help::usage_error()),
            b'h' => return Err(help::usage()),
            b's' => self.statistics += 1,
            // `-d`, for debugging, has no effect.
            _ => {}
        }
        Ok(())
    }

    /// Adds families by their names, which are separated by commas.
    fn add_families(&mut self, list: &[u8]) -> Result<(), ExitCode> {
        let families = &mut self.families;
        for alias in list.split(|&byte| byte == b',') {
            let (name, flag) = match alias {
                b"ax25" => ("ax25", Some(&mut families.ax25)),
                b"ip" | b"inet" | b"tcpip" => ("inet", Some(&mut families.inet)),
                b"ip6" | b"inet6" => ("inet6", Some(&mut families.inet6)),
                b"ipx" => ("ipx", Some(&mut families.ipx)),
                b"rose" => ("rose", Some(&mut families.rose)),
                b"netrom" => ("netrom", Some(&mut families.netrom)),
                b"unix" => ("unix", Some(&mut families.unix)),
                b"x25" => ("x25", Some(&mut families.x25)),
                b"bluetooth" => ("bluetooth", Some(&mut families.bluetooth)),
                b"appletalk" | b"ddp" => ("ddp", None),
                b"econet" => ("ec", None),
                b"ash" => ("ash", None),
                _ => {
                    let alias = String::from_utf8_lossy(alias);
                    notes::say(&format!("Unknown address family `{alias}'.\n"));
                    return Err(ExitCode::FAILURE);
                }
            };
            if let Some(flag) = flag {
                *flag = true;
            }
            families.names.push(name);
        }
        Ok(())
    }

    /// Adds what the options imply: a family selects its protocols, a protocol both its families.
    fn add_implied(&mut self) {
        if (self.families.inet || self.families.inet6 || self.statistics > 0) && !self.selects_protocol() {
            self.no_protocol = true;
            (self.tcp, self.sctp, self.udp, self.udplite, self.raw) = (true, true, true, true, true);
        }
        if (self.selects_protocol() || self.groups) && !(self.families.inet || self.families.inet6) {
            (self.families.inet, self.families.inet6) = (true, true);
        }
        if self.families.bluetooth && !(self.l2cap || self.rfcomm) {
            (self.l2cap, self.rfcomm) = (true, true);
        }
    }
}

/// `-Z`: SELinux labels, which are not implemented.
fn context() -> ExitCode {
    let text = if Path::new("/sys/fs/selinux/enforce").exists() {
        "netstat: -Z, --context is not there: sockeye reads no SELinux labels\n"
    } else {
        "SELinux is not enabled on this machine.\n"
    };
    notes::say(text);
    ExitCode::FAILURE
}

/// Identifies an option. For `getopt_long` two are the same if their letters are: `--ine` means `--inet`, although
/// `--inet6` begins with it too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    letter: u8,
    family: &'static str,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.letter == other.letter
    }
}

/// Letter of all options that are the name of an address family.
const FAMILY: u8 = 1;

type Short = (u8, Argument, Key);
type Long = (&'static str, Argument, Key);

const fn short(letter: u8) -> Short {
    (letter, Argument::No, Key { letter, family: "" })
}

const fn long(name: &'static str, letter: u8) -> Long {
    (name, Argument::No, Key { letter, family: "" })
}

const fn family(name: &'static str) -> Long {
    let key = Key {
        letter: FAMILY,
        family: name,
    };
    (name, Argument::No, key)
}

const ADDRESS_FAMILY: Key = Key {
    letter: b'A',
    family: "",
};

const KNOWN: OptionTable<'_, Key> = OptionTable {
    short: &[
        (b'A', Argument::Required, ADDRESS_FAMILY),
        short(b'C'),
        short(b'F'),
        short(b'M'),
        short(b'a'),
        short(b'c'),
        short(b'd'),
        short(b'e'),
        short(b'g'),
        short(b'h'),
        short(b'i'),
        short(b'l'),
        short(b'n'),
        short(b'N'),
        short(b'o'),
        short(b'p'),
        short(b'r'),
        short(b's'),
        short(b'S'),
        short(b't'),
        short(b'u'),
        short(b'U'),
        short(b'v'),
        short(b'V'),
        short(b'W'),
        short(b'w'),
        short(b'2'),
        short(b'f'),
        short(b'x'),
        short(b'6'),
        short(b'4'),
        short(b'?'),
        short(b'Z'),
    ],
    // The original lists the candidates of an ambiguous prefix in this order.
    long: &[
        family("ax25"),
        family("x25"),
        family("ip"),
        family("ipx"),
        family("appletalk"),
        family("netrom"),
        family("inet"),
        family("inet6"),
        family("ddp"),
        family("rose"),
        family("unix"),
        family("bluetooth"),
        family("tcpip"),
        long("version", b'V'),
        long("interfaces", b'i'),
        long("help", b'h'),
        long("route", b'r'),
        long("masquerade", b'M'),
        ("protocol", Argument::Required, ADDRESS_FAMILY),
        long("tcp", b't'),
        long("sctp", b'S'),
        long("udp", b'u'),
        long("udplite", b'U'),
        long("raw", b'w'),
        long("unix", b'x'),
        long("l2cap", b'2'),
        long("rfcomm", b'f'),
        long("listening", b'l'),
        long("all", b'a'),
        long("timers", b'o'),
        long("continuous", b'c'),
        long("extend", b'e'),
        long("programs", b'p'),
        long("verbose", b'v'),
        long("statistics", b's'),
        long("wide", b'W'),
        long("numeric", b'n'),
        long("numeric-hosts", b'!'),
        long("numeric-ports", b'@'),
        long("numeric-users", b'#'),
        long("symbolic", b'N'),
        long("cache", b'C'),
        long("fib", b'F'),
        long("groups", b'g'),
        long("context", b'Z'),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags, ExitCode> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Flags::read(&words)
    }

    #[test]
    fn families_and_protocols_select_each_other() {
        let flags = read("-t").unwrap();
        assert!(flags.families.inet && flags.families.inet6 && !flags.no_protocol);
        let flags = read("-6").unwrap();
        assert!(flags.tcp && flags.raw && flags.no_protocol && !flags.families.inet);
        let flags = read("-xA inet,ip6").unwrap();
        assert_eq!(flags.family_names(), ["unix", "inet", "inet6"]);
        let flags = read("-nee operand").unwrap();
        assert!(!flags.selects_sockets() && flags.numeric_users && flags.extended == 3);
        assert_eq!(flags.family_names(), ["inet"]);
        let flags = read("-A ddp").unwrap();
        assert!(!flags.selects_sockets());
        assert!(read("--ine").unwrap().families.inet);
    }

    #[test]
    fn source_option_does_not_change_other_options() {
        assert_eq!(read("-t --source procfs --sym").unwrap().source, Choice::Procfs);
        assert_eq!(read("--source=diag").unwrap().source, Choice::Diag);
        assert_eq!(read("-- --source=diag").unwrap().source, Choice::Auto);
        assert!(read("--source").is_err());
    }
}
