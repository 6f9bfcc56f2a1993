//! Loads programs, attaches them to tracepoints, and reads what they write.

use crate::accounting::{Accounting, KINDS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sockeye_source::names::CgroupMount;
use sockeye_source::{BpfEngine, Unavailable};
use sockeye_sys::bpf::{CgroupHook, Kind, Link, LoadError, LoadOptions, LoadedObject, Program, Ring, Table};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// An object, compiled twice. Both have the same programs, and include `bpf/ring.h`.
#[derive(Debug, Clone, Copy)]
pub struct Objects {
    /// Reads structs in place (Linux 6.2).
    pub in_place: &'static [u8],
    /// Copies what it reads.
    pub by_copy: &'static [u8],
}

/// A program and the tracepoint that it is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracepoint {
    /// Name of the program: its C function.
    pub program: &'static str,
    /// Name of the tracepoint, without its group: `tcp_destroy_sock`; or of a hook of the root cgroup: `cgroup_skb/ingress`.
    pub event: &'static str,
    /// Whether nothing works without it. Others are left out where the kernel does not have them: [`Watch::missing`].
    pub required: bool,
}

/// What to load.
#[derive(Debug, Clone, Copy)]
pub struct WatchOptions<'a> {
    /// The programs.
    pub tracepoints: &'a [Tracepoint],
    /// Size of the ring in bytes; rounded up to a power of two, at least a page.
    pub ring_bytes: u32,
    /// Sizes of maps, where they replace the object's.
    pub entries: &'a [(&'a str, u32)],
    /// Sizes of maps of the object that reads in place, where they replace those of both. The kernels of the other one allocate all entries in
    /// advance.
    pub in_place_entries: &'a [(&'a str, u32)],
    /// Values of constants.
    pub constants: &'a [(&'a str, &'a [u8])],
}

