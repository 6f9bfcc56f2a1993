//! Limits: the configurable thresholds of the rules.

use crate::Rule;
use core::fmt;
use sockeye_filter::Quantity;

/// Unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds
    Ms,
    /// Thousandths of a whole
    Permille,
    /// A number without a unit
    Count,
    /// Bytes
    Bytes,
    /// Bytes per second
    BytesPerS,
}

macro_rules! limits {
    ($($variant:ident $rule:ident $name:literal $unit:ident $default:literal $help:literal;)*) => {
        /// A configurable threshold of a rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Limit {
            $(#[doc = $help] $variant,)*
        }

        impl Limit {
            /// All limits.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The rule that uses it.
            #[must_use]
            pub const fn rule(self) -> Rule {
                match self {
                    $(Self::$variant => Rule::$rule,)*
                }
            }

            /// Its name within its rule.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Its unit.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self {
                    $(Self::$variant => Unit::$unit,)*
                }
            }

            /// Its default value.
            #[must_use]
            pub const fn default(self) -> u64 {
                match self {
                    $(Self::$variant => $default,)*
                }
            }

            /// One line of help.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$variant => $help,)*
                }
            }
        }
    };
}

limits! {
    NoKeepaliveIdle NoKeepalive "idle" Ms 3_600_000 "idle for at least this time";
    KeepaliveLateAfter KeepaliveLate "after" Ms 240_000 "first probe later than this";
    KeepaliveUnansweredProbes KeepaliveUnanswered "probes" Count 2 "unanswered probes";
    PeerSilentRetransmissions PeerSilent "retransmissions" Count 4 "of the same segment";
    ConnectRetransmissions ConnectUnanswered "retransmissions" Count 2 "of the SYN";
    ZeroWindowFor ZeroWindow "for" Ms 10_000 "nothing sent for at least this time";
    SendStuckFor SendStuck "for" Ms 20_000 "nothing received for at least this time";
    MtuRetransmissions MtuBlackHole "retransmissions" Count 3 "of a full-sized segment";
    CloseWaitAge CloseWait "age" Ms 60_000 "one that is quiet for so long is found; five times as long while a request is unanswered";
    CloseWaitCount CloseWait "count" Count 10 "so many of one owner are found after five quiet seconds, if they do not drain between two looks";
    FinWait2Age FinWait2 "age" Ms 120_000 "one that is quiet for so long is found; five times as long while an answer is outstanding";
    FinWait2Count FinWait2 "count" Count 10 "so many of one owner are found after five quiet seconds, if they do not drain between two looks";
    UnreadFor Unread "for" Ms 10_000 "unread for at least this time";
    UnreadBytes Unread "bytes" Bytes 1 "at least so many bytes";
    AcceptQueueShare AcceptQueue "share" Permille 800 "of the backlog waits (from a backlog of 16 on; below, all of it)";
    AcceptQueueAge AcceptQueue "age" Ms 2_000 "the first in the queue waits for so long, in both of two looks";
    BacklogShare BacklogCapped "share" Permille 500 "of the backlog waits, or connections were turned away";
    ListenerDropsCount ListenerDrops "count" Count 10 "connections turned away";
    ListenerDropsShare ListenerDrops "share" Permille 10 "of the connections that were taken; between two samples (--watch) 1 is enough";
    SynQueueShare SynQueue "share" Permille 800 "of the backlog is half open";
    SynQueueCount SynQueue "count" Count 10 "half-open connections at least";
    SocketDropsCount SocketDrops "count" Count 10 "packets dropped";
    SocketDropsShare SocketDrops "share" Permille 10 "of what a TCP socket received";
    UdpUnreadShare UdpUnread "share" Permille 800 "of the receive buffer is taken";
    RetransmissionsShare Retransmissions "share" Permille 30 "of the segments sent";
    RetransmissionsCount Retransmissions "count" Count 20 "retransmitted segments at least";
    SpuriousShare SpuriousRetransmissions "share" Permille 500 "of the retransmissions";
    SpuriousCount SpuriousRetransmissions "count" Count 10 "needless retransmissions at least";
    SpuriousRatio SpuriousRetransmissions "ratio" Permille 10 "retransmissions to segments sent at least";
    ReorderingEvents Reordering "events" Count 20 "times that it was seen";
    ReorderingRatio Reordering "ratio" Permille 1 "times that it was seen to segments sent at least";
    RttRatio RttInflation "ratio" Count 5 "times the smallest round trip";
    RttMore RttInflation "more" Ms 100 "above the smallest round trip at least";
    CwndFloorSegments CwndFloor "segments" Count 4 "in the window at most";
    CwndFloorBusy CwndFloor "busy" Ms 1_000 "sending for at least this time";
    PacingFloorRate PacingFloor "rate" BytesPerS 125_000 "pacing at most";
    ReceiverLimitedShare ReceiverLimited "share" Permille 500 "of the busy time";
    ReceiverLimitedBusy ReceiverLimited "busy" Ms 5_000 "busy for at least this time";
    ReceiverLimitedRate ReceiverLimited "rate" BytesPerS 125_000_000 "only if it delivers less than this";
    SendBufferLimitedShare SendBufferLimited "share" Permille 300 "of the busy time";
    SendBufferLimitedBusy SendBufferLimited "busy" Ms 5_000 "busy for at least this time";
    SendBufferLimitedRate SendBufferLimited "rate" BytesPerS 125_000_000 "only if it delivers less than this";
    ReceiveBufferBytes ReceiveBuffer "bytes" Bytes 131_072 "in the window at most";
    ReceiveBufferShare ReceiveBuffer "share" Permille 500 "of what the window allows for the round trip";
    NagleSegments NagleDelayedAck "segments" Count 20 "sent between two samples (--watch) at least";
    NagleWait NagleDelayedAck "wait" Ms 10 "for each segment in the mean at least";
    ConnectionGrowthCount ConnectionGrowth "count" Count 50 "connections of one program to one service at least";
    ConnectionGrowthNew ConnectionGrowth "new" Count 10 "opened between two samples (--watch) at least";
    ApplicationLimitedShare ApplicationLimited "share" Permille 500 "of the time between two samples (--watch)";
    ApplicationLimitedBytes ApplicationLimited "bytes" Bytes 1_000_000 "sent in that time at least";
    EphemeralShare EphemeralPorts "share" Permille 800 "of the ports (of a source to a destination) are in use";
    UdpPortsShare UdpPorts "share" Permille 800 "of the ports are in use";
    TimeWaitCount TimeWait "count" Count 30_000 "in TIME_WAIT at least";
    TimeWaitRatio TimeWait "ratio" Count 5 "times as many as other TCP sockets at least";
    TimeWaitShare TimeWaitMax "share" Permille 800 "of net.ipv4.tcp_max_tw_buckets";
    ConntrackShare Conntrack "share" Permille 800 "of net.netfilter.nf_conntrack_max";
    DeviceDropsShare DeviceDrops "share" Permille 1 "of the packets";
    DeviceDropsCount DeviceDrops "count" Count 10 "packets dropped at least";
    DeviceErrorsShare DeviceErrors "share" Permille 1 "of the packets";
    DeviceErrorsCount DeviceErrors "count" Count 10 "errors at least";
    QueueLengthPackets QueueLength "packets" Count 50 "fewer than this, or than connections through it have in flight";
    QdiscDropsShare QdiscDrops "share" Permille 1 "of the packets";
    QdiscDropsCount QdiscDrops "count" Count 10 "packets dropped at least";
    QdiscBacklogPackets QdiscBacklog "packets" Count 500 "waiting at least";
    CountersShare Counters "share" Permille 10 "of what the counter is measured against";
    CountersCount Counters "count" Count 10 "at least; between two samples (--watch) 1 is enough for those that should never move";
    CountersRate Counters "rate" Count 20 "per second between two samples (--watch) at least, for those that single events move on healthy hosts: resets";
    SoftnetShare Softnet "share" Permille 1 "of the packets were dropped";
    SoftnetCount Softnet "count" Count 10 "dropped at least";
    SqueezedShare SoftnetSqueezed "share" Permille 10 "squeezes to packets";
    SqueezedCount SoftnetSqueezed "count" Count 100 "squeezes at least";
    NeighboursShare Neighbours "share" Permille 800 "of gc_thresh3";
    TcpMemoryShare TcpMemory "share" Permille 900 "of the limit from which on buffers shrink (the second of net.ipv4.tcp_mem)";
    UdpMemoryShare UdpMemory "share" Permille 900 "of the second of net.ipv4.udp_mem";
    OrphansShare Orphans "share" Permille 500 "of net.ipv4.tcp_max_orphans";
    OpenFilesShare OpenFiles "share" Permille 800 "of the process's limit (RLIMIT_NOFILE)";
}

