//! `sockeye bench stream --iperf3`: the other end is an iperf3 server.

use super::telling::Telling;
use crate::stdout;
use crate::usage::Usage;
use sockeye_load::iperf3::{self, Manner, Wishes};
use sockeye_load::session::{Reach, Stop};
use sockeye_load::stream::{Outcome, Plan, Progress, Until};
use sockeye_render::Format;
use std::process::ExitCode;
use std::time::Duration;

/// What iperf3 has beside what our own protocol has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extras {
    /// Blocks to send, rather than bytes
    pub(super) blocks: Option<u64>,
    /// The largest segment
    pub(super) mss: Option<u64>,
    /// `TCP_NODELAY`
    pub(super) no_delay: bool,
}

pub(super) fn stream(
    reach: &Reach,
    plan: &Plan,
    extras: Extras,
    stop: &Stop,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Outcome, iperf3::Trouble> {
    Ok(run(reach, plan, extras, stop, tell)?.transfer())
}

/// Prints what `iperf3 -J` would, for scripts that read that.
pub(super) fn document(
    reach: &Reach,
    plan: &Plan,
    extras: Extras,
    stop: &Stop,
    tell: &mut dyn FnMut(&Progress),
) -> anyhow::Result<ExitCode> {
    let system = system();
    let made = run(reach, plan, extras, stop, tell);
    let (text, is_whole) = match &made {
        Ok(outcome) => (iperf3::document(outcome, &system), outcome.trouble.is_none()),
        Err(trouble) => (iperf3::failed_document(trouble, &system), false),
    };
    stdout::write(text.as_bytes())?;
    made?;
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether a document of iperf3's shape is asked for: that is what JSON is here.
pub(super) fn wants_document(telling: &Telling) -> bool {
    telling.json || Format::from(telling.format) == Format::Json
}

/// Fails where iperf3 has no word for what is wanted.
pub(super) fn check(plan: &Plan) -> Result<(), Usage> {
    let is_whole = |span: Duration| span.subsec_nanos() == 0;
    let time = match plan.until {
        Until::Time(time) => time,
        Until::Bytes(_) => Duration::ZERO,
    };
    if is_whole(time) && is_whole(plan.omit) {
        return Ok(());
    }
    Err(Usage(
        "sockeye: --iperf3: its protocol counts --time and --omit in whole seconds\n".to_owned(),
    ))
}

fn run(
    reach: &Reach,
    plan: &Plan,
    extras: Extras,
    stop: &Stop,
    tell: &mut dyn FnMut(&Progress),
) -> Result<iperf3::Outcome, iperf3::Trouble> {
    let mut wishes = Wishes::of(plan);
    if let Some(blocks) = extras.blocks {
        (wishes.blocks, wishes.time_s) = (blocks, 0);
    }
    wishes.mss = extras.mss.unwrap_or(0);
    wishes.no_delay = extras.no_delay;
    let manner = Manner {
        processor: plan.our_processor,
        skips_copy: plan.skips_copy,
    };
    let plan = iperf3::Plan {
        wishes,
        interval: plan.interval,
        manner,
    };
    let mut elapsed = Duration::ZERO;
    let mut retransmitted = None;
    iperf3::run(reach, &plan, stop, &mut |interval| {
        elapsed += Duration::from_secs_f64(interval.seconds);
        let told = interval.streams.iter().filter_map(|stream| stream.tcp);
        for tcp in told {
            retransmitted = Some(retransmitted.unwrap_or(0) + tcp.retransmits);
        }
        let rate = |sends: bool| {
            let has_any = interval.streams.iter().any(|stream| stream.sends == sends);
            has_any.then(|| interval.bytes(sends) as f64 / interval.seconds.max(1e-9))
        };
        tell(&Progress {
            elapsed,
            sent_bytes_per_s: rate(true),
            received_bytes_per_s: rate(false),
            retransmitted_segs: retransmitted,
            rtt_us: None,
        });
    })
}

/// As iperf3 has it from `uname`.
fn system() -> String {
    let told = rustix::system::uname();
    [
        told.sysname(),
        told.nodename(),
        told.release(),
        told.version(),
        told.machine(),
    ]
    .map(|word| word.to_string_lossy().into_owned())
    .join(" ")
}
