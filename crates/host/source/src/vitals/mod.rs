//! What a host tells about itself beside its sockets: counters, settings, interfaces, memory, open files.
//!
//! Nothing here fails as a whole: what could not be read is `None` or missing, and a namespace that could not be
//! entered is an error of its own. Two readings, some time apart, make rates.
//!
//! ```
//! use sockeye_model::Counter;
//! use sockeye_source::vitals;
//!
//! let here = vitals::namespace();
//! if let Some(count) = here.counters.value(Counter::ListenOverflows) {
//!     println!("{count} connections found no room");
//! }
//! ```

mod counters;
mod devices;
mod files;
mod folder;
mod host;
mod neighbours;
mod reader;
mod settings;

pub use files::open_files;
pub use host::host;

use crate::query::OpenNetns;
use crate::visits::spread;
use reader::Reader;
use rustix::io::Errno;
use sockeye_model::{Settings, Vitals};
use sockeye_sys::netns::{Visitor, visiting};
use std::io;

/// What the network namespace of the calling thread tells.
#[must_use]
pub fn namespace() -> Vitals {
    Reader::open().map_or_else(|_| Vitals::default(), |mut reader| reader.read())
}

/// All settings of the network namespace of the calling thread. [`namespace`] reads only those that are about something
/// that lives there.
#[must_use]
pub fn settings() -> Settings {
    Reader::open().map_or_else(|_| Settings::default(), |mut reader| reader.settings())
}

/// What each of `count` network namespaces tells, in their order. `open` opens the one with this number for as long as
/// the act takes that it is given, and is called from several threads at once; it says why where it cannot.
///
/// An error is `NotFound` where a namespace is gone, `PermissionDenied` where it may not be opened or entered.
pub fn namespaces(count: usize, open: &Open<'_>) -> Vec<io::Result<Vitals>> {
    let found = spread(count, |visitor, numbers, found| {
        let mut reader = None;
        found.extend(numbers.map(|number| (number, visit(visitor, &mut reader, number, open))));
    });
    let no_thread = || Err(Errno::AGAIN.into());
    let mut found: Vec<_> = found
        .into_iter()
        .map(|found| found.unwrap_or_else(no_thread))
        .collect();
    // Descriptors are free again, now that nobody else holds any.
    let lacks = |found: &io::Result<Vitals>| {
        let errno = found.as_ref().err().and_then(Errno::from_io_error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE))
    };
    if found.iter().any(lacks) {
        let again = |visitor: &mut Visitor| {
            let mut reader = None;
            for (number, found) in found.iter_mut().enumerate().filter(|(_, found)| lacks(found)) {
                *found = visit(visitor, &mut reader, number, open);
            }
        };
        let _ = visiting(again);
    }
    found
}

/// Opens the namespace with this number, as [`namespaces`] tells.
pub type Open<'a> = dyn Fn(usize, &mut dyn FnMut(OpenNetns<'_>)) -> io::Result<()> + Sync + 'a;

fn visit(
    visitor: &mut Visitor,
    reader: &mut Option<Reader>,
    number: usize,
    open: &Open<'_>,
) -> io::Result<Vitals> {
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(Reader::open()?),
    };
    let mut result = Err(io::ErrorKind::NotFound.into());
    open(number, &mut |place| {
        result = visitor.enter(place.fd).map_err(Into::into).map(|()| Vitals {
            netns: Some(place.inode),
            ..reader.read()
        });
    })?;
    result
}
