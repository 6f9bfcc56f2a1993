//! A process that sets its name, opens sockets, reports them, and runs until its stdin closes.
//!
//! `lab-holder COMM [WHAT NAME]...`, where WHAT is one of `tcp-listen`, `tcp-pair`, `tcp-connect`,
//! `udp-bind`, `udp-connect` (NAME an address with a port) and `unix-listen` (NAME a path, or `@` and an
//! abstract name). It prints a line `socket WHAT INODE LOCAL PEER` for each socket, then `ready`; on failure
//! a line `error ...`. Stderr is not used: the parent may have put a shared socket there.
//!
//! Only the standard library is used, since the build script compiles this file without dependencies.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let comm = arguments.next().unwrap_or_default();
    match hold(&comm, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error {error}"));
            ExitCode::FAILURE
        }
    }
}

fn hold(comm: &OsStr, mut arguments: impl Iterator<Item = OsString>) -> Result<(), Box<dyn Error>> {
    // The kernel cuts the name at 15 bytes; without it, `comm` would be the binary's name.
    std::fs::write("/proc/self/comm", comm.as_bytes())?;
    let mut held = Vec::new();
    while let (Some(what), Some(name)) = (arguments.next(), arguments.next()) {
        open(&what.to_string_lossy(), &name, &mut held)
            .map_err(|error| format!("{} {}: {error}", what.to_string_lossy(), name.to_string_lossy()))?;
    }
    say("ready");
    let mut nothing = [0];
    while std::io::stdin().read(&mut nothing)? > 0 {}
    Ok(())
}

fn open(what: &str, name: &OsStr, held: &mut Vec<OwnedFd>) -> Result<(), Box<dyn Error>> {
    let address = || name.to_str().ok_or("not an address");
    match what {
        "tcp-listen" => {
            let listener = TcpListener::bind(address()?)?;
            report("tcp-listen", &listener, &listener.local_addr()?, &"-")?;
            held.push(listener.into());
        }
        "tcp-connect" => {
            let stream = TcpStream::connect(address()?)?;
            report("tcp-client", &stream, &stream.local_addr()?, &stream.peer_addr()?)?;
            held.push(stream.into());
        }
        "tcp-pair" => {
            let listener = TcpListener::bind(address()?)?;
            let client = TcpStream::connect(listener.local_addr()?)?;
            let (server, _) = listener.accept()?;
            report("tcp-listen", &listener, &listener.local_addr()?, &"-")?;
            report("tcp-client", &client, &client.local_addr()?, &client.peer_addr()?)?;
            report("tcp-server", &server, &server.local_addr()?, &server.peer_addr()?)?;
            held.extend([listener.into(), client.into(), OwnedFd::from(server)]);
        }
        "udp-bind" => {
            let socket = UdpSocket::bind(address()?)?;
            report("udp", &socket, &socket.local_addr()?, &"-")?;
            held.push(socket.into());
        }
        "udp-connect" => {
            let address = address()?;
            let any = if address.starts_with('[') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            report("udp", &socket, &socket.local_addr()?, &socket.peer_addr()?)?;
            held.push(socket.into());
        }
        "unix-listen" => {
            let listener = match name.as_bytes() {
                [b'@', rest @ ..] => UnixListener::bind_addr(&SocketAddr::from_abstract_name(rest)?)?,
                path => UnixListener::bind(OsStr::from_bytes(path))?,
            };
            // The name may have any byte; the parent knows it.
            report("unix-listen", &listener, &"-", &"-")?;
            held.push(listener.into());
        }
        other => return Err(format!("unknown: {other}").into()),
    }
    Ok(())
}

/// Prints the line of a socket; its inode is in the link `/proc/self/fd/N -> socket:[INODE]`.
fn report(
    what: &str,
    socket: &impl AsRawFd,
    local: &dyn std::fmt::Display,
    peer: &dyn std::fmt::Display,
) -> Result<(), Box<dyn Error>> {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd()))?;
    let link = link.to_string_lossy();
    let inode = link
        .strip_prefix("socket:[")
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or("not a socket")?;
    say(&format!("socket {what} {inode} {local} {peer}"));
    Ok(())
}

/// Prints a line; a failed write is ignored, because the end of stdin shows a dead parent.
fn say(line: &str) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
