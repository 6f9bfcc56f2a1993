//! The vitals of a host and its network namespaces: counters, settings, interfaces, memory, open files.
//!
//! Nothing here fails as a whole: a value that cannot be read is `None` or missing, and each namespace that cannot be
//! entered has its own error. Two readings make rates.
//!
//! ```
//! use sockeye_model::Counter;
//! use sockeye_source::vitals;
//!
//! let here = vitals::namespace();
//! if let Some(count) = here.counters.value(Counter::ListenOverflows) {
//!     println!("{count} connections did not fit into an accept queue");
//! }
//! ```

mod counters;
mod device_queues;
mod devices;
mod files;
mod firewall;
mod folder;
mod host;
mod neighbours;
mod number_set;
mod processes;
mod reader;
mod send_path;
mod settings;
mod tunnel;
mod unix_queues;

pub use device_queues::device_queues;
pub use files::{CrowdedProcess, CrowdedScan, KnownSockets, OpenFilesScan, crowded_processes, open_files};
pub use firewall::{firewall, may_read_firewall};
pub use host::{host, lacks_host_settings};
pub use processes::process_state;
pub use send_path::send_paths;
pub use tunnel::tunnel_readers;
pub use unix_queues::unix_queues;

use crate::proc_folder::open_folder;
use crate::query::OpenNetns;
use crate::visits::spread;
use reader::Reader;
use rustix::fd::AsFd;
use rustix::fs::CWD;
use rustix::io::Errno;
use sockeye_model::{Counters, NetnsInode, Settings, Vitals};
use sockeye_sys::netns::{NetnsThread, on_netns_thread};
use std::io;

/// Reads the vitals of the calling thread's network namespace.
#[must_use]
pub fn namespace() -> Vitals {
    Reader::open().map_or_else(|_| Vitals::default(), |mut reader| reader.read())
}

/// Reads all settings of the calling thread's network namespace. [`namespace`] reads only the settings that matter for the
/// sockets there.
#[must_use]
pub fn settings() -> Settings {
    Reader::open().map_or_else(|_| Settings::default(), |mut reader| reader.settings())
}

/// Reads the vitals of `count` network namespaces, in their order. `open` opens the namespace with the given number while
/// it runs the given function, and is called from several threads at once.
///
/// An error is `NotFound` if the namespace is gone, `PermissionDenied` if it may not be opened or entered.
pub fn namespaces(count: usize, open: &Open<'_>) -> Vec<io::Result<Vitals>> {
    each(count, open, |reader, netns| Vitals {
        netns: Some(netns),
        ..reader.read()
    })
}

/// Reads the counters alone, as [`namespaces`].
pub fn counters_of_namespaces(count: usize, open: &Open<'_>) -> Vec<io::Result<Counters>> {
    each(count, open, |reader, _| reader.counters())
}

/// Calls `read` in each of `count` namespaces.
fn each<T: Send>(count: usize, open: &Open<'_>, read: Read<T>) -> Vec<io::Result<T>> {
    let found = spread(count, |visitor, numbers, found| {
        let mut reader = None;
        found.extend(numbers.map(|number| (number, visit(visitor, &mut reader, number, open, read))));
    });
    let no_thread = || Err(Errno::AGAIN.into());
    let mut found: Vec<_> = found
        .into_iter()
        .map(|found| found.unwrap_or_else(no_thread))
        .collect();
    // Descriptors are free again, now that no other thread has any open.
    let lacks = |found: &io::Result<T>| {
        let errno = found.as_ref().err().and_then(Errno::from_io_error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE))
    };
    if found.iter().any(lacks) {
        let again = |visitor: &mut NetnsThread| {
            let mut reader = None;
            for (number, found) in found.iter_mut().enumerate().filter(|(_, found)| lacks(found)) {
                *found = visit(visitor, &mut reader, number, open, read);
            }
        };
        let _ = on_netns_thread(again);
    }
    found
}

/// Reads the counters of the calling thread's network namespace.
#[must_use]
pub fn counters() -> Counters {
    let Ok(net) = open_folder(CWD, c"/proc/thread-self/net") else {
        return Counters::default();
    };
    reader::read_counters(net.as_fd(), &counters::Names::new(), &mut Vec::new())
}

/// Opens the namespace with this number, for [`namespaces`].
pub type Open<'a> = dyn Fn(usize, &mut dyn FnMut(OpenNetns<'_>)) -> io::Result<()> + Sync + 'a;

/// Reads something of the namespace with this inode, in which the thread is.
type Read<T> = fn(&mut Reader, NetnsInode) -> T;

fn visit<T>(
    visitor: &mut NetnsThread,
    reader: &mut Option<Reader>,
    number: usize,
    open: &Open<'_>,
    read: Read<T>,
) -> io::Result<T> {
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(Reader::open()?),
    };
    let mut result = Err(io::ErrorKind::NotFound.into());
    open(number, &mut |place| {
        let entered = visitor.enter(place.fd).map_err(Into::into);
        result = entered.map(|()| read(reader, place.inode));
    })?;
    result
}
