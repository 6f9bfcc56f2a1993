//! Takes samples until the process is ended.

use super::args::RecordArgs;
use super::checks::{Checker, all_of};
use super::clocks;
use super::netns_names::NetnsNames;
use super::observer::{self, Observer};
use super::sampler::{Sampled, Sampler};
use anyhow::Context;
use sockeye_console::envelope;
use sockeye_console::exit::InUse;
use sockeye_console::notes::say;
use sockeye_console::output_file::database_path;
use sockeye_history::{DataKind, Gap, GapReason, Unseen};
use sockeye_model::{WorkloadKind, counted};
use sockeye_output::flow::connections;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::Listing;
use sockeye_query::{past, when};
use sockeye_store::{Limits, Lost, Observed, Run, SIDE_FILES, StoreError, StoreWriter};
use sockeye_sys::allocator;
use sockeye_sys::interrupts::Interrupts;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Records.
///
/// # Errors
/// If an option is wrong, the store cannot be opened, or with `--once` there is no sample.
pub fn run(args: &RecordArgs) -> anyhow::Result<()> {
    allocator::return_large_blocks();
    let interrupts = Interrupts::catch().context(SIGNALS)?;
    let path = past::store_path(args.store.as_deref())?;
    // Sockets carry their namespace: another may be listed later.
    let context = QueryContext::new(&args.listing(), false, true)?;
    let mut listing = Listing::new(&args.listing(), &[], None, &context)?;
    listing.require_workloads(&WorkloadKind::ALL);
    let limits = Limits {
        max_bytes: args.max_size,
        max_age: args.max_age,
    };
    let now = envelope::now();
    let run = Run {
        host: now.origin.host.clone(),
        version: now.origin.version,
        interval_ms: args.interval.as_millis() as u64,
    };
    let mut sampler = Sampler::new(&listing);
    let mut unseen = Vec::new();
    if args.once {
        let reason = "with --once nothing is seen between two samples".to_owned();
        unseen.push(all_of(DataKind::Ends, reason));
    } else if let Err(reason) = sampler.watch_between() {
        say(&connections::unseen_note(&reason));
        unseen.push(all_of(DataKind::Ends, reason));
    }
    // Rules about the host are judged where no namespace is chosen.
    let mut check_context = QueryContext::new(&args.listing(), false, false)?;
    check_context.share_engine_of(&context);
    let mut check_listing = Listing::new(&args.listing(), &[], None, &check_context)?;
    check_listing.require_owners();
    let checker = match (args.once, args.check_interval) {
        (true, _) => Some(Checker::new(&check_listing, args.interval, false, unseen)),
        (false, Duration::ZERO) => None,
        (false, interval) => Some(Checker::new(&check_listing, interval, true, unseen)),
    };
    let mut recorder = Recorder {
        listing: &listing,
        sampler,
        checker,
        store: Store::open(path, limits, run)?,
        observer: Observer::default(),
        netns_names: NetnsNames::default(),
        unseen: Vec::new(),
        is_verbose: args.verbose,
        last_problem: None,
        unknown_owners: None,
    };
    if args.once {
        return recorder.take_sample();
    }
    say(&format!(
        "sockeye: recording every {:?} to {}\n",
        args.interval,
        recorder.store.path.display()
    ));
    let mut due = Instant::now();
    loop {
        let taken = recorder.take_sample();
        recorder.report(taken);
        due = next_due(due, Instant::now(), args.interval);
        // SQLite moves what is in its log to the file when the store is closed, so that the file alone is complete.
        if interrupts.arrive_before(due).context(SIGNALS)? {
            return Ok(());
        }
    }
}

/// The file that is written. It is made again if it was removed or replaced.
struct Store {
    path: PathBuf,
    limits: Limits,
    run: Run,
    /// `None` after it was removed, until there is a new one.
    writer: Option<StoreWriter>,
}

impl Store {
    fn open(path: PathBuf, limits: Limits, run: Run) -> anyhow::Result<Self> {
        let writer = open_store(&path, limits, &run).map_err(|error| not_opened(error, &path))?;
        Ok(Self {
            path,
            limits,
            run,
            writer: Some(writer),
        })
    }

    fn writer(&mut self) -> Result<&mut StoreWriter, StoreError> {
        let path = &self.path;
        if let Some(writer) = self.writer.take_if(|writer| !writer.is_in_place(path)) {
            writer.leave();
            say(&format!(
                "sockeye: {} was removed or replaced: a new file is begun\n",
                path.display()
            ));
        }
        match &mut self.writer {
            Some(writer) => Ok(writer),
            none => Ok(none.insert(open_store(&self.path, self.limits, &self.run)?)),
        }
    }
}

