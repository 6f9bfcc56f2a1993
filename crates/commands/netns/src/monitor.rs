//! `sockeye ns monitor`: prints names of network namespaces as they are added and deleted.

use crate::args::{MonitorArgs, MonitorFormat};
use anyhow::{Context, anyhow, bail};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::NetnsName;
use sockeye_output::{JsonObject, harmless};
use sockeye_sys::rights::{CheckedIn, remedy};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;

pub(crate) fn run(args: &MonitorArgs) -> anyhow::Result<()> {
    let mut watch = Watch::begin()?;
    let mut known = names()?;
    let mut out = stdout::open().context(stdout::WRITING)?;
    // Changes that were printed after a listing: their events can still arrive.
    let mut printed: BTreeMap<OsString, Change> = BTreeMap::new();
    loop {
        if printed.is_empty() && !stdout::pause_until(&watch.0).context("wait for changes")? {
            return Ok(());
        }
        let mut lines = Vec::new();
        let events = watch.read().context("read changes of names")?;
        for (change, name) in events.changes {
            if printed.remove(&name) != Some(change) {
                push_line(args.format, &mut lines, change, &name);
            }
            match change {
                Change::Add => known.insert(name),
                Change::Delete => known.remove(&name),
            };
        }
        if events.is_last {
            printed.clear();
        }
        if events.is_removed {
            notes::say(&format!(
                "sockeye: {} was removed: creating and watching it again\n",
                NetnsName::FOLDER
            ));
            watch = Watch::begin()?;
        }
        if events.has_overflowed {
            notes::say(
                "sockeye: the kernel's event queue overflowed: names that were added and deleted meanwhile are \
                 missing here; raise the sysctl fs.inotify.max_queued_events\n",
            );
        }
        if events.has_overflowed || events.is_removed {
            let now = names()?;
            let gone = known.difference(&now).map(|name| (Change::Delete, name));
            let new = now.difference(&known).map(|name| (Change::Add, name));
            for (change, name) in gone.chain(new) {
                push_line(args.format, &mut lines, change, name);
                printed.insert(name.clone(), change);
            }
            known = now;
        }
        out.write_all(&lines).context(stdout::WRITING)?;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Add,
    Delete,
}

fn push_line(format: MonitorFormat, out: &mut Vec<u8>, change: Change, name: &OsStr) {
    let event = match change {
        Change::Add => "add",
        Change::Delete => "delete",
    };
    match format {
        MonitorFormat::Text => {
            out.extend_from_slice(format!("{event} {}", harmless(name.as_bytes())).as_bytes());
        }
        MonitorFormat::Jsonl => {
            let mut object = JsonObject::begin(out);
            envelope::now().push(&mut object, "ns_event");
            object.word("event", event);
            object.bytes("name", Some(name.as_bytes()));
            object.end();
        }
    }
    out.push(b'\n');
}

/// An inotify watch of the folder of names.
#[derive(Debug)]
struct Watch(OwnedFd);

/// The events of one read.
#[derive(Debug, Default)]
struct Events {
    changes: Vec<(Change, OsString)>,
    /// Whether no further event is queued.
    is_last: bool,
    /// Whether the kernel's queue overflowed.
    has_overflowed: bool,
    /// Whether the folder was removed or moved.
    is_removed: bool,
}

impl Watch {
    /// Creates the folder if it is missing, as `ip netns monitor` does, and watches it.
    fn begin() -> anyhow::Result<Self> {
        let folder = NetnsName::FOLDER;
        if let Err(error) = DirBuilder::new().mode(0o755).create(folder)
            && error.kind() != ErrorKind::AlreadyExists
        {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => format!(
                    "; no namespace has a name yet: {}",
                    remedy("CAP_DAC_OVERRIDE", CheckedIn::Initial)
                ),
                _ => String::new(),
            };
            bail!("cannot create the folder {folder}: {error}{remedy}");
        }
        let begin = || {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            inotify::add_watch(&inotify, folder, flags)?;
            Ok(Self(inotify))
        };
        begin().map_err(|errno| {
            let remedy = match errno {
                Errno::MFILE => "; raise the sysctl fs.inotify.max_user_instances, or `ulimit -n`",
                Errno::NOSPC => "; raise the sysctl fs.inotify.max_user_watches",
                Errno::ACCESS => &format!("; {}", remedy("CAP_DAC_READ_SEARCH", CheckedIn::Initial)),
                _ => "",
            };
            anyhow!("cannot watch {folder}: {errno}{remedy}")
        })
    }

    /// Reads queued events, up to a full buffer, without waiting.
    fn read(&self) -> Result<Events, Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_LEN];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut events = Events::default();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => {
                    events.is_last = true;
                    return Ok(events);
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let (kind, name) = (event.events(), event.file_name());
            let removed =
                ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
            events.has_overflowed |= kind.intersects(ReadFlags::QUEUE_OVERFLOW);
            events.is_removed |= kind.intersects(removed);
            let change = if kind.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                Some(Change::Add)
            } else if kind.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                Some(Change::Delete)
            } else {
                None
            };
            if let (Some(change), Some(name)) = (change, name) {
                let name = OsStr::from_bytes(name.to_bytes()).to_owned();
                events.changes.push((change, name));
            }
            if reader.is_buffer_empty() {
                return Ok(events);
            }
        }
    }
}

/// Returns the existing names; none without the folder.
fn names() -> anyhow::Result<BTreeSet<OsString>> {
    let read = || match fs::read_dir(NetnsName::FOLDER) {
        Ok(files) => files.map(|file| file.map(|file| file.file_name())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    };
    read().with_context(|| format!("read the folder {}", NetnsName::FOLDER))
}

/// Bytes of an event buffer: about 2,000 names.
const BUFFER_LEN: usize = 64 * 1024;
