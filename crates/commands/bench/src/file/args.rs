//! Arguments of `sockeye bench file`.

use crate::family_args::FamilyArgs;
use crate::output_args::OutputArgs;
use crate::sizes::{self, Sizes};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use rustix::io::Errno;
use sockeye_console::usage::UsageError;
use sockeye_load::file::{Method, Shortfall, TestFile};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Send a file to a socket, by every available method
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// An existing file [default: a sparse one without a name, in $TMPDIR or /var/tmp]
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Bytes to send at a time: a list [default: 4Ki,64Ki,1Mi,64Mi,2.1Gi; of FILE: all of it]
    #[arg(long, value_name = "SIZES", value_parser = sizes::sizes)]
    pub(super) sizes: Option<Sizes>,
    /// Methods to measure [default: all]
    #[arg(long, value_name = "METHODS", value_enum, value_delimiter = ',')]
    methods: Vec<MethodArg>,
    /// Over lo, over a veth pair between two namespaces made for it (as root), or both [default: both]
    #[arg(long, value_name = "DEVICES", value_enum, value_delimiter = ',')]
    over: Vec<DeviceArg>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    /// Repeats of each measurement; the report shows the median [default: 3; above 1Gi: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) repeats: Option<u64>,
    /// Least time of one measurement, in seconds: short files are sent repeatedly
    #[arg(short = 'd', long, value_name = "SECS", default_value = "0.05", value_parser = sockeye_console::values::seconds)]
    pub(super) duration: Duration,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum MethodArg {
    /// read into a buffer of 128 KiB, send out of it
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

impl FileArgs {
    pub(super) fn test_file(&self) -> anyhow::Result<(TestFile, Vec<u64>, Option<Shortfall>)> {
        let wanted = self.sizes.as_ref().map(|Sizes(sizes)| sizes.clone());
        let wrong = |text: String| anyhow!(UsageError(format!("sockeye: {text}\n")));
        if let Some(path) = &self.file {
            let file = TestFile::open(path).map_err(|error| {
                if Errno::from_io_error(&error) == Some(Errno::INVAL) {
                    wrong(format!("{}: not a regular file", path.display()))
                } else {
                    anyhow!(error).context(format!("open {}", path.display()))
                }
            })?;
            if file.bytes() == 0 {
                return Err(wrong(format!("{}: there is nothing in it", path.display())));
            }
            let sizes = wanted.unwrap_or_else(|| vec![file.bytes()]);
            if let Some(long) = sizes.iter().find(|&&size| size > file.bytes()) {
                return Err(wrong(format!(
                    "--sizes: {long} bytes are more than {} has: {}",
                    path.display(),
                    file.bytes()
                )));
            }
            return Ok((file, sizes, None));
        }
        let mut sizes = wanted
            .map_or_else(|| sizes::sizes(DEFAULT_SIZES).map(|Sizes(sizes)| sizes), Ok)
            .map_err(wrong)?;
        let (least, most) = (sizes[0], sizes[sizes.len() - 1]);
        let folder = folder();
        let (file, shortfall) = TestFile::make(&folder, most, least).map_err(|error| {
            anyhow!(
                "make a file of {} in {}: {error}; TMPDIR=DIRECTORY chooses another directory, --sizes smaller files",
                sizes::text(most),
                folder.display()
            )
        })?;
        sizes.retain(|&size| size <= file.bytes());
        Ok((file, sizes, shortfall))
    }

    pub(super) fn methods(&self) -> Vec<Method> {
        let wanted = |method: &Method| {
            self.methods.is_empty() || self.methods.iter().any(|arg| arg.method() == *method)
        };
        Method::ALL.into_iter().filter(wanted).collect()
    }

    pub(super) fn devices(&self) -> Vec<&'static str> {
        let wanted = |device| self.over.is_empty() || self.over.contains(&device);
        let all = [(DeviceArg::Lo, "lo"), (DeviceArg::Veth, "veth")];
        all.into_iter()
            .filter(|(arg, _)| wanted(*arg))
            .map(|(_, name)| name)
            .collect()
    }

    pub(super) fn versions(&self) -> Vec<u8> {
        match (self.family.ipv4, self.family.ipv6) {
            (true, _) => vec![4],
            (_, true) => vec![6],
            _ => vec![4, 6],
        }
    }
}

impl MethodArg {
    const fn method(self) -> Method {
        match self {
            Self::Read => Method::Read,
            Self::Sendfile => Method::Sendfile,
            Self::Splice => Method::Splice,
            Self::Mmap => Method::Mmap,
            Self::Zerocopy => Method::ZeroCopy,
            Self::Uring => Method::Ring,
            Self::UringZc => Method::RingZeroCopy,
        }
    }
}

/// Returns the folder for large files: `/tmp` is in memory on many machines.
fn folder() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(folder) if !folder.is_empty() => folder.into(),
        _ if Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        _ => std::env::temp_dir(),
    }
}

const DEFAULT_SIZES: &str = "4Ki,64Ki,1Mi,64Mi,2.1Gi";