/// Opens a store by its name, as SQLite does, at a path that no other user prepared.
fn open_store(path: &Path, limits: Limits, run: &Run) -> Result<StoreWriter, StoreError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::IsADirectory => StoreError::a_folder(path),
        _ => StoreError::File(path.to_owned(), error),
    };
    let checked = database_path(path, SIDE_FILES).map_err(refused)?;
    let writer = StoreWriter::open(&checked, limits, run.clone())?;
    // They have been made by their names since.
    database_path(&checked, SIDE_FILES).map_err(refused)?;
    Ok(writer)
}

/// Takes samples.
struct Recorder<'a> {
    listing: &'a Listing<'a>,
    sampler: Sampler<'a>,
    /// `None`: only sockets are recorded.
    checker: Option<Checker<'a>>,
    store: Store,
    observer: Observer,
    netns_names: NetnsNames,
    /// What the last look could not see of translations.
    unseen: Vec<Unseen>,
    is_verbose: bool,
    /// What was reported last, so that a disk that stays full is reported once.
    last_problem: Option<String>,
    /// The same for why owners are not known.
    unknown_owners: Option<String>,
}

impl Recorder<'_> {
    fn take_sample(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let path = self.store.path.clone();
        let not_kept = |error| not_kept(error, &path);
        let store = self.store.writer().map_err(not_kept)?;
        // It takes its time, which is not that of the sockets.
        let has_checked = self.checker.as_ref().is_some_and(Checker::is_due);
        let check = self.checker.as_mut().and_then(Checker::look);
        let mut observed = Vec::new();
        let mut picker = None;
        if has_checked {
            let at_ms = envelope::now().time_us / 1_000;
            let (translations, unseen) = self.observer.translations(self.listing, at_ms);
            if !translations.is_empty() {
                observed.push(Observed::Translations(translations));
            }
            self.unseen = unseen;
            picker = self.observer.exchanges();
        }
        if let Some(mut check) = check {
            check.unseen.append(&mut self.unseen);
            store.take_check(check);
        }
        // It needs more memory than a sample, and less often.
        if has_checked {
            allocator::return_free_memory();
        }
        let mut report = self.listing.begin();
        let envelope = envelope::now();
        let clocks = clocks::read(&envelope);
        let at_ms = clocks.at_ms;
        let mut sample = store.begin(clocks).map_err(not_kept)?;
        let sampled = self
            .sampler
            .sample(at_ms, &mut report, picker.as_mut(), &mut sample);
        let Sampled {
            lost_events,
            listeners,
            namespaces,
            count,
            unchanged,
        } = match sampled {
            Ok(sampled) => sampled,
            Err(error) => {
                drop(sample);
                store.skip(GapReason::NotRead);
                return Err(error);
            }
        };
        let unknown_owners = report.unknown_owners();
        if unknown_owners != self.unknown_owners {
            say(&match &unknown_owners {
                Some(why) => format!("sockeye: owners are not known: {why}\n"),
                None => "sockeye: owners are known again\n".to_owned(),
            });
            self.unknown_owners = unknown_owners;
        }
        if let Some(picker) = picker {
            let exchanges = observer::exchanges(picker, &listeners);
            if !exchanges.is_empty() {
                observed.push(Observed::Exchanges(exchanges));
            }
        }
        let names = self.netns_names.look(namespaces, has_checked);
        observed.extend(names.map(Observed::NetnsNames));
        observed.into_iter().for_each(|one| sample.observe(one));
        let lost = Lost {
            losses: report.losses,
            events: lost_events,
        };
        let gap = sample.finish(lost).map_err(not_kept)?;
        // One that reads all sockets needs more memory than those after it.
        if unchanged == 0 && self.sampler.leaves_out() {
            allocator::return_free_memory();
        }
        if let Some(gap) = gap {
            say(&gap_note(&gap));
        }
        if self.is_verbose {
            let took = begun.elapsed();
            say(&format!(
                "sockeye: {}: {}, {unchanged} of them not read again, in {took:.1?}\n",
                when::local(at_ms),
                counted(count, "socket")
            ));
        }
        Ok(())
    }

    /// Notes a problem, and that it is over.
    fn report(&mut self, taken: anyhow::Result<()>) {
        let problem = taken.err().map(|error| format!("{error:#}"));
        if problem == self.last_problem {
            return;
        }
        match &problem {
            Some(problem) => say(&format!(
                "sockeye: {problem}; trying again at the next interval\n"
            )),
            None => say("sockeye: samples are kept again\n"),
        }
        self.last_problem = problem;
    }
}

fn gap_note(gap: &Gap) -> String {
    format!(
        "sockeye: a gap from {} to {} ({})\n",
        when::local(gap.from_ms),
        when::local(gap.to_ms),
        gap.reason.name()
    )
}

const SIGNALS: &str = "handle SIGINT, SIGTERM and SIGHUP";