/// Attached programs and the reader of their ring.
#[derive(Debug)]
pub struct Watch {
    /// In the order of [`WatchOptions::tracepoints`].
    links: Vec<Link>,
    programs: Vec<(&'static str, Program)>,
    loaded: LoadedObject,
    ring: Ring,
    counts: Table,
    accounting: Accounting,
    missing: Vec<(&'static str, LoadError)>,
    sleep: Option<Sleep>,
}

/// How programs know that the reader sleeps: bpf/ring_sleep.h.
#[derive(Debug)]
struct Sleep {
    flag: Table,
    /// The first look at the ring since then has found nothing, as all others.
    empty_since: Option<Instant>,
}

impl Watch {
    /// Loads the programs. None is attached before [`Self::attach`], so that maps can be filled first.
    ///
    /// # Errors
    /// When a required program does not run here.
    pub fn load(
        engine: &BpfEngine,
        objects: &Objects,
        options: &WatchOptions<'_>,
    ) -> Result<Self, Unavailable> {
        match Self::load_object(engine, objects.in_place, options, options.in_place_entries) {
            // Before Linux 6.2.
            Err(Unavailable::Lacks(_)) => Self::load_object(engine, objects.by_copy, options, &[]),
            loaded => loaded,
        }
    }

    fn load_object(
        engine: &BpfEngine,
        elf: &[u8],
        options: &WatchOptions<'_>,
        first_entries: &[(&str, u32)],
    ) -> Result<Self, Unavailable> {
        let typedef = |tracepoint: &Tracepoint| match CgroupHook::from_name(tracepoint.event) {
            Some(hook) => hook.name().to_owned(),
            None => format!("btf_trace_{}", tracepoint.event),
        };
        let typedefs: Vec<String> = options.tracepoints.iter().map(typedef).collect();
        let programs: Vec<_> = options
            .tracepoints
            .iter()
            .zip(&typedefs)
            .map(|(tracepoint, typedef)| {
                let hook = CgroupHook::from_name(tracepoint.event);
                (
                    tracepoint.program,
                    hook.map_or(Kind::TypedTracepoint(typedef), Kind::Cgroup),
                )
            })
            .collect();
        let page_bytes = u32::try_from(sockeye_sys::page_bytes()).unwrap_or(u32::MAX);
        let ring_bytes = options.ring_bytes.max(page_bytes).next_power_of_two();
        let mut entries = vec![("ring", ring_bytes)];
        // The first of a name counts.
        entries.extend_from_slice(first_entries);
        entries.extend_from_slice(options.entries);
        let wake_bytes = wake_bytes(ring_bytes).to_ne_bytes();
        let mut constants = vec![("ring_wake_bytes", &wake_bytes[..])];
        constants.extend_from_slice(options.constants);
        let parts = LoadOptions {
            programs: &programs,
            entries: &entries,
            constants: &constants,
            ..LoadOptions::default()
        };
        let mut loaded = engine.programs(elf, &parts)?;
        let failed = |error| Unavailable::Load(error, Vec::new());
        let (mut programs, mut missing) = (Vec::new(), Vec::new());
        for (tracepoint, typedef) in options.tracepoints.iter().zip(&typedefs) {
            match loaded.program_of(tracepoint.program, typedef) {
                Ok(program) => programs.push((tracepoint.event, program)),
                Err(error) if tracepoint.required => return Err(failed(error)),
                // One of the two objects may do without this program.
                Err(LoadError::Object(_)) => {}
                Err(error) => missing.push((tracepoint.event, error)),
            }
        }
        let ring = loaded.table("ring").map_err(failed)?;
        let ring = Ring::open(ring).map_err(|errno| failed(LoadError::System("map a BPF ring", errno)))?;
        let counts = loaded.table("ring_counts").map_err(failed)?;
        let sleep = loaded.table("ring_sleep").ok().map(|flag| Sleep {
            flag,
            // The very first record is one after a while without any.
            empty_since: Instant::now().checked_sub(Self::INTERVAL),
        });
        Ok(Self {
            sleep,
            links: Vec::new(),
            programs,
            loaded,
            ring,
            counts,
            accounting: Accounting::default(),
            missing,
        })
    }

    /// Attaches the programs, in their order.
    ///
    /// # Errors
    /// When the kernel refuses one. What was attached before stays attached until this value is dropped.
    pub fn attach(&mut self) -> Result<(), Unavailable> {
        let mut root = None;
        for (event, program) in &self.programs {
            let Some(hook) = CgroupHook::from_name(event) else {
                let link = program.attach_typed_tracepoint();
                let operation = "attach a BPF program to a tracepoint";
                let link =
                    link.map_err(|errno| Unavailable::Load(LoadError::System(operation, errno), Vec::new()))?;
                self.links.push(link);
                continue;
            };
            let root = root.get_or_insert_with(root_cgroup);
            let link = root
                .as_ref()
                .map_err(|errno| *errno)
                .and_then(|root| program.attach_to_cgroup(root.as_fd(), hook));
            match link {
                Ok(link) => self.links.push(link),
                Err(errno) => {
                    let operation = "attach a BPF program to the root cgroup";
                    self.missing.push((event, LoadError::System(operation, errno)));
                }
            }
        }
        Ok(())
    }

    /// Detaches one program, as a kernel does that does not run it.
    #[cfg(test)]
    pub(crate) fn detach(&mut self, event: &str) {
        let place = self.programs.iter().position(|(of, _)| *of == event);
        self.links.remove(place.expect("it is attached"));
    }

    /// Removes a map of the object from this value and returns it.
    ///
    /// # Errors
    /// If the object defines none of this name.
    pub fn table(&mut self, name: &str) -> Result<Table, LoadError> {
        self.loaded.table(name)
    }

    /// Number of the programs that are loaded.
    pub(crate) const fn programs(&self) -> usize {
        self.programs.len()
    }

    /// Returns the tracepoints that could not be watched, with the reason.
    #[must_use]
    pub fn missing(&self) -> &[(&'static str, LoadError)] {
        &self.missing
    }

    /// Waits until the ring has many records, one of `others` is readable or has lost its other end, or the time is over. Records that
    /// are fewer do not wake it: call [`Self::read`] at least every [`Self::INTERVAL`].
    ///
    /// # Errors
    /// The errno of `poll(2)`.
    pub fn wait(&self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.poll(timeout, others)
    }

    /// As [`Self::wait`], but if there was no record for [`Self::INTERVAL`], the first one wakes it, and it waits until then, at most `idle`. The process
    /// whose record wakes it pays for that, some microseconds: never more often than at each interval.
    ///
    /// # Errors
    /// The errno of `bpf(2)` or `poll(2)`.
    pub fn wait_for_first(
        &self,
        timeout: Duration,
        idle: Duration,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let is_long = |since: Instant| since.elapsed() >= Self::INTERVAL;
        let sleeps = |sleep: &&Sleep| sleep.empty_since.is_some_and(is_long);
        let Some(sleep) = self.sleep.as_ref().filter(sleeps) else {
            return self.poll(timeout, others);
        };
        sleep.flag.update(&0_u32.to_ne_bytes(), &1_u64.to_ne_bytes())?;
        // A record that was made before the programs could see it has not woken us.
        if self.ring.is_empty() {
            self.poll(idle, others)
        } else {
            Ok(())
        }
    }

    fn poll(&self, timeout: Duration, others: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
        let ring = self.ring.as_fd();
        let polled = std::iter::once(&ring).chain(others);
        let mut polled: Vec<_> = polled.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// How long records may wait in the ring.
    pub const INTERVAL: Duration = Duration::from_millis(20);

    /// Passes the records that are in the ring to `take`, at most as many as fit into it, so that it ends also while programs write
    /// faster than they are read. Returns their number.
    pub fn read(&mut self, take: impl FnMut(u32, &[u8])) -> usize {
        self.read_some(usize::MAX, take)
    }

    /// As [`Self::read`], but at most so many records.
    pub fn read_some(&mut self, most: usize, mut take: impl FnMut(u32, &[u8])) -> usize {
        let most = most.min(self.ring.bytes() / RECORD_BYTES_MIN);
        let accounting = &mut self.accounting;
        let taken = self.ring.read(most, |record| {
            let kind = record.first_chunk().map(|kind| u32::from_ne_bytes(*kind));
            match kind.filter(|kind| (*kind as usize) < KINDS) {
                Some(kind) => {
                    accounting.kinds[kind as usize].read += 1;
                    take(kind, record);
                }
                None => accounting.unknown += 1,
            }
        });
        if let Some(sleep) = &mut self.sleep {
            sleep.empty_since = (taken == 0).then(|| sleep.empty_since.unwrap_or_else(Instant::now));
        }
        taken
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn accounting(&mut self) -> Result<Accounting, Errno> {
        self.accounting.read_programs(&self.counts)?;
        self.accounting.missed = self
            .programs
            .iter()
            .map(|(_, program)| program.missed_runs().unwrap_or(0))
            .sum();
        Ok(self.accounting)
    }

    /// Detaches the programs, waits until none of them runs any more, passes the last records to `take`, and returns the counts.
    ///
    /// # Errors
    /// The errno of `bpf(2)`.
    pub fn finish(&mut self, mut take: impl FnMut(u32, &[u8])) -> Result<Accounting, Errno> {
        self.links.clear();
        // The kernel does not wait for a program that is running on another processor: `bpf_raw_tp_link_release` waits for
        // nothing. A record that it has reserved is busy, and its run takes microseconds.
        for _ in 0..FINISH_TRIES {
            while self.read(&mut take) > 0 {}
            let counts = self.accounting()?;
            if counts.is_balanced() {
                return Ok(counts);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.accounting()
    }
}

/// Returns how many unread bytes of a ring wake its reader: a quarter. What comes until it has woken up and reads fits into the rest, and each
/// wake-up costs the processes that are watched: with 64 KiB, the programs took a tenth more.
const fn wake_bytes(ring_bytes: u32) -> u64 {
    ring_bytes as u64 / 4
}

/// Opens the root of the cgroup v2 hierarchy that is visible here.
fn root_cgroup() -> Result<File, Errno> {
    let mount = CgroupMount::find().ok_or(Errno::NOENT)?;
    File::open(mount.point()).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// The shortest record, with the header of the ring.
const RECORD_BYTES_MIN: usize = 16;

/// How often the ring is read after the programs were detached.
const FINISH_TRIES: u32 = 100;
