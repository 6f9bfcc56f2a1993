//! Collects the ends of connections in the background, for a caller that takes them now and then.

use super::{ConnectionOptions, ConnectionWatch};
use rustix::io::Errno;
use sockeye_source::{BpfEngine, Unavailable};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A watch over connections whose records are kept until they are taken.
#[derive(Debug)]
pub struct ConnectionCollector {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
    /// Lost records that were reported.
    lost_before: u64,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    ends: AtomicBool,
}

#[derive(Debug)]
struct Kept {
    watch: ConnectionWatch,
    /// Records, one after the other, and where each ends.
    bytes: Vec<u8>,
    record_ends: Vec<usize>,
    /// Records that found no place here.
    dropped: u64,
}

/// Records since the last time.
#[derive(Debug, Default)]
pub struct Collected {
    bytes: Vec<u8>,
    record_ends: Vec<usize>,
    /// Events that were lost since the last time, in the kernel or here.
    pub lost: u64,
}

impl ConnectionCollector {
    /// Begins to watch, and starts the thread that reads.
    ///
    /// # Errors
    /// When the programs do not run here, or no thread can be started.
    pub fn begin(engine: &BpfEngine, options: &ConnectionOptions) -> Result<Self, Unavailable> {
        let shared = Arc::new(Shared {
            kept: Mutex::new(Kept {
                watch: ConnectionWatch::begin(engine, options)?,
                bytes: Vec::new(),
                record_ends: Vec::new(),
                dropped: 0,
            }),
            ends: AtomicBool::new(false),
        });
        let reads = Arc::clone(&shared);
        let reader = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || {
                while !reads.ends.load(Ordering::Relaxed) {
                    reads.kept.lock().unwrap_or_else(PoisonError::into_inner).read();
                    std::thread::park_timeout(INTERVAL);
                }
            })
            .map_err(|error| Unavailable::Run(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)))?;
        Ok(Self {
            shared,
            reader: Some(reader),
            lost_before: 0,
        })
    }

    /// Returns the records of all events until now that were not taken before.
    ///
    /// # Errors
    /// The errno of `bpf(2)` with which counts are read.
    pub fn take(&mut self) -> Result<Collected, Errno> {
        let mut kept = self.shared.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.read();
        let counts = kept.watch.accounting()?;
        let lost = counts.total().lost + counts.missed + counts.unknown + kept.dropped;
        let since = lost.saturating_sub(self.lost_before);
        self.lost_before = lost;
        Ok(Collected {
            bytes: std::mem::take(&mut kept.bytes),
            record_ends: std::mem::take(&mut kept.record_ends),
            lost: since,
        })
    }
}

impl Drop for ConnectionCollector {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.thread().unpark();
            let _ = reader.join();
        }
    }
}

impl Kept {
    fn read(&mut self) {
        let (bytes, record_ends, dropped) = (&mut self.bytes, &mut self.record_ends, &mut self.dropped);
        self.watch.read(|record| {
            if bytes.len() + record.len() > BYTES_MAX {
                *dropped += 1;
                return;
            }
            bytes.extend_from_slice(record);
            record_ends.push(bytes.len());
        });
    }
}

impl Collected {
    /// Iterates over the records, in the order of their events.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.record_ends.iter().copied());
        begins
            .zip(&self.record_ends)
            .filter_map(|(begin, end)| self.bytes.get(begin..*end))
    }
}

/// How often the ring is read. A ring of 4 MiB holds 16,000 records.
const INTERVAL: Duration = Duration::from_millis(50);
/// How many bytes of records are kept: those of 250,000 connections.
const BYTES_MAX: usize = 64 << 20;
