//! Processors as the limit.

use super::LimitAnalysis;
use super::amount::percent;
use crate::Sentence;
use crate::transfer::{Side, StreamTransfer};

impl LimitAnalysis<'_> {
    /// A thread, or all processors, were saturated.
    pub(super) fn tester_limited(&self) -> Option<Sentence> {
        let of_sender = self.busiest(|stream| stream.sent.as_ref());
        let of_receiver = self.busiest(|stream| stream.received.as_ref());
        let (busiest, end, act) = if of_sender >= of_receiver {
            (of_sender, self.sender, "sends")
        } else {
            (of_receiver, self.receiver, "receives")
        };
        let (needed, had) = busiest.filter(|&(needed, _)| needed >= BUSY_PERMILLE)?;
        let waited = needed.saturating_sub(had);
        let others = (waited >= WAITED_PERMILLE).then(|| {
            format!(
                ", and waited for one for {}: others used it",
                percent(waited as f64)
            )
        });
        let has_others = others.is_some();
        let text = format!(
            "The tester itself was the limit: the thread that {act} {} had a processor for {} of the time{}.",
            end.at,
            percent(had as f64),
            others.unwrap_or_default()
        );
        let is_multiprocessor = end.end.work.processors.is_some_and(|count| count > 1);
        let more_streams = self.more_streams(2, "a thread for each stream");
        let copies = act == "receives"
            && !self.limits.is_udp
            && self.limits.command.is_some_and(|it| !it.has("--skip-rx-copy"));
        let why = "what is received is not copied";
        let without_copy = self.rerun(|it| it.with_flag("--skip-rx-copy"), why);
        Some(
            Sentence::new("tester-limited", text)
                .with(has_others.then(|| end.command("top", "what else runs?")))
                .with(more_streams.filter(|_| is_multiprocessor))
                .with(self.longer_writes("fewer system calls for the same bytes"))
                .with(without_copy.filter(|_| copies)),
        )
    }

    /// The busiest thread: thousandths of its time in which it needed a processor, and in which it had one.
    fn busiest(&self, side: impl Fn(&StreamTransfer) -> Option<&Side>) -> Option<(u64, u64)> {
        let share = |stream: &&StreamTransfer| {
            let side = side(stream)?;
            let worked = side.cpu_user_us?.saturating_add(side.cpu_system_us?);
            let needed = worked.saturating_add(side.cpu_waited_us.unwrap_or(0));
            let wall = side.cpu_wall_us.filter(|&us| us >= SHORTEST_US)?;
            Some((
                needed.saturating_mul(1000) / wall,
                worked.saturating_mul(1000) / wall,
            ))
        };
        self.streams.iter().filter_map(share).max()
    }

    /// Other programs may have slowed the transfer down, without proof.
    pub(super) fn busy_host(&self) -> Option<Sentence> {
        for end in [self.sender, self.receiver] {
            let idle = end.end.work.host_idle_permille;
            if let Some(idle) = idle.filter(|&idle| idle <= IDLE_PERMILLE) {
                let text = format!(
                    "The processors of the host {} rested {} of the time: other work may have slowed it down.",
                    end.at,
                    percent(idle as f64)
                );
                return Some(Sentence::new("host-busy", text).with([end.command("top", "what else runs?")]));
            }
        }
        for end in [self.sender, self.receiver] {
            let work = &end.end.work;
            if work
                .busiest_processor_permille
                .is_some_and(|share| share >= SATURATED_PERMILLE)
                && work.processors.is_some_and(|count| count > 1)
            {
                let text = format!(
                    "One processor {} worked all the time, on packets or for others: that may have slowed it down.",
                    end.at
                );
                let why = "which, and is it soft interrupts? (--affinity keeps away from it)";
                return Some(
                    Sentence::new("processor-busy", text).with([end.command("mpstat -P ALL 1", why)]),
                );
            }
        }
        None
    }
}

/// A thread that is busier than this is the limit.
const BUSY_PERMILLE: u64 = 900;
/// A host with less idle processor time than this is busy.
const IDLE_PERMILLE: u64 = 30;
const SATURATED_PERMILLE: u64 = 970;
/// Waiting at least this long for a processor is reported.
const WAITED_PERMILLE: u64 = 100;
/// Below a tenth of a second, processor times are too coarse.
const SHORTEST_US: u64 = 100_000;
