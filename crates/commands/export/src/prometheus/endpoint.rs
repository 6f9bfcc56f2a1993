//! Where metrics are served: a TCP port, or a UNIX socket.

use anyhow::Context;
use sockeye_console::exit::InUse;
use sockeye_console::output_file::followed_path;
use sockeye_console::usage::UsageError;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A listener at an endpoint.
#[derive(Debug)]
pub(super) enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The name of a UNIX socket, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketName(PathBuf);

impl Endpoint {
    /// Parses what the user typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Some(path)
                .filter(|path| !path.is_empty())
                .map(|path| Self::Unix(path.into()))
                .ok_or_else(|| "expected a path behind unix:".to_owned());
        }
        let parsed = text.parse().map(Self::Tcp);
        parsed.map_err(|_| "expected an address and port, such as 127.0.0.1:9977, or unix:PATH".to_owned())
    }

    /// Checks that others reach it only if that is wanted.
    pub(super) fn check(&self, allow_remote: bool) -> Result<(), UsageError> {
        match self {
            Self::Tcp(address) if !address.ip().to_canonical().is_loopback() && !allow_remote => {
                Err(UsageError(format!(
                    "sockeye: --listen {self}: others can reach this address, read what it serves, and read along: --allow-remote \
                     permits it. Without: a proxy with TLS in front of 127.0.0.1, or --listen unix:PATH\n"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Listens. Also returns the name to remove at the end.
    pub(super) fn listen(&self) -> anyhow::Result<(Listening, Option<SocketName>)> {
        let listened = match self {
            Self::Tcp(address) => TcpListener::bind(address).map(|listener| (Listening::Tcp(listener), None)),
            Self::Unix(path) => followed_path(path).and_then(|path| {
                let listener = listen_at(&path)?;
                Ok((Listening::Unix(listener), Some(SocketName(path))))
            }),
        };
        listened
            .map_err(InUse::of_address)
            .with_context(|| format!("--listen {self}"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listening {
    /// Returns where it listens, as a URL if that is possible.
    pub(super) fn url(&self) -> io::Result<String> {
        Ok(match self {
            Self::Tcp(listener) => format!("http://{}/metrics", listener.local_addr()?),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new(""));
                format!("unix:{}", path.display())
            }
        })
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        // It may be gone already.
        drop(std::fs::remove_file(&self.0));
    }
}

/// Listens at a path. A socket without a listener is left over, and is replaced.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_over(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_ports_and_paths() {
        let address = "[::1]:9977".parse().unwrap();
        assert_eq!(Endpoint::parse("[::1]:9977"), Ok(Endpoint::Tcp(address)));
        assert_eq!(Endpoint::parse("unix:a b"), Ok(Endpoint::Unix("a b".into())));
        for wrong in ["unix:", "9977", "localhost:9977", ""] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_this_host_connects_unless_others_may() {
        for (text, is_local) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:x", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.0.2.1:1", false),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.check(false).is_ok(), is_local, "{text}");
            assert!(endpoint.check(true).is_ok(), "{text}");
        }
    }
}
