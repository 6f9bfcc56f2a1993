//! Begins to watch drops, and reports them once, repeatedly, or packet by packet.

use super::args::DropsArgs;
use super::output::{DropCounters, DropPackets, Drops};
use super::session::{Session, Shown};
use anyhow::{Context as _, bail};
use sockeye_console::notes::say;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_output::listing::columns_help;
use sockeye_query::context::{QueryContext, bpf_engine};
use sockeye_query::drops::reasons_of;
use sockeye_query::listing::Listing;
use sockeye_source::own_pid_namespace;
use sockeye_sys::interrupts::Interrupts;
use sockeye_tracepoints::{DropOptions, DropWatch};
use std::cell::{OnceCell, RefCell};
use std::process::ExitCode;

/// Watches drops and prints them.
///
/// # Errors
/// If an option is wrong, nothing can be watched, or output failed.
pub fn run(args: &DropsArgs) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::catch().context("handle SIGINT, SIGTERM and SIGHUP")?;
    if args.common.columns.as_deref() == Some("help") {
        let help = match (args.packets, args.counters) {
            (true, _) => columns_help::<DropPackets>(),
            (_, true) => columns_help::<DropCounters>(),
            _ => columns_help::<Drops>(),
        };
        return stdout::write_lines(help).map(|()| ExitCode::SUCCESS);
    }
    let shown = Shown::parse(args)?;
    let is_of_one_netns = args.netns.as_deref().is_some_and(|netns| netns != "all");
    if args.keys == 0 && (args.packets || !args.filter.is_empty() || is_of_one_netns) {
        let text = "sockeye: drops: with --keys 0 only reasons are counted, those of the whole host: no packets, nothing to filter, and \
                    no network namespace\n";
        return Err(UsageError(text.to_owned()).into());
    }
    if args.packets && args.budget.cpu.is_some() {
        let text = "sockeye: drops: with --packets nothing is sampled: leave out --cpu\n";
        return Err(UsageError(text.to_owned()).into());
    }
    let engine = bpf_engine(&args.common.btf)?;
    let mut reasons = reasons_of(&engine);
    let treatments = match args.packets || !args.filter.is_empty() {
        true => reasons.treatments(args.all, args.keys > 0),
        false => reasons.treatments_with_counters(args.all, args.keys > 0),
    };
    let options = DropOptions {
        treatments: &treatments,
        packets: args.packets,
        ring_bytes: args.common.ring,
        // The kernel wants at least one.
        keys: args.keys.max(1),
        cpu_ppm_max: args.budget.ppm_max(5),
        by_rule: true,
        pid_namespace: own_pid_namespace(),
    };
    let watch = match DropWatch::load(&engine, &options) {
        Ok(watch) => Some(watch),
        Err(error) if args.packets || !args.filter.is_empty() => {
            bail!("drops: packets cannot be watched: {error}");
        }
        Err(error) => {
            say(&format!(
                "sockeye: drops: only counters of this network namespace: dropped packets, their reasons and owners cannot be seen: \
                 {error}\n"
            ));
            None
        }
    };
    reasons.are_given = watch.as_ref().is_some_and(DropWatch::has_reasons);
    if watch.is_some() && !reasons.are_given {
        say("sockeye: drops: this kernel gives no reasons (Linux 5.17): only places are known\n");
    }
    let netns = args
        .netns
        .clone()
        .or_else(|| watch.is_some().then(|| "all".to_owned()));
    let common = args.listing(netns);
    let context = QueryContext::new(&common, false, true)?;
    let mut listing = Listing::new(&common, &args.filter, None, &context)?;
    listing.require_owners();
    let session = Session {
        args,
        reasons,
        listing: &listing,
        functions: OnceCell::new(),
        interrupts,
        shown,
        later: RefCell::default(),
    };
    match watch {
        Some(watch) if args.packets => session.packets(watch),
        watch => session.reports(watch),
    }
}
