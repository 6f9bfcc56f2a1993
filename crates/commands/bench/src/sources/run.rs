//! Lists the same sockets by each source and measures the time of each. `bench::run` calls it.

use super::args::SourcesArgs;
use super::output::report;
use crate::output_args::noise_since;
use sockeye_console::progress::Progress;
use sockeye_load::sources::{MIN_REPEATS, SocketLoad, SocketLoadError, SourcesPlan, in_private_namespace};
use sockeye_measure::{Partial, SourceTimes};
use sockeye_model::ProtocolSet;
use sockeye_query::context;
use sockeye_source::BpfEngine;
use sockeye_sys::interrupts::Interrupts;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(args: &SourcesArgs) -> anyhow::Result<ExitCode> {
    let sizes = args.sizes()?;
    let chart = args.output.prepare()?;
    let bpf_engine = context::bpf_engine(&args.btf)?;
    let interrupts = Interrupts::catch()?;
    let plan = SourcesPlan {
        protocols: args.protocols.unwrap_or(if sizes.is_empty() {
            ProtocolSet::ALL
        } else {
            ProtocolSet::of(&[sockeye_model::Protocol::Tcp])
        }),
        repeats: args.repeats.map_or(REPEATS, |repeats| repeats as usize),
        time_limit: args.repeats.is_none().then_some(TIME_LIMIT),
    };
    let noise = sockeye_load::noise();
    let mut measurement = Measurement {
        engine: &bpf_engine,
        plan,
        goes_on: &|| interrupts.caught().is_none(),
        measured: Vec::new(),
        failed: None,
    };
    if sizes.is_empty() {
        measurement.measure(1);
    } else {
        measurement.measure_loads(&sizes)?;
    }
    let mut report = report(&measurement.measured, !sizes.is_empty());
    report.noise = Some(noise_since(noise));
    if let Some(failure) = &measurement.failed {
        report.partial = Some(Partial {
            code: "failed",
            text: failure.to_string(),
        });
    } else if interrupts.caught().is_some() {
        report.partial = Some(Partial {
            code: "interrupted",
            text: "it was interrupted".to_owned(),
        });
    }
    args.output.deliver(&report, chart)
}

/// A benchmark of the sources, table by table.
struct Measurement<'a> {
    engine: &'a BpfEngine,
    plan: SourcesPlan,
    goes_on: &'a (dyn Fn() -> bool + Sync),
    /// Times of the sources, one list per table.
    measured: Vec<Vec<SourceTimes>>,
    /// Why not all tables were measured.
    failed: Option<SocketLoadError>,
}

impl Measurement<'_> {
    /// Measures the table of this thread's namespace, one of `tables`.
    fn measure(&mut self, tables: usize) {
        let before = self.measured.len() * 1000;
        let mut progress = Progress::new("thousandths of the readings", 1000);
        let times = self.plan.measure(self.engine, |permille| {
            progress.reach((before + permille as usize) / tables);
            (self.goes_on)()
        });
        self.measured.push(times);
    }

    /// Measures tables of these sizes. An error if not even the first can be measured.
    fn measure_loads(&mut self, sizes: &[u64]) -> anyhow::Result<()> {
        let outcome = in_private_namespace(|| -> Result<(), SocketLoadError> {
            let mut load = SocketLoad::new()?;
            for size in sizes {
                let mut progress = Progress::new("sockets made", *size as usize);
                load.grow(*size as usize, |sockets| {
                    progress.reach(sockets);
                    (self.goes_on)()
                })?;
                drop(progress);
                if !(self.goes_on)() {
                    break;
                }
                self.measure(sizes.len());
            }
            Ok(())
        });
        match outcome.and_then(|done| done) {
            Err(failure) if self.measured.is_empty() => Err(failure.into()),
            outcome => {
                self.failed = outcome.err();
                Ok(())
            }
        }
    }
}

const REPEATS: usize = 10;

const TIME_LIMIT: Duration = Duration::from_secs(20);

const _: () = assert!(REPEATS >= MIN_REPEATS);
