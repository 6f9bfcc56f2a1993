//! `sockeye bench file`.

use super::file_report::Telltale;
use super::sizes::{self, Sizes};
use super::telling::{Telling, noise_since};
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use rustix::io::Errno;
use sockeye_console::usage::UsageError;
use sockeye_load::file::{Content, Ended, Failure, FilePlan, Outcome, Roads, Shortfall, Step, Way};
use sockeye_sys::interrupts::Interrupts;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// From file to socket, by every way there is
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// A file that is there [default: a sparse one without a name, in $TMPDIR or /var/tmp]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How much is sent at a time: bytes, with K, M, G (1024) [default: 4K,64K,1M,64M,2.1G; of FILE: all of it]
    #[arg(long, value_name = "SIZES", value_parser = sizes::sizes)]
    sizes: Option<Sizes>,
    /// Which ways [default: all]
    #[arg(long, value_name = "WAYS", value_enum, value_delimiter = ',')]
    ways: Vec<WayArg>,
    /// Over lo, over a veth pair between two namespaces made for it (as root), or both [default: both]
    #[arg(long, value_name = "DEVICES", value_enum, value_delimiter = ',')]
    over: Vec<DeviceArg>,
    /// Over IPv4 only [default: IPv4 and IPv6]
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Over IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// How often each is measured; the median is told [default: 3; above 1G: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeats: Option<u64>,
    /// How long one measurement takes at least, in seconds: short files are sent again and again
    #[arg(short = 't', long, value_name = "SECONDS", default_value = "0.05", value_parser = sockeye_console::values::seconds)]
    time: Duration,
    #[command(flatten)]
    telling: Telling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum WayArg {
    /// read into a buffer of 128K, send out of it
    Read,
    /// sendfile(2)
    Sendfile,
    /// splice(2) into a pipe and out of it
    Splice,
    /// mmap, send from there
    Mmap,
    /// mmap, send with MSG_ZEROCOPY
    Zerocopy,
    /// io_uring: chains of reads and sends
    Uring,
    /// mmap, io_uring's send without a copy
    UringZc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceArg {
    Lo,
    Veth,
}

pub(crate) fn run(args: &FileArgs) -> anyhow::Result<ExitCode> {
    let chart = args.telling.prepare()?;
    let interrupts = Interrupts::catch().context("catch signals")?;
    let stopped = || interrupts.caught().is_some();
    let (mut content, sizes, shortfall) = args.content()?;
    let mut noise = sockeye_load::noise();
    let roads = Roads::open(&args.devices(), &args.versions());
    if roads.all().is_empty() {
        return Err(no_road(&roads));
    }
    let plan = FilePlan {
        sizes,
        ways: args.ways(),
        repeats: args
            .repeats
            .map_or(3, |repeats| usize::try_from(repeats).unwrap_or(usize::MAX)),
        repeats_of_long: args
            .repeats
            .map_or(1, |repeats| usize::try_from(repeats).unwrap_or(usize::MAX)),
        slice: args.time,
    };
    let mut progress = sockeye_console::progress::Progress::new("measurements", plan.steps(&roads));
    let longest = plan.sizes.last().copied().unwrap_or_default();
    let outcome = match content.warm(longest, stopped) {
        Ok(()) => {
            noise = sockeye_load::noise();
            plan.measure(&content, &roads, &mut |done| {
                progress.reach(done);
                stopped()
            })
        }
        Err(failure) if failure.step == Step::Stopped => Outcome {
            ended: Some(Ended::Stopped),
            ..Outcome::default()
        },
        Err(failure) => {
            return Err(anyhow!(failure).context(format!("{}", content.place().display())));
        }
    };
    drop(progress);
    let report = Telltale {
        plan: &plan,
        content: &content,
        roads: &roads,
        outcome: &outcome,
        shortfall: shortfall.as_ref(),
        is_own: args.file.is_none(),
        for_eyes: args.telling.is_for_eyes(),
    };
    let mut report = report.report();
    report.noise = Some(noise_since(noise));
    args.telling.deliver(&report, chart)
}

impl FileArgs {
    fn content(&self) -> anyhow::Result<(Content, Vec<u64>, Option<Shortfall>)> {
        let wanted = self.sizes.as_ref().map(|Sizes(sizes)| sizes.clone());
        let wrong = |text: String| anyhow!(UsageError(format!("sockeye: {text}\n")));
        if let Some(path) = &self.file {
            let content = Content::open(path).map_err(|error| {
                if Errno::from_io_error(&error) == Some(Errno::INVAL) {
                    wrong(format!("{}: not a regular file", path.display()))
                } else {
                    anyhow!(error).context(format!("open {}", path.display()))
                }
            })?;
            if content.bytes() == 0 {
                return Err(wrong(format!("{}: there is nothing in it", path.display())));
            }
            let sizes = wanted.unwrap_or_else(|| vec![content.bytes()]);
            if let Some(long) = sizes.iter().find(|&&size| size > content.bytes()) {
                return Err(wrong(format!(
                    "--sizes: {long} bytes are more than {} has: {}",
                    path.display(),
                    content.bytes()
                )));
            }
            return Ok((content, sizes, None));
        }
        let mut sizes = wanted
            .map_or_else(|| sizes::sizes(DEFAULT_SIZES).map(|Sizes(sizes)| sizes), Ok)
            .map_err(wrong)?;
        let (least, most) = (sizes[0], sizes[sizes.len() - 1]);
        let folder = folder();
        let (content, shortfall) = Content::make(&folder, most, least).map_err(|error| {
            anyhow!(
                "make a file of {} in {}: {error}; TMPDIR=DIRECTORY takes another place, --sizes smaller files",
                sizes::text(most),
                folder.display()
            )
        })?;
        sizes.retain(|&size| size <= content.bytes());
        Ok((content, sizes, shortfall))
    }

    fn ways(&self) -> Vec<Way> {
        let wanted = |way: &Way| self.ways.is_empty() || self.ways.iter().any(|arg| arg.way() == *way);
        Way::ALL.into_iter().filter(wanted).collect()
    }

    fn devices(&self) -> Vec<&'static str> {
        let wanted = |device| self.over.is_empty() || self.over.contains(&device);
        let all = [(DeviceArg::Lo, "lo"), (DeviceArg::Veth, "veth")];
        all.into_iter()
            .filter(|(arg, _)| wanted(*arg))
            .map(|(_, name)| name)
            .collect()
    }

    fn versions(&self) -> Vec<u8> {
        match (self.ipv4, self.ipv6) {
            (true, _) => vec![4],
            (_, true) => vec![6],
            _ => vec![4, 6],
        }
    }
}

impl WayArg {
    const fn way(self) -> Way {
        match self {
            Self::Read => Way::Read,
            Self::Sendfile => Way::Sendfile,
            Self::Splice => Way::Splice,
            Self::Mmap => Way::Mmap,
            Self::Zerocopy => Way::ZeroCopy,
            Self::Uring => Way::Ring,
            Self::UringZc => Way::RingZeroCopy,
        }
    }
}

fn no_road(roads: &Roads) -> anyhow::Error {
    let reasons: Vec<String> = roads
        .missing()
        .iter()
        .map(|(device, version, failure): &(&str, u8, Failure)| {
            format!("IPv{version} over {device}: {failure}")
        })
        .collect();
    anyhow!(
        "there is no road to send a file over: {}; a veth pair needs root, `ip link set lo up` brings lo up",
        reasons.join("; ")
    )
}

/// Where a big file may be: `/tmp` is memory on many a machine.
fn folder() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(folder) if !folder.is_empty() => folder.into(),
        _ if Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        _ => std::env::temp_dir(),
    }
}

const DEFAULT_SIZES: &str = "4K,64K,1M,64M,2.1G";
