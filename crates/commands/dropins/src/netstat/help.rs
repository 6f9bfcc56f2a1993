//! Texts of `-h`, `-V` and usage errors, and exit statuses.

use sockeye_console::notes;
use sockeye_console::stdout;
use std::process::ExitCode;

/// Output of `-V`: that of the replaced package, since scripts compare it.
const VERSION: &str = "net-tools 2.10\n\
    Fred Baumgarten, Alan Cox, Bernd Eckenfels, Phil Blundell, Tuan Hoang, Brian Micek and others\n\
    +NEW_ADDRT +RTF_IRTT +RTF_REJECT +FW_MASQUERADE +I18N +SELINUX\n\
    AF: (inet) +UNIX +INET +INET6 +IPX +AX25 +NETROM +X25 +ATALK +ECONET +ROSE -BLUETOOTH\n\
    HW:  +ETHER +ARC +SLIP +PPP +TUNNEL -TR +AX25 +NETROM +X25 +FR +ROSE +ASH +SIT +FDDI +HIPPI +HDLC/LAPB +EUI64 \n";

const USAGE: &str = "\
usage: netstat [-vWeenNcCF] [<Af>] -r         netstat {-V|--version|-h|--help}
       netstat [-vWnNcaeol] [<Socket> ...]
       netstat { [-vWeenNac] -i | [-cnNe] -M | -s [-6tuw] }

        -r, --route              display routing table
        -i, --interfaces         display interface table
        -g, --groups             display multicast group memberships
        -s, --statistics         display networking statistics (like SNMP)
        -M, --masquerade         display masqueraded connections

        -v, --verbose            be verbose
        -W, --wide               don't truncate IP addresses
        -n, --numeric            don't resolve names
        --numeric-hosts          don't resolve host names
        --numeric-ports          don't resolve port names
        --numeric-users          don't resolve user names
        -N, --symbolic           resolve hardware names
        -e, --extend             display other/more information
        -p, --programs           display PID/Program name for sockets
        -o, --timers             display timers
        -c, --continuous         continuous listing

        -l, --listening          display listening server sockets
        -a, --all                display all sockets (default: connected)
        -F, --fib                display Forwarding Information Base (default)
        -C, --cache              display routing cache instead of FIB
        -Z, --context            display SELinux security context for sockets

  <Socket>={-t|--tcp} {-u|--udp} {-U|--udplite} {-S|--sctp} {-w|--raw}
           {-x|--unix} --ax25 --ipx --netrom
  <AF>=Use '-6|-4' or '-A <af>' or '--<af>'; default: inet
  List of possible address families (which support routing):
";

/// End of the usage; with `-h` it goes to stderr although the rest goes to stdout.
const FAMILIES: &str = "    inet (DARPA Internet) inet6 (IPv6) ax25 (AMPR AX.25) \n    \
    netrom (AMPR NET/ROM) rose (AMPR ROSE) ipx (Novell IPX) \n    \
    ddp (Appletalk DDP) x25 (CCITT X.25) \n";

/// Prints the usage (`-h`).
pub(super) fn usage() -> ExitCode {
    let written = stdout::write(USAGE.as_bytes());
    notes::say(FAMILIES);
    status(written)
}

/// Prints the version (`-V`).
pub(super) fn version() -> ExitCode {
    status(stdout::write(VERSION.as_bytes()))
}

/// Prints the usage after an error.
pub(super) fn usage_error() -> ExitCode {
    notes::say(USAGE);
    notes::say(FAMILIES);
    ExitCode::from(3)
}

/// Prints an error and returns the exit status; a closed pipe is no error.
pub(super) fn report(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    notes::say(&format!("netstat: {error:#}\n"));
    ExitCode::FAILURE
}

fn status(written: anyhow::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}
