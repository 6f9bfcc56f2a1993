//! The times of keepalive as they can be typed.

use clap::Args;
use sockeye_act::{EffectiveKeepalive, Keepalive, KeepaliveChange};

#[derive(Debug, Args)]
pub(crate) struct Times {
    /// How long a peer may be silent before it is asked whether it is still there: 60s, 2m; a bare number is seconds
    /// [default: 60s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true,
          value_parser = crate::values::keepalive_seconds)]
    time: Option<u32>,
    /// How long to wait before it is asked again [default: 10s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true,
          value_parser = crate::values::keepalive_seconds)]
    interval: Option<u32>,
    /// After so many questions without an answer the connection ends, and its owner reads ETIMEDOUT [default: 6]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = crate::values::keepalive_probes)]
    probes: Option<u32>,
    /// How long sent data may stay unacknowledged before the connection ends: 90s, 500ms; 0: as the system has it.
    /// Probes heed it too, in place of their number. Left as it is if not given
    #[arg(long, value_name = "TIME", allow_negative_numbers = true,
          value_parser = crate::values::user_timeout_ms)]
    user_timeout: Option<u32>,
}

impl Times {
    /// What they come to where there is no keepalive.
    pub(crate) fn keepalive(&self) -> Keepalive {
        Keepalive {
            time_s: self.time.unwrap_or(TIME_S),
            interval_s: self.interval.unwrap_or(INTERVAL_S),
            probes: self.probes.unwrap_or(PROBES),
            user_timeout_ms: self.user_timeout,
        }
    }

    /// Whether some were typed and others not, which stay as they are where keepalive is on. Who types none means the
    /// defaults.
    pub(crate) const fn are_partial(&self) -> bool {
        let times = [
            self.time.is_some(),
            self.interval.is_some(),
            self.probes.is_some(),
        ];
        match times {
            [true, true, true] => false,
            [false, false, false] => self.user_timeout.is_some(),
            _ => true,
        }
    }

    /// Whether a socket that has keepalive on has other times than these, which it keeps since none were typed.
    pub(crate) fn keep_some_of(&self, before: &EffectiveKeepalive) -> bool {
        let (all, kept) = (self.keepalive(), &before.times);
        self.are_partial()
            && (self.time.is_none() && kept.time_s != all.time_s
                || self.interval.is_none() && kept.interval_s != all.interval_s
                || self.probes.is_none() && kept.probes != all.probes)
    }

    /// What they change of a socket: whoever has keepalive on may have chosen his times, and keeps those that were not
    /// typed, where others were.
    pub(crate) fn change(&self, before: &EffectiveKeepalive) -> KeepaliveChange {
        let typed = KeepaliveChange {
            time_s: self.time,
            interval_s: self.interval,
            probes: self.probes,
            user_timeout_ms: self.user_timeout,
        };
        if before.is_on && self.are_partial() {
            return typed;
        }
        let times = self.keepalive();
        KeepaliveChange {
            time_s: Some(times.time_s),
            interval_s: Some(times.interval_s),
            probes: Some(times.probes),
            ..typed
        }
    }
}

const TIME_S: u32 = 60;
const INTERVAL_S: u32 = 10;
const PROBES: u32 = 6;
