//! Hands each sample to the sender.

use super::args::OtlpArgs;
use super::environment;
use super::sender::Sender;
use crate::output::otlp::{Period, request};
use crate::sampling::repeat;
use sockeye_console::envelope;
use sockeye_console::notes::say;

/// Exports until it is ended.
pub(crate) fn run(args: &OtlpArgs) -> anyhow::Result<()> {
    let resource = environment::attributes()?;
    let target = args.endpoint.join("v1/metrics");
    let sender = Sender::start(target.clone(), environment::headers()?)?;
    say(&format!("sockeye: metrics go to {target}\n"));
    let begun_ns = now_ns();
    repeat(&args.samples, false, &mut |metrics| {
        let period = Period {
            begun_ns,
            time_ns: now_ns(),
        };
        sender.send(request(metrics, &resource, period));
        Ok(())
    })
}

fn now_ns() -> u64 {
    envelope::now().time_us.saturating_mul(1000)
}
