//! `sockeye ns monitor`: names of network namespaces, as they come and go.

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::NetnsName;
use sockeye_output::{JsonObject, harmless};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::process::ExitCode;

/// Names of network namespaces as they come and go, as ip netns monitor tells them
///
/// `add NAME` and `delete NAME`, each as soon as it happens, until ^C. The name of a new namespace is told when it is
/// given, a moment before it can be entered.
#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    /// In which form
    #[arg(long, value_enum, default_value_t = MonitorFormat::Text)]
    format: MonitorFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MonitorFormat {
    /// For people
    Text,
    /// One object a line, with the time
    Jsonl,
}

pub(crate) fn run(args: &MonitorArgs) -> anyhow::Result<ExitCode> {
    let mut watch = Watch::begin()?;
    let mut known = names()?;
    let mut out = stdout::open().context(stdout::WRITING)?;
    // What was told because a listing says so may be on its way as an event as well.
    let mut told: BTreeMap<OsString, Change> = BTreeMap::new();
    loop {
        if told.is_empty() && !stdout::pause_until(&watch.0).context("wait for changes")? {
            return Ok(ExitCode::SUCCESS);
        }
        let mut lines = Vec::new();
        let news = watch.read().context("read changes of names")?;
        for (change, name) in news.changes {
            if told.remove(&name) != Some(change) {
                args.push(&mut lines, change, &name);
            }
            match change {
                Change::Add => known.insert(name),
                Change::Delete => known.remove(&name),
            };
        }
        if news.is_all {
            told.clear();
        }
        if news.is_over {
            notes::say(&format!(
                "sockeye: {} was removed: it is made again, and watched\n",
                NetnsName::FOLDER
            ));
            watch = Watch::begin()?;
        }
        if news.has_gap || news.is_over {
            if news.has_gap {
                notes::say(
                    "sockeye: names came and went faster than they could be read: of those that did both, some are \
                     missing here; raise the sysctl fs.inotify.max_queued_events\n",
                );
            }
            let now = names()?;
            let gone = known.difference(&now).map(|name| (Change::Delete, name));
            let new = now.difference(&known).map(|name| (Change::Add, name));
            for (change, name) in gone.chain(new) {
                args.push(&mut lines, change, name);
                told.insert(name.clone(), change);
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

impl MonitorArgs {
    fn push(&self, out: &mut Vec<u8>, change: Change, name: &OsStr) {
        let event = match change {
            Change::Add => "add",
            Change::Delete => "delete",
        };
        match self.format {
            MonitorFormat::Text => {
                out.extend_from_slice(format!("{event} {}", harmless(name.as_bytes())).as_bytes());
            }
            MonitorFormat::Jsonl => {
                let mut object = JsonObject::begin(out);
                object.word("event", event);
                object.bytes("name", Some(name.as_bytes()));
                object.word("time", &Timestamp::now().to_string());
                object.end();
            }
        }
        out.push(b'\n');
    }
}

/// The folder of names, watched.
#[derive(Debug)]
struct Watch(OwnedFd);

/// What was read at one go.
#[derive(Debug, Default)]
struct News {
    changes: Vec<(Change, OsString)>,
    /// Nothing more is waiting.
    is_all: bool,
    /// The kernel had no room for some.
    has_gap: bool,
    /// The folder is not there any more.
    is_over: bool,
}

impl Watch {
    /// Begins, as `ip netns monitor` does, with making the folder.
    fn begin() -> anyhow::Result<Self> {
        let folder = NetnsName::FOLDER;
        if let Err(error) = DirBuilder::new().mode(0o755).create(folder)
            && error.kind() != ErrorKind::AlreadyExists
        {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => "; no namespace has a name yet: run as root",
                _ => "",
            };
            bail!("cannot make the folder {folder}: {error}{remedy}");
        }
        let begin = || {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let what = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            inotify::add_watch(&inotify, folder, what)?;
            Ok(Self(inotify))
        };
        begin().map_err(|errno| {
            let remedy = match errno {
                Errno::MFILE => "; raise the sysctl fs.inotify.max_user_instances, or `ulimit -n`",
                Errno::NOSPC => "; raise the sysctl fs.inotify.max_user_watches",
                Errno::ACCESS => "; run as root",
                _ => "",
            };
            anyhow!("cannot watch {folder}: {errno}{remedy}")
        })
    }

    /// What happened since, up to a buffer of it; does not wait.
    fn read(&self) -> Result<News, Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut news = News::default();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => {
                    news.is_all = true;
                    return Ok(news);
                }
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let (kind, name) = (event.events(), event.file_name());
            let over =
                ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT | ReadFlags::IGNORED;
            news.has_gap |= kind.intersects(ReadFlags::QUEUE_OVERFLOW);
            news.is_over |= kind.intersects(over);
            let change = if kind.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                Some(Change::Add)
            } else if kind.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                Some(Change::Delete)
            } else {
                None
            };
            if let (Some(change), Some(name)) = (change, name) {
                let name = OsStr::from_bytes(name.to_bytes()).to_owned();
                news.changes.push((change, name));
            }
            if reader.is_buffer_empty() {
                return Ok(news);
            }
        }
    }
}

/// The names there are; none without the folder.
fn names() -> anyhow::Result<BTreeSet<OsString>> {
    let read = || match fs::read_dir(NetnsName::FOLDER) {
        Ok(files) => files.map(|file| file.map(|file| file.file_name())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    };
    read().with_context(|| format!("read the folder {}", NetnsName::FOLDER))
}

/// Some 2,000 names.
const BUFFER: usize = 64 * 1024;
