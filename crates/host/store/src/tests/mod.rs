//! Stores in a folder of their own: written, read back, bounded, killed.

mod bounded;
mod checks;
mod following;
mod moments;
mod overview;
mod reading;

use crate::{Limits, Run, StoreWriter};
use sockeye_history::{Identity, Recorded, SampleClocks, Values};
use sockeye_model::{Cookie, Endpoint, Entry, Port, Protocol, Socket, State, TcpInfo};
use std::path::{Path, PathBuf};

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sockeye-store-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("record.db")
    }

    /// Bytes of all files.
    fn bytes(&self) -> u64 {
        let files = std::fs::read_dir(&self.0).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const UNBOUNDED: Limits = Limits {
    max_bytes: 1 << 30,
    max_age: None,
};

fn run() -> Run {
    Run {
        host: Some("web1".to_owned()),
        version: "0.0.0",
        interval_ms: 10_000,
    }
}

fn open(path: &Path) -> StoreWriter {
    StoreWriter::open(path, UNBOUNDED, run()).unwrap()
}

/// Clocks after this many intervals.
fn clocks(number: u64) -> SampleClocks {
    SampleClocks {
        at_ms: BEGIN_MS + number * 10_000,
        monotonic_ms: number * 10_000,
        boottime_ms: number * 10_000,
        boot_id: Some("boot".to_owned()),
    }
}

/// A time that begins five minutes.
const BEGIN_MS: u64 = 1_795_000_200_000;

/// An outgoing connection that has sent this much.
fn connection(cookie: u64, bytes: u64) -> Recorded {
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.cookie = Some(Cookie(cookie));
    socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(40_000));
    socket.peer = Endpoint::inet([10, 0, (cookie >> 8) as u8, cookie as u8].into(), Port(5432));
    socket.tcp_info = Some(TcpInfo {
        bytes_acked: Some(bytes),
        ..TcpInfo::default()
    });
    Recorded {
        identity: Identity::of(&Entry::new(&socket), &mut |_| None),
        values: Values::of(&socket, 0),
    }
}
