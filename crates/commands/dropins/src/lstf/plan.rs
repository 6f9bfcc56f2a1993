//! What a command line of lstf asks for.

use super::options::{FlagError, Flags, parse_bool};
use sockeye_console::notes;
use sockeye_console::stdout;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::Duration;

/// What to list, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) numeric: bool,
    pub(super) processes: bool,
    pub(super) json: bool,
    pub(super) peers: PeerFilter,
    /// Time between listings; `None`: one listing.
    pub(super) interval: Option<Duration>,
    pub(super) debug: bool,
}

/// Which peers are listed (`--filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerFilter {
    All,
    Public,
    Private,
}

/// Reads a command line, checking the options in lstf's order; or prints help, version or an error, and returns the exit
/// status.
pub(super) fn plan(words: &[OsString]) -> Result<Plan, ExitCode> {
    let failed = |text: &str| {
        notes::say(text);
        Err(ExitCode::from(FAILED))
    };
    let flags = match Flags::read(words) {
        Ok(flags) => flags,
        Err(FlagError::Help) => {
            show_help();
            return failed("");
        }
        Err(FlagError::Invalid(text)) => {
            return failed(&format!("lstf: {text}; `lstf --help` lists the options\n"));
        }
    };
    let debug = std::env::var_os("LSTF_DEBUG").filter(|value| !value.is_empty());
    let debug = match debug
        .as_deref()
        .map(|value| (value, parse_bool(value.as_bytes())))
    {
        None => flags.debug,
        Some((_, Some(debug))) => debug,
        Some((value, None)) => {
            let value = value.to_string_lossy();
            notes::say(&format!(
                "Error parsing boolean value from LSTF_DEBUG: strconv.ParseBool: parsing {value:?}: invalid syntax\n"
            ));
            return Err(ExitCode::FAILURE);
        }
    };
    if flags.version {
        notes::say(concat!(
            "lstf version 0.7.2, build sockeye-",
            env!("CARGO_PKG_VERSION"),
            ", date  \n"
        ));
        return Err(ExitCode::SUCCESS);
    }
    if flags.credits {
        return Err(match stdout::write(CREDITS) {
            Err(error) if !stdout::is_closed_pipe(&error) => ExitCode::from(FAILED),
            _ => ExitCode::SUCCESS,
        });
    }
    let peers = match flags.filter.as_deref().map(OsStr::as_bytes) {
        None | Some(b"all") => PeerFilter::All,
        Some(b"public") => PeerFilter::Public,
        Some(b"private") => PeerFilter::Private,
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            show_help();
            return failed(&format!("\nlstf: --filter: {other:?} is not among them\n"));
        }
    };
    if flags.watch < 0 {
        notes::say("lstf: --watch: expected seconds, 1 or more\n");
        // lstf panics here; 2 is the exit status of a Go panic.
        return Err(ExitCode::from(2));
    }
    if let [first, ..] = &flags.operands[..] {
        let hint = if flags.watch == 3 {
            "; seconds stick to their option: -w=5, --watch=5"
        } else {
            ""
        };
        notes::say(&format!(
            "lstf: {:?} is no option and is ignored{hint}\n",
            first.to_string_lossy()
        ));
    }
    if flags.processes
        && std::env::var_os("PROC_ROOT").is_some_and(|root| !root.is_empty() && root != "/proc")
    {
        notes::say("lstf: PROC_ROOT is ignored: processes are those of this host\n");
    }
    Ok(Plan {
        numeric: flags.numeric,
        processes: flags.processes,
        json: flags.json,
        peers,
        interval: (flags.watch > 0).then(|| Duration::from_secs(flags.watch.unsigned_abs().min(WATCH_S_MAX))),
        debug,
    })
}

/// Prints the help to stderr without changing its tabs.
fn show_help() {
    let _ = std::io::stderr().write_all(HELP.as_bytes());
}

impl PeerFilter {
    pub(super) fn includes(self, peer: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Public => !is_private(peer),
            Self::Private => is_private(peer),
        }
    }
}

/// Whether lstf counts an address as private: loopback, RFC 1918, `fe80::/10`, `fc00::/7`. Not `169.254/16` and `100.64/10`, which
/// Sockeye's filters count as private.
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unique_local(),
    }
}

/// lstf's exit status for all errors, and for help.
pub(super) const FAILED: u8 = 11;

/// Longest interval, about thirty years, so that no clock overflows.
const WATCH_S_MAX: u64 = 1_000_000_000;

/// Help of lstf itself, for scripts that compare it.
const HELP: &str = "\
Usage: lstf [options]

  Print TCP flows between localhost and other hosts

Options:
  --numeric, -n             \tshow numerical addresses instead of trying to determine symbolic host names.
  --processes, -p          \t \tshow process using socket
  --json                    \tprint results as json format
  --filter FILTER, -f FILTER\tfilter results by \"all\", \"public\" or \"private\" (default: \"all\")
  --watch=SECONDS, -w=SECONDS\tprint periodically (SECONDS should be an interger like '3s')

  --version, -v\t            \tprint version
  --help, -h                \tprint help
  --credits                 \tprint CREDITS
";

const CREDITS: &[u8] = b"This is sockeye, which replaces lstf 0.7.2 and contains none of its code.
lstf: Copyright (c) yuuki, MIT licence, github.com/yuuki/lstf
sockeye: MIT or Apache-2.0, at your option
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_those_of_lstf() {
        for ip in [
            "127.8.0.1",
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "::1",
            "fe80::1",
            "febf::1",
            "fd77::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "169.254.1.1",
            "100.64.0.1",
            "172.32.0.1",
            "0.0.0.0",
            "::",
            "fec0::1",
            "2001:db8::1",
        ] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }
}