impl Limit {
    /// The limit with this name, written as by [`Limit`]'s `Display`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (rule, name) = name.split_once('.')?;
        let mut all = Self::ALL.iter().copied();
        all.find(|limit| limit.rule().name() == rule && limit.name() == name)
    }

    /// Parses a value: `90s`, `80%`, `10k`, `100Mbit`. `None` if it is no value of this unit.
    #[must_use]
    pub fn parse(self, text: &str) -> Option<u64> {
        match self.unit() {
            Unit::Ms => Quantity::Time.parse(text).map(|us| us.div_ceil(1000)),
            Unit::Permille => {
                let per_cent = text.strip_suffix('%')?;
                // A tenth of a percent is one permille.
                let (whole, tenths) = per_cent.split_once('.').unwrap_or((per_cent, "0"));
                let digit = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                if tenths.len() != 1 || !digit(tenths) || whole.is_empty() || !digit(whole) {
                    return None;
                }
                let whole: u64 = whole.parse().ok()?;
                whole.checked_mul(10)?.checked_add(tenths.parse().ok()?)
            }
            // Counts are whole numbers.
            Unit::Count if text.contains('.') && text.ends_with(|c: char| c.is_ascii_digit()) => None,
            Unit::Count => Quantity::Count.parse(text),
            Unit::Bytes => Quantity::Bytes.parse(text),
            Unit::BytesPerS => Quantity::Rate.parse(text).map(|bits| bits / 8),
        }
    }

    /// Formats a value as [`parse`](Self::parse) takes it: the shortest exact form.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        let with = |units: &[(u64, &str)], value: u64| {
            let fits = |scale: u64| value != 0 && value.is_multiple_of(scale);
            units
                .iter()
                .find(|(scale, _)| fits(*scale))
                .map(|(scale, unit)| format!("{}{unit}", value / scale))
        };
        let number = || value.to_string();
        match self.unit() {
            Unit::Ms => with(
                &[
                    (86_400_000, "d"),
                    (3_600_000, "h"),
                    (60_000, "m"),
                    (1000, "s"),
                    (1, "ms"),
                ],
                value,
            )
            .unwrap_or_else(number),
            Unit::Permille => match (value / 10, value % 10) {
                (whole, 0) => format!("{whole}%"),
                (whole, tenths) => format!("{whole}.{tenths}%"),
            },
            Unit::Count => number(),
            Unit::Bytes => {
                with(&[(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")], value).unwrap_or_else(number)
            }
            Unit::BytesPerS => value
                .checked_mul(8)
                .and_then(|bits| {
                    with(
                        &[
                            (1_000_000_000, "Gbit"),
                            (1_000_000, "Mbit"),
                            (1000, "kbit"),
                            (1, "bit"),
                        ],
                        bits,
                    )
                })
                .unwrap_or_else(number),
        }
    }

    /// What [`parse`](Self::parse) accepts, for an error message.
    #[must_use]
    pub const fn expected(self) -> &'static str {
        match self.unit() {
            Unit::Ms => Quantity::Time.description(),
            Unit::Permille => "a percentage with at most one decimal (80%, 0.1%)",
            Unit::Count => Quantity::Count.description(),
            Unit::Bytes => Quantity::Bytes.description(),
            Unit::BytesPerS => Quantity::Rate.description(),
        }
    }
}