/// Says what is lost, where, and on a full disk what to do.
fn not_kept(error: StoreError, path: &Path) -> anyhow::Error {
    let what = match &error {
        error if error.names_file() => "no sample is kept".to_owned(),
        _ => format!("no sample is kept in {}", path.display()),
    };
    with_remedy(error).context(what)
}

/// The same at the start, when nothing is lost yet.
fn not_opened(error: StoreError, path: &Path) -> anyhow::Error {
    if matches!(error, StoreError::InUse(_)) {
        return InUse(error.to_string()).into();
    }
    if error.names_file() {
        return error.into();
    }
    with_remedy(error).context(path.display().to_string())
}

fn with_remedy(error: StoreError) -> anyhow::Error {
    let is_full = matches!(error, StoreError::Full);
    let error = anyhow::Error::from(error);
    if !is_full {
        return error;
    }
    let text = format!(
        "{error}: what was recorded before stays, samples are lost until there is space: \
         free some, or record to another disk with --store"
    );
    anyhow::Error::msg(text)
}

/// Returns when the next sample is due. Those that are late are left out: they would be no more than the one that comes.
fn next_due(due: Instant, now: Instant, interval: Duration) -> Instant {
    let late = now.saturating_duration_since(due);
    let intervals = late.as_nanos() / interval.as_nanos().max(1) + 1;
    due + interval * u32::try_from(intervals).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_history::SampleClocks;
    use sockeye_lab::{Skip, need};
    use std::process::Command;

    /// Runs itself once more in a mount namespace of its own, where a folder is a disk of 1 MiB.
    #[test]
    fn full_disk_names_the_store_what_is_lost_and_what_to_do() {
        if let Some(folder) = std::env::var_os(SMALL_DISK) {
            fill_disk(Path::new(&folder));
            return;
        }
        let is_root = rustix::process::geteuid().is_root();
        need!(
            is_root
                .then_some(())
                .ok_or_else(|| Skip::new("root is needed to mount a tmpfs"))
        );
        let folder = std::env::temp_dir().join(format!("sockeye-full-disk-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let script = "mount -t tmpfs -o size=1m own \"$1\" && exec \"$2\" --exact --nocapture \"$3\"";
        let outcome = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&folder)
            .arg(std::env::current_exe().unwrap())
            .arg("record::run::tests::full_disk_names_the_store_what_is_lost_and_what_to_do")
            .env(SMALL_DISK, &folder)
            .output();
        std::fs::remove_dir(&folder).unwrap();
        let outcome = outcome.unwrap();
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert!(
            outcome.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    }

    const SMALL_DISK: &str = "SOCKEYE_TEST_SMALL_DISK";

    fn fill_disk(folder: &Path) {
        let path = folder.join("record.db");
        let limits = Limits {
            max_bytes: Limits::BYTES_MIN,
            max_age: None,
        };
        let run = || Run {
            host: None,
            version: "0.0.0",
            interval_ms: 10_000,
        };
        let clocks = |number: u64| SampleClocks {
            at_ms: 1_795_000_200_000 + number * 10_000,
            monotonic_ms: number * 10_000,
            boottime_ms: number * 10_000,
            boot_id: None,
        };
        let mut writer = StoreWriter::open(&path, limits, run()).unwrap();
        let mut add = |number| writer.add(clocks(number), [], Lost::default());
        add(0).unwrap();
        // What fills the disk is another program's.
        let other = folder.join("other");
        let end = std::fs::write(&other, vec![1; 4 << 20]).unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::StorageFull);
        // A page of the log may be there already.
        let failed = (1..1_000).find_map(|number| add(number).err().map(|error| (number, error)));
        let (number, error) = failed.unwrap();
        assert_eq!(
            format!("{:#}", not_kept(error, &path)),
            format!(
                "no sample is kept in {}: the disk is full: what was recorded before stays, samples are lost until there is space: \
                 free some, or record to another disk with --store",
                path.display()
            )
        );
        let elsewhere = folder.join("elsewhere.db");
        let error = Store::open(elsewhere.clone(), limits, run()).err().unwrap();
        let text = format!("{error:#}");
        assert!(
            text.starts_with(&format!("{}: the disk is full", elsewhere.display())),
            "{text}"
        );
        assert!(text.contains("--store"), "{text}");
        std::fs::remove_file(&other).unwrap();
        let gap = add(number + 1).unwrap().unwrap();
        assert_eq!(gap.reason, GapReason::NotWritten);
    }

    #[test]
    fn late_samples_are_left_out() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let interval = Duration::from_secs(10);
        assert_eq!(next_due(at(0), at(1), interval), at(10));
        assert_eq!(next_due(at(10), at(35), interval), at(40));
        assert_eq!(next_due(at(10), at(20), interval), at(30));
        // The clock of the next is not before now.
        assert_eq!(next_due(at(10), at(5), interval), at(20));
    }
}
