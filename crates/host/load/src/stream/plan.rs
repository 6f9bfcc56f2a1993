//! What is to be sent, and how.

use serde_json::{Value, json};
use std::time::Duration;

/// A transfer that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Which way
    pub direction: Direction,
    /// How many streams, each way
    pub streams: u16,
    /// When it is over
    pub until: Until,
    /// What is not counted at the beginning
    pub omit: Duration,
    /// TCP or UDP
    pub transport: Transport,
    /// Bytes of one write, or of one datagram; none: what suits the path
    pub length: Option<usize>,
    /// `SO_SNDBUF` and `SO_RCVBUF`
    pub window: Option<usize>,
    /// `TCP_CONGESTION`, at both ends
    pub congestion: Option<String>,
    /// Processor that our threads stay on
    pub our_processor: Option<usize>,
    /// Likewise the other end's
    pub their_processor: Option<usize>,
    /// Bytes a second of each stream; none: as fast as it gets
    pub rate: Option<u64>,
    /// What TCP receives is thrown away by the kernel (`MSG_TRUNC`)
    pub skips_copy: bool,
    /// How long a row of the report's intervals is
    pub interval: Duration,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// From us to the other end
    #[default]
    Send,
    /// From the other end to us
    Receive,
    /// Both at once
    Both,
}

impl Direction {
    /// Whether we send.
    #[must_use]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Send | Self::Both)
    }

    /// Whether we receive.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Both)
    }

    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Both => "both",
        }
    }

    /// As the other end sees it.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
            Self::Both => Self::Both,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Send, Self::Receive, Self::Both]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

/// When a transfer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so long
    Time(Duration),
    /// After so many bytes, of all streams of a direction together
    Bytes(u64),
}

/// By what it is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// In order and whole
    #[default]
    Tcp,
    /// As it comes
    Udp,
}

impl Transport {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl Plan {
    /// What one write or one datagram takes, on a path with segments of this length.
    #[must_use]
    pub fn length(&self, mss: Option<usize>) -> usize {
        self.length.unwrap_or(match self.transport {
            Transport::Tcp => TCP_LENGTH,
            // A datagram as long as a segment is not cut into fragments.
            Transport::Udp => mss.unwrap_or(UDP_LENGTH).clamp(DATAGRAM_MIN, DATAGRAM_MAX),
        })
    }

    /// As it is told to the other end, which sees the direction the other way round.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (time_us, bytes) = match self.until {
            Until::Time(time) => (Some(us(time)), None),
            Until::Bytes(bytes) => (None, Some(bytes)),
        };
        json!({
            "direction": self.direction.mirrored().name(),
            "streams": self.streams,
            "time_us": time_us,
            "bytes": bytes,
            "omit_us": us(self.omit),
            "transport": self.transport.name(),
            "length": self.length,
            "window": self.window,
            "congestion": self.congestion,
            "processor": self.their_processor,
            "rate": self.rate,
            "skips_copy": self.skips_copy,
        })
    }

    /// As the other end told it, or what is wrong with it.
    ///
    /// # Errors
    /// What to tell it.
    pub fn from_json(told: &Value) -> Result<Self, String> {
        let number = |name: &str| match &told[name] {
            Value::Null => Ok(None),
            value => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| format!("{name} is no whole number")),
        };
        let size = |name: &str, most: usize| {
            let value = number(name)?;
            let fits = |value| {
                usize::try_from(value)
                    .ok()
                    .filter(|size| (1..=most).contains(size))
            };
            value
                .map(|value| fits(value).ok_or_else(|| format!("{name} has to be 1 to {most}, not {value}")))
                .transpose()
        };
        let text = |name: &str| told[name].as_str().unwrap_or_default();
        let until = match (number("time_us")?, number("bytes")?) {
            (Some(us), None) => Until::Time(Duration::from_micros(us.min(TIME_US_MAX))),
            (None, Some(bytes)) => Until::Bytes(bytes),
            _ => return Err("either a time or a number of bytes is needed".to_owned()),
        };
        let transport = match text("transport") {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            other => return Err(format!("no such transport: {other:?}")),
        };
        let length_max = match transport {
            Transport::Tcp => LENGTH_MAX,
            Transport::Udp => DATAGRAM_MAX,
        };
        let length = size("length", length_max)?;
        if transport == Transport::Udp && length.is_some_and(|length| length < DATAGRAM_MIN) {
            return Err(format!("datagrams have {DATAGRAM_MIN} bytes at least"));
        }
        let direction = text("direction");
        Ok(Self {
            direction: Direction::from_name(direction)
                .ok_or_else(|| format!("no such direction: {direction:?}"))?,
            streams: size("streams", usize::from(STREAMS_MAX))?
                .and_then(|streams| u16::try_from(streams).ok())
                .ok_or("how many streams?")?,
            until,
            omit: Duration::from_micros(number("omit_us")?.unwrap_or(0).min(TIME_US_MAX)),
            transport,
            length,
            window: size("window", WINDOW_MAX)?,
            congestion: told["congestion"].as_str().map(str::to_owned),
            our_processor: number("processor")?.and_then(|number| usize::try_from(number).ok()),
            their_processor: None,
            rate: number("rate")?.filter(|&rate| rate > 0),
            skips_copy: told["skips_copy"].as_bool().unwrap_or(false),
            interval: Duration::from_secs(1),
        })
    }
}

/// What one write of TCP takes: enough to make calls cheap, little enough to stay in a cache.
pub const TCP_LENGTH: usize = 128 * 1024;
/// Where the path is not known.
const UDP_LENGTH: usize = 1448;
/// No write is longer: the other end has to have room for it.
pub const LENGTH_MAX: usize = 1 << 20;
/// Number, time and flags have to fit.
pub const DATAGRAM_MIN: usize = 24;
/// What UDP over IPv4 takes.
pub const DATAGRAM_MAX: usize = 65_507;
/// Streams of one direction.
pub const STREAMS_MAX: u16 = 128;
/// Longest buffers that can be asked for.
pub const WINDOW_MAX: usize = 1 << 30;
/// A day.
const TIME_US_MAX: u64 = 24 * 3600 * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            direction: Direction::Receive,
            streams: 3,
            until: Until::Bytes(1 << 40),
            omit: Duration::from_millis(1500),
            transport: Transport::Tcp,
            length: Some(4096),
            window: Some(65_536),
            congestion: Some("reno".to_owned()),
            our_processor: None,
            their_processor: Some(1),
            rate: Some(125_000),
            skips_copy: true,
            interval: Duration::from_secs(1),
        }
    }

    #[test]
    fn the_other_end_sees_it_the_other_way_round() {
        let there = Plan::from_json(&plan().to_json()).unwrap();
        let expected = Plan {
            direction: Direction::Send,
            our_processor: Some(1),
            their_processor: None,
            ..plan()
        };
        assert_eq!(there, expected);
    }

    #[test]
    fn nonsense_is_refused() {
        let good = plan().to_json();
        for (name, value) in [
            ("streams", json!(0)),
            ("streams", json!(129)),
            ("streams", json!(null)),
            ("streams", json!("many")),
            ("length", json!(1_u64 << 60)),
            ("window", json!(-1)),
            ("direction", json!("up")),
            ("transport", json!("sctp")),
            ("time_us", json!(1)),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            assert!(Plan::from_json(&bad).is_err(), "{bad}");
        }
        assert!(Plan::from_json(&json!(null)).is_err());
    }
}