/// `no-keepalive.idle`
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.rule(), self.name())
    }
}

/// The values of all limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits([u64; Limit::ALL.len()]);

impl Default for Limits {
    fn default() -> Self {
        let mut values = [0; Limit::ALL.len()];
        for (value, limit) in values.iter_mut().zip(Limit::ALL) {
            *value = limit.default();
        }
        Self(values)
    }
}

impl Limits {
    /// The value of a limit.
    #[must_use]
    pub const fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }

    /// Sets the value of a limit.
    pub const fn set(&mut self, limit: Limit, value: u64) {
        self.0[limit as usize] = value;
    }

    /// Returns the limits of a rule that do not have their default values.
    pub fn changed(&self, rule: Rule) -> impl Iterator<Item = Limit> {
        let all = Limit::ALL.iter().copied();
        all.filter(move |limit| limit.rule() == rule && self.of(*limit) != limit.default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_takes_units() {
        let check = |name, text, expected| {
            let limit = Limit::from_name(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(limit.parse(text), expected, "{name}={text}");
            assert_eq!(limit.to_string(), name);
        };
        check("no-keepalive.idle", "90s", Some(90_000));
        check("no-keepalive.idle", "1us", Some(1)); // rounds up: 0 would match everything
        check("no-keepalive.idle", "90", None);
        check("accept-queue.share", "80%", Some(800));
        check("accept-queue.share", "0.1%", Some(1));
        for bad in ["80", "%", "1.%", "1.25%", "-1%", "+1%", "99999999999999999999%"] {
            check("accept-queue.share", bad, None);
        }
        check("unread.bytes", "64k", Some(64_000));
        check("time-wait.count", "1.5k", Some(1500));
        check("time-wait.count", "1.5", None);
        check("pacing-floor.rate", "1Mbit", Some(125_000));
        assert_eq!(Limit::from_name("unread"), None);
        assert_eq!(Limit::from_name("unread.share"), None);
    }

    #[test]
    fn shown_values_parse_back() {
        for limit in Limit::ALL {
            for value in [0, 1, 7, 1000, 90_000, 86_400_000, limit.default()] {
                let shown = limit.show(value);
                assert_eq!(limit.parse(&shown), Some(value), "{limit}={shown}");
            }
        }
        assert_eq!(Limit::NoKeepaliveIdle.show(3_600_000), "1h");
        assert_eq!(Limit::PacingFloorRate.show(125_000), "1Mbit");
    }

    #[test]
    fn set_changes_the_value() {
        let mut limits = Limits::default();
        assert_eq!(limits.of(Limit::UnreadFor), 10_000);
        limits.set(Limit::UnreadFor, 1);
        assert_eq!(
            (limits.of(Limit::UnreadFor), limits.of(Limit::UnreadBytes)),
            (1, 1)
        );
    }
}
