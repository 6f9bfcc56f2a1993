//! `bench stream --iperf3` and iperf3's clients of `bench serve`: our plan in iperf3's words, and its outcome in ours.

use crate::{Desk, Manner, Outcome, PORT, Trouble, Wishes, document, failed_document};
use sockeye_load::session::{Reach, Stop};
use sockeye_load::stream::{self, Progress, Until};
use sockeye_load::{StreamDocument, StreamError, StreamOptions, StreamProtocol, StreamServer};
use std::net::TcpStream;
use std::time::Duration;

/// iperf3's protocol, for `bench`.
#[derive(Debug, Clone, Copy)]
pub struct Iperf3;

impl StreamProtocol for Iperf3 {
    fn port(&self) -> u16 {
        PORT
    }

    fn check(&self, plan: &stream::Plan) -> Result<(), String> {
        let is_whole = |span: Duration| span.subsec_nanos() == 0;
        let time = match plan.until {
            Until::Time(time) => time,
            Until::Bytes(_) => Duration::ZERO,
        };
        if is_whole(time) && is_whole(plan.omit) {
            return Ok(());
        }
        Err("its protocol counts --time and --omit in whole seconds".to_owned())
    }

    fn run(
        &self,
        reach: &Reach,
        plan: &stream::Plan,
        options: StreamOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<stream::Outcome, StreamError> {
        match run(reach, plan, options, stop, progress) {
            Ok(outcome) => Ok(outcome.transfer()),
            Err(trouble) => Err(StreamError {
                code: trouble.code(),
                error: trouble.into(),
            }),
        }
    }

    fn run_for_document(
        &self,
        reach: &Reach,
        plan: &stream::Plan,
        options: StreamOptions,
        stop: &Stop,
        progress: &mut dyn FnMut(&Progress),
    ) -> StreamDocument {
        let system = system();
        match run(reach, plan, options, stop, progress) {
            Ok(outcome) => StreamDocument {
                text: document(&outcome, &system),
                outcome: Ok(outcome.trouble.is_none()),
            },
            Err(trouble) => StreamDocument {
                text: failed_document(&trouble, &system),
                outcome: Err(trouble.into()),
            },
        }
    }

    fn server(&self) -> Box<dyn StreamServer> {
        Box::new(Desk::default())
    }
}

impl StreamServer for Desk {
    fn receive(&self, number: u64, connection: TcpStream, stop: &Stop, say: &(dyn Fn(&str) + Sync)) -> bool {
        Self::receive(self, number, connection, stop, say)
    }
}

fn run(
    reach: &Reach,
    plan: &stream::Plan,
    options: StreamOptions,
    stop: &Stop,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Trouble> {
    let mut wishes = Wishes::of(plan);
    if let Some(blocks) = options.blocks {
        (wishes.blocks, wishes.time_s) = (blocks, 0);
    }
    wishes.mss = options.mss.unwrap_or(0);
    wishes.no_delay = options.no_delay;
    let manner = Manner {
        processor: plan.our_processor,
        skips_copy: plan.skips_copy,
    };
    let plan = crate::Plan {
        wishes,
        interval: plan.interval,
        manner,
    };
    let mut elapsed = Duration::ZERO;
    let mut retransmitted = None;
    crate::run(reach, &plan, stop, &mut |interval| {
        elapsed += Duration::from_secs_f64(interval.seconds);
        for tcp in interval.streams.iter().filter_map(|stream| stream.tcp) {
            retransmitted = Some(retransmitted.unwrap_or(0) + tcp.retransmits);
        }
        let rate = |sends: bool| {
            let has_any = interval.streams.iter().any(|stream| stream.sends == sends);
            has_any.then(|| interval.bytes(sends) as f64 / interval.seconds.max(1e-9))
        };
        progress(&Progress {
            elapsed,
            sent_bytes_per_s: rate(true),
            received_bytes_per_s: rate(false),
            retransmitted_segs: retransmitted,
            rtt_us: None,
        });
    })
}

/// Returns the `uname` line of this host, as iperf3 prints it.
fn system() -> String {
    let uname = rustix::system::uname();
    [
        uname.sysname(),
        uname.nodename(),
        uname.release(),
        uname.version(),
        uname.machine(),
    ]
    .map(|word| word.to_string_lossy().into_owned())
    .join(" ")
}
