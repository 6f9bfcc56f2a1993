//! Keepalive of a socket of another process.

use super::borrow::Borrowed;
use crate::targets::Target;
use sockeye_act::EffectiveKeepalive;
use sockeye_model::{State, TimerKind};
use sockeye_output::listing::Value;

/// Keepalive of a socket, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeepaliveState {
    pub(super) is_on: Option<bool>,
    effective: Option<EffectiveKeepalive>,
    next_probe_ms: Option<u32>,
}

impl KeepaliveState {
    pub(super) fn of(target: &Target, borrowed: &Borrowed<EffectiveKeepalive>) -> Self {
        let effective = match borrowed {
            Borrowed::Done(effective) => Some(*effective),
            _ => None,
        };
        let is_on = effective
            .map(|effective| effective.is_on)
            .or_else(|| from_timer(target));
        let timer = target.timer.filter(|timer| timer.kind == TimerKind::Keepalive);
        let next_probe_ms = timer.filter(|_| is_on == Some(true)).map(|timer| {
            // The timer was set when data last came, or earlier: when it fires, the kernel compares the time since then
            // with the keepalive time, and sets it again for the rest.
            let rest = effective
                .zip(target.silence_ms)
                .map(|(effective, silence)| (effective.times.time_s * 1000).saturating_sub(silence));
            timer.expires_ms.max(rest.unwrap_or(0))
        });
        Self {
            is_on,
            effective,
            next_probe_ms,
        }
    }

    pub(super) fn values(&self, target: &Target) -> [Value<'static>; 7] {
        let times = self.effective.map(|effective| effective.times);
        [
            self.is_on.map_or(Value::Absent, Value::Switch),
            Value::number(times.map(|times| times.time_s)),
            Value::number(times.map(|times| times.interval_s)),
            Value::number(times.map(|times| times.probes)),
            Value::number(times.and_then(|times| times.user_timeout_ms)),
            Value::number(target.idle_ms),
            Value::number(self.next_probe_ms),
        ]
    }
}

/// Returns whether keepalive is on, by the timer of the socket: the keepalive timer runs as long as the connection exists,
/// but the kernel reports another timer instead if one runs. `None` if unknown.
fn from_timer(target: &Target) -> Option<bool> {
    match (target.state, target.timer.map(|timer| timer.kind)) {
        // In FIN_WAIT2 without an owner the same timer waits for the FIN.
        (State::FinWait2, _) => None,
        (_, Some(TimerKind::Keepalive)) => Some(true),
        (State::Established | State::CloseWait, None) => Some(false),
        _ => None,
    }
}
