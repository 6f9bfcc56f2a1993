//! Parameters of a transfer.

use crate::session::{PEER_VALUE_MAX, peer_text};
use crate::transport::Transport;
use serde_json::{Value, json};
use std::time::Duration;

/// A transfer to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Direction.
    pub direction: Direction,
    /// Streams in each direction.
    pub streams: u16,
    /// When it ends.
    pub until: Until,
    /// Time at the start that is not counted.
    pub omit: Duration,
    /// TCP or UDP.
    pub transport: Transport,
    /// Bytes of one write or datagram; `None`: chosen by the path.
    pub length: Option<usize>,
    /// `SO_SNDBUF` and `SO_RCVBUF`, in bytes; `None`: chosen by the kernel.
    pub window: Option<usize>,
    /// `TCP_CONGESTION` at both ends; `None`: the default.
    pub congestion: Option<String>,
    /// Processor to pin the local threads to.
    pub our_processor: Option<usize>,
    /// Processor to pin the other end's threads to.
    pub their_processor: Option<usize>,
    /// Bytes per second of each stream; `None`: no limit.
    pub rate: Option<u64>,
    /// Whether the kernel discards what TCP receives (`MSG_TRUNC`).
    pub skips_copy: bool,
    /// Length of an interval in the report.
    pub interval: Duration,
}

/// Direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// To the other end.
    #[default]
    Send,
    /// From the other end.
    Receive,
    /// Both at once.
    Both,
}

impl Direction {
    /// Returns whether this end sends.
    #[must_use]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Send | Self::Both)
    }

    /// Returns whether this end receives.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Receive | Self::Both)
    }

    /// Returns the name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Both => "both",
        }
    }

    /// Returns the direction as seen from the other end.
    pub(crate) const fn mirrored(self) -> Self {
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

/// When a transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this time.
    Time(Duration),
    /// After this many bytes, of all streams of a direction together.
    Bytes(u64),
}

impl Plan {
    /// Returns the bytes of one write or datagram, on a path with segments of `mss` bytes.
    pub(crate) fn length(&self, mss: Option<usize>) -> usize {
        self.length.unwrap_or(match self.transport {
            Transport::Tcp => TCP_LENGTH,
            // A datagram as long as a segment is not cut into fragments.
            Transport::Udp => mss.unwrap_or(UDP_LENGTH).clamp(DATAGRAM_MIN, DATAGRAM_MAX),
        })
    }

    /// Returns how long it takes at least; none if it ends by bytes.
    pub(crate) fn time(&self) -> Duration {
        match self.until {
            Until::Time(time) => time + self.omit,
            Until::Bytes(_) => self.omit,
        }
    }

    /// Checks that a server can be asked for this: short writes of TCP cost it much, and a client that never reads nothing.
    ///
    /// # Errors
    /// What is wrong, for the answer.
    pub(crate) fn check_work(&self) -> Result<(), String> {
        let is_sent = self.transport == Transport::Tcp && self.direction.sends();
        match self.length {
            Some(length) if is_sent && length < SENT_LENGTH_MIN => Err(format!(
                "the end that serves sends writes of {SENT_LENGTH_MIN} bytes at least, not {length}"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the parameters for the other end, with the direction mirrored.
    pub(crate) fn to_json(&self) -> Value {
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

    /// Reads the parameters that the other end sent.
    ///
    /// # Errors
    /// What is wrong with them, for the answer.
    pub fn from_json(json: &Value) -> Result<Self, String> {
        let number = |name: &str| match &json[name] {
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
        let text = |name: &str| json[name].as_str().unwrap_or_default();
        let until = match (number("time_us")?, number("bytes")?) {
            (Some(us), None) => Until::Time(Duration::from_micros(us.min(TIME_US_MAX))),
            (None, Some(bytes)) => Until::Bytes(bytes),
            _ => return Err("either a time or a number of bytes is needed".to_owned()),
        };
        let transport = match text("transport") {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            other => return Err(format!("no such transport: \"{}\"", shown(other))),
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
                .ok_or_else(|| format!("no such direction: \"{}\"", shown(direction)))?,
            streams: size("streams", usize::from(STREAMS_MAX))?
                .and_then(|streams| u16::try_from(streams).ok())
                .ok_or("streams is missing")?,
            until,
            omit: Duration::from_micros(number("omit_us")?.unwrap_or(0).min(TIME_US_MAX)),
            transport,
            length,
            window: size("window", WINDOW_MAX)?,
            congestion: match json["congestion"].as_str() {
                Some(name) if name.len() > CONGESTION_MAX => {
                    return Err(format!("no such congestion control: \"{}\"", shown(name)));
                }
                name => name.map(str::to_owned),
            },
            our_processor: number("processor")?.and_then(|number| usize::try_from(number).ok()),
            their_processor: None,
            rate: number("rate")?.filter(|&rate| rate > 0),
            skips_copy: json["skips_copy"].as_bool().unwrap_or(false),
            interval: Duration::from_secs(1),
        })
    }
}

fn shown(text: &str) -> String {
    peer_text(text, PEER_VALUE_MAX)
}

/// Default bytes of one TCP write: enough to make calls cheap, few enough to stay in a cache.
pub(crate) const TCP_LENGTH: usize = 128 * 1024;
/// Default bytes of one datagram if the path is not known.
const UDP_LENGTH: usize = 1448;
/// Most bytes of one write: the other end allocates a buffer for it.
pub const LENGTH_MAX: usize = 1 << 20;
/// Fewest bytes of a TCP write of a server.
pub const SENT_LENGTH_MIN: usize = 1024;
/// Fewest bytes of a datagram: number, time, magic and flags.
pub const DATAGRAM_MIN: usize = 24;
/// Most bytes of a datagram over IPv4.
pub const DATAGRAM_MAX: usize = 65_507;
/// Most streams of one direction.
pub const STREAMS_MAX: u16 = 128;
/// Largest socket buffers that can be requested, in bytes.
pub const WINDOW_MAX: usize = 1 << 30;
/// `TCP_CA_NAME_MAX`, without the NUL.
const CONGESTION_MAX: usize = 15;
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
    fn parameters_read_back_mirrored() {
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
    fn invalid_parameters_are_refused() {
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
        let mut long = good;
        long["direction"] = json!("\u{202e}z".repeat(1000));
        assert!(Plan::from_json(&long).unwrap_err().len() < 80);
    }

    #[test]
    fn short_writes_are_for_the_client_only() {
        let short = |direction, transport| Plan {
            direction,
            transport,
            length: Some(24),
            ..plan()
        };
        assert!(short(Direction::Send, Transport::Tcp).check_work().is_err());
        assert!(short(Direction::Both, Transport::Tcp).check_work().is_err());
        assert!(short(Direction::Receive, Transport::Tcp).check_work().is_ok());
        assert!(short(Direction::Send, Transport::Udp).check_work().is_ok());
    }
}
