//! Flags for the times of keepalive.

use clap::Args;
use sockeye_act::{EffectiveKeepalive, Keepalive, KeepaliveChange};

#[derive(Debug, Args)]
pub(crate) struct Times {
    /// How long a peer may be silent before the first probe: 60s, 2m; a number without a unit is seconds [default: 60s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true,
          value_parser = crate::values::keepalive_seconds)]
    time: Option<u32>,
    /// Time between two probes [default: 10s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true,
          value_parser = crate::values::keepalive_seconds)]
    interval: Option<u32>,
    /// Number of unanswered probes after which the connection ends, and its owner reads ETIMEDOUT [default: 6]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = crate::values::keepalive_probes)]
    probes: Option<u32>,
    /// How long sent data may stay unacknowledged before the connection ends: 90s, 500ms; 0: the system's default. It also
    /// limits the probes, in place of their number. Left as it is if not given
    #[arg(long, value_name = "TIME", allow_negative_numbers = true,
          value_parser = crate::values::user_timeout_ms)]
    user_timeout: Option<u32>,
}

impl Times {
    /// Returns the times for a socket without keepalive: those given, else the defaults.
    pub(crate) fn keepalive(&self) -> Keepalive {
        Keepalive {
            time_s: self.time.unwrap_or(TIME_S),
            interval_s: self.interval.unwrap_or(INTERVAL_S),
            probes: self.probes.unwrap_or(PROBES),
            user_timeout_ms: self.user_timeout,
        }
    }

    /// Returns whether some times were given and others not; the others stay as they are on sockets with keepalive. If none
    /// was given, all get their defaults.
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

    /// Returns whether a socket with keepalive keeps a time that differs from ours, since it was not given.
    pub(crate) fn keep_some_of(&self, before: &EffectiveKeepalive) -> bool {
        let (all, kept) = (self.keepalive(), &before.times);
        self.are_partial()
            && (self.time.is_none() && kept.time_s != all.time_s
                || self.interval.is_none() && kept.interval_s != all.interval_s
                || self.probes.is_none() && kept.probes != all.probes)
    }

    /// Returns the change of a socket. A program that turned on keepalive may have chosen its times: those that were not
    /// given stay, if others were given.
    pub(crate) fn change(&self, before: &EffectiveKeepalive) -> KeepaliveChange {
        let given = KeepaliveChange {
            time_s: self.time,
            interval_s: self.interval,
            probes: self.probes,
            user_timeout_ms: self.user_timeout,
        };
        if before.is_on && self.are_partial() {
            return given;
        }
        let times = self.keepalive();
        KeepaliveChange {
            time_s: Some(times.time_s),
            interval_s: Some(times.interval_s),
            probes: Some(times.probes),
            ..given
        }
    }
}

const TIME_S: u32 = 60;
const INTERVAL_S: u32 = 10;
const PROBES: u32 = 6;
