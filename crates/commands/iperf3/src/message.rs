//! What the two ends of an iperf3 test say to each other on the control connection: states of one byte, and JSON texts.

use super::refusal::Refusal;
use super::{MAX_STREAMS, Protocol};
use serde_json::{Map, Value, json};

/// Where a test is: one signed byte, sent by whoever brings it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    TestStart,
    TestRunning,
    TestEnd,
    ParamExchange,
    CreateStreams,
    ServerTerminate,
    ClientTerminate,
    ExchangeResults,
    DisplayResults,
    Done,
    AccessDenied,
    ServerError,
    Unknown(i8),
}

impl State {
    pub(crate) fn from_byte(byte: u8) -> Self {
        let code = byte.cast_signed();
        let found = CODES.iter().find(|(known, _)| *known == code);
        found.map_or(Self::Unknown(code), |&(_, state)| state)
    }

    pub(crate) fn byte(self) -> u8 {
        let found = CODES.iter().find(|&&(_, state)| state == self);
        match (self, found) {
            (_, Some(&(code, _))) => code.cast_unsigned(),
            (Self::Unknown(code), None) => code.cast_unsigned(),
            // All others are in the table.
            (_, None) => 0,
        }
    }
}

const CODES: [(i8, State); 12] = [
    (1, State::TestStart),
    (2, State::TestRunning),
    (4, State::TestEnd),
    (9, State::ParamExchange),
    (10, State::CreateStreams),
    (11, State::ServerTerminate),
    (12, State::ClientTerminate),
    (13, State::ExchangeResults),
    (14, State::DisplayResults),
    (16, State::Done),
    (-1, State::AccessDenied),
    (-2, State::ServerError),
];

/// Which end sends, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Toward {
    /// The client sends.
    #[default]
    Server,
    /// The server sends (`-R`).
    Client,
    /// Both send (`--bidir`).
    Both,
}

/// What a client wants to be tested.
#[derive(Debug, Clone, PartialEq)]
pub struct Wishes {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Who sends.
    pub toward: Toward,
    /// How long, after what is omitted; 0: until `bytes` or `blocks` are through.
    pub time_s: u64,
    /// How long it runs before it counts.
    pub omit_s: u64,
    /// Bytes to transfer; 0: by time.
    pub bytes: u64,
    /// Writes, or datagrams, to transfer; 0: by time.
    pub blocks: u64,
    /// Streams for each direction.
    pub streams: u32,
    /// Bytes of a write or a datagram; 0: the receiver of the wish decides.
    pub length: u64,
    /// What each stream sends at most; 0: as much as gets through.
    pub bits_per_s: u64,
    /// Writes that are sent at once where a rate is kept.
    pub burst: u64,
    /// Socket buffers; 0: the kernel decides.
    pub window: u64,
    /// TCP's largest segment; 0: the kernel decides.
    pub mss: u64,
    /// Without Nagle's algorithm.
    pub no_delay: bool,
    /// TCP's congestion control by its name.
    pub congestion: Option<String>,
    /// The byte of the IP header.
    pub type_of_service: u8,
    /// Datagrams are counted in 64 bits.
    pub wide_counters: bool,
    /// Forbid fragments of datagrams.
    pub dont_fragment: bool,
    /// The processor on which the server shall run.
    pub server_processor: Option<u64>,
    /// The client wants to show what the server prints.
    pub server_output: bool,
    /// The other end's version, as it says.
    pub version: Option<String>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            protocol: Protocol::Tcp,
            toward: Toward::Server,
            time_s: 10,
            omit_s: 0,
            bytes: 0,
            blocks: 0,
            streams: 1,
            length: 0,
            bits_per_s: 0,
            burst: 0,
            window: 0,
            mss: 0,
            no_delay: false,
            congestion: None,
            type_of_service: 0,
            wide_counters: false,
            dont_fragment: false,
            server_processor: None,
            server_output: false,
            version: None,
        }
    }
}

impl Wishes {
    /// As a client says it.
    pub(crate) fn to_json(&self) -> Value {
        let mut said = Map::new();
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        said.insert(protocol.to_owned(), json!(true));
        for (key, value) in [
            ("omit", self.omit_s),
            ("time", self.time_s),
            ("num", self.bytes),
            ("blockcount", self.blocks),
            ("parallel", u64::from(self.streams)),
        ] {
            said.insert(key.to_owned(), json!(value));
        }
        for (key, value) in [
            ("MSS", self.mss),
            ("window", self.window),
            ("len", self.length),
            ("bandwidth", self.bits_per_s),
            ("burst", self.burst),
            ("TOS", u64::from(self.type_of_service)),
            ("udp_counters_64bit", u64::from(self.wide_counters)),
            ("dont_fragment", u64::from(self.dont_fragment)),
        ] {
            if value > 0 {
                said.insert(key.to_owned(), json!(value));
            }
        }
        let flags = [
            ("nodelay", self.no_delay),
            ("reverse", self.toward == Toward::Client),
            ("bidirectional", self.toward == Toward::Both),
        ];
        for (key, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            said.insert((*key).to_owned(), json!(true));
        }
        if let Some(processor) = self.server_processor {
            said.insert("server_affinity".to_owned(), json!(processor));
        }
        if let Some(name) = &self.congestion {
            said.insert("congestion".to_owned(), json!(name));
        }
        said.insert("pacing_timer".to_owned(), json!(PACING_TIMER_US));
        said.insert("client_version".to_owned(), json!(SPOKEN_VERSION));
        Value::Object(said)
    }

    /// What a client said, as far as it can be done here. What nobody knows is passed over: newer clients say more.
    pub(crate) fn from_json(said: &Value) -> Result<Self, Refusal> {
        let said = said.as_object().ok_or(Refusal::PARAMETERS)?;
        let number = |key: &str| match said.get(key) {
            None => Ok(0),
            Some(value) => whole(value).ok_or(Refusal::PARAMETERS),
        };
        let flag = |key: &str| match said.get(key) {
            None => false,
            Some(value) => !matches!(whole(value), Some(0)) && *value != Value::Bool(false),
        };
        if said.contains_key("sctp") {
            return Err(Refusal::SCTP);
        }
        let protocol = if said.contains_key("udp") {
            Protocol::Udp
        } else {
            Protocol::Tcp
        };
        let toward = match (flag("reverse"), flag("bidirectional")) {
            (true, true) => return Err(Refusal::REVERSE_AND_BOTH),
            (true, false) => Toward::Client,
            (false, true) => Toward::Both,
            (false, false) => Toward::Server,
        };
        let wishes = Self {
            protocol,
            toward,
            time_s: number("time")?,
            omit_s: number("omit")?,
            bytes: number("num")?,
            blocks: number("blockcount")?,
            streams: match number("parallel")? {
                0 if said.contains_key("parallel") => return Err(Refusal::STREAMS),
                0 => 1,
                count => u32::try_from(count).map_err(|_| Refusal::STREAMS)?,
            },
            length: number("len")?,
            bits_per_s: number("bandwidth")?,
            burst: number("burst")?,
            window: number("window")?,
            mss: number("MSS")?,
            no_delay: flag("nodelay"),
            congestion: said
                .get("congestion")
                .and_then(|name| name.as_str().map(str::to_owned)),
            type_of_service: u8::try_from(number("TOS")?).map_err(|_| Refusal::TYPE_OF_SERVICE)?,
            wide_counters: flag("udp_counters_64bit"),
            dont_fragment: flag("dont_fragment"),
            server_processor: said.get("server_affinity").and_then(whole),
            server_output: flag("get_server_output"),
            version: said
                .get("client_version")
                .and_then(|version| version.as_str().map(|text| text.chars().take(NAME_MAX).collect())),
        };
        wishes.check()?;
        Ok(wishes)
    }

    /// The bounds that iperf3 has as well.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let length_max = match self.protocol {
            Protocol::Tcp => LENGTH_MAX,
            Protocol::Udp => DATAGRAM_MAX,
        };
        let checks = [
            (self.time_s <= TIME_MAX_S, Refusal::DURATION),
            (self.omit_s <= OMIT_MAX_S, Refusal::OMIT),
            (self.streams > 0 && self.streams <= MAX_STREAMS, Refusal::STREAMS),
            (self.length <= length_max, Refusal::LENGTH),
            (
                self.protocol == Protocol::Tcp || self.length == 0 || self.length >= DATAGRAM_MIN,
                Refusal::DATAGRAM,
            ),
            (self.window <= WINDOW_MAX, Refusal::WINDOW),
            (self.mss <= MSS_MAX, Refusal::SEGMENT),
            (self.burst <= BURST_MAX, Refusal::BURST),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, refusal)) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Whether it ends after so much time, rather than so many bytes.
    pub(crate) fn is_by_time(&self) -> bool {
        self.bytes == 0 && self.blocks == 0
    }
}

/// What one end counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) processor: Processor,
    /// Whether whoever sends counts retransmissions; -1: it does not send.
    pub(crate) tells_retransmits: i64,
    pub(crate) congestion: Option<String>,
    pub(crate) streams: Vec<StreamResult>,
    /// What the server printed, if it was asked for.
    pub(crate) output: Option<String>,
}

/// Processor time of a program, in hundredths of the time that passed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Processor {
    /// All of it.
    pub total: f64,
    /// In the program.
    pub user: f64,
    /// In the kernel for it.
    pub system: f64,
}

/// What one end counted of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StreamResult {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    /// -1: not known.
    pub(crate) retransmits: i64,
    pub(crate) jitter_s: f64,
    /// Datagrams that are missing.
    pub(crate) errors: i64,
    /// The highest number of a datagram.
    pub(crate) packets: u64,
    /// Of these, what came while it was not counted yet.
    pub(crate) omitted_errors: i64,
    pub(crate) omitted_packets: u64,
    /// How long it took there; servers before 3.2 do not say.
    pub(crate) seconds: Option<f64>,
}

impl Results {
    pub(crate) fn to_json(&self) -> Value {
        let streams: Vec<Value> = self
            .streams
            .iter()
            .map(|stream| {
                json!({
                    "id": stream.id,
                    "bytes": stream.bytes,
                    "retransmits": stream.retransmits,
                    "jitter": stream.jitter_s,
                    "errors": stream.errors,
                    "omitted_errors": stream.omitted_errors,
                    "packets": stream.packets,
                    "omitted_packets": stream.omitted_packets,
                    "start_time": 0,
                    "end_time": stream.seconds.unwrap_or_default(),
                })
            })
            .collect();
        let mut said = json!({
            "cpu_util_total": self.processor.total,
            "cpu_util_user": self.processor.user,
            "cpu_util_system": self.processor.system,
            "sender_has_retransmits": self.tells_retransmits,
            "streams": streams,
        });
        if let Some(name) = &self.congestion {
            said["congestion_used"] = json!(name);
        }
        if let Some(text) = &self.output {
            said["server_output_text"] = json!(text);
        }
        said
    }

    /// None: something is missing that every iperf3 says.
    pub(crate) fn from_json(said: &Value) -> Option<Self> {
        let real = |key: &str| said.get(key)?.as_f64();
        let streams = said.get("streams")?.as_array()?;
        if streams.len() > 2 * MAX_STREAMS as usize {
            return None;
        }
        Some(Self {
            processor: Processor {
                total: real("cpu_util_total")?,
                user: real("cpu_util_user")?,
                system: real("cpu_util_system")?,
            },
            tells_retransmits: signed(said.get("sender_has_retransmits")?)?,
            congestion: said
                .get("congestion_used")
                .and_then(|name| name.as_str().map(|text| text.chars().take(NAME_MAX).collect())),
            streams: streams
                .iter()
                .map(StreamResult::from_json)
                .collect::<Option<_>>()?,
            output: said
                .get("server_output_text")
                .and_then(|text| text.as_str().map(str::to_owned)),
        })
    }
}

impl StreamResult {
    fn from_json(said: &Value) -> Option<Self> {
        let optional = |key: &str| said.get(key).and_then(Value::as_f64);
        Some(Self {
            id: whole(said.get("id")?)?,
            bytes: whole(said.get("bytes")?)?,
            retransmits: signed(said.get("retransmits")?)?,
            jitter_s: said.get("jitter")?.as_f64()?,
            errors: signed(said.get("errors")?)?,
            // Where it wraps around in an int, it is below zero.
            packets: signed(said.get("packets")?)?.max(0).cast_unsigned(),
            omitted_errors: said.get("omitted_errors").and_then(signed).unwrap_or(0),
            omitted_packets: said.get("omitted_packets").and_then(whole).unwrap_or(0),
            seconds: optional("end_time")
                .zip(optional("start_time"))
                .map(|(end, start)| end - start),
        })
    }
}

/// cJSON writes all numbers as floating point: large ones may come as `1e+12`.
fn whole(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let real = value
        .as_f64()
        .filter(|real| (0.0..u64::MAX as f64).contains(real))?;
    Some(real as u64)
}

fn signed(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| Some(value.as_f64()? as i64))
}

/// What we say that we are: servers do not read it, but show it where they log.
const SPOKEN_VERSION: &str = concat!("sockeye ", env!("CARGO_PKG_VERSION"));
/// What every iperf3 says, though only the sender's end uses it.
const PACING_TIMER_US: u64 = 1000;

/// Of a name from the other end.
const NAME_MAX: usize = 64;
const TIME_MAX_S: u64 = 86_400;
const OMIT_MAX_S: u64 = 600;
const LENGTH_MAX: u64 = 1 << 20;
/// The seconds, the microseconds and the widest counter must fit.
pub(crate) const DATAGRAM_MIN: u64 = 16;
/// What an IPv4 packet holds.
const DATAGRAM_MAX: u64 = 65_535 - 20 - 8;
const WINDOW_MAX: u64 = 512 << 20;
const MSS_MAX: u64 = 32 * 1024 - 1;
const BURST_MAX: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_as_on_the_wire() {
        for code in i8::MIN..=i8::MAX {
            assert_eq!(
                State::from_byte(code.cast_unsigned()).byte(),
                code.cast_unsigned()
            );
        }
        assert_eq!(State::from_byte(0xff), State::AccessDenied);
        assert_eq!(State::from_byte(9), State::ParamExchange);
        assert_eq!(State::from_byte(3), State::Unknown(3));
    }

    /// As iperf 3.12 sends it for `-c ::1 -u -b 10M -t 1 --bidir`.
    const SAID: &str = r#"{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"bidirectional":true,"len":32768,"bandwidth":10000000,"pacing_timer":1000,"client_version":"3.12"}"#;

    #[test]
    fn what_iperf3_wishes() {
        let wishes = Wishes::from_json(&serde_json::from_str(SAID).unwrap()).unwrap();
        assert_eq!(wishes.protocol, Protocol::Udp);
        assert_eq!(wishes.toward, Toward::Both);
        assert_eq!((wishes.time_s, wishes.length, wishes.streams), (1, 32768, 1));
        assert_eq!(wishes.bits_per_s, 10_000_000);
        assert_eq!(wishes.version.as_deref(), Some("3.12"));
    }

    #[test]
    fn wishes_there_and_back() {
        let wishes = Wishes {
            toward: Toward::Client,
            streams: 4,
            bytes: 1 << 40,
            time_s: 0,
            length: 128 << 10,
            congestion: Some("cubic".to_owned()),
            no_delay: true,
            version: Some(SPOKEN_VERSION.to_owned()),
            ..Wishes::default()
        };
        assert_eq!(Wishes::from_json(&wishes.to_json()).unwrap(), wishes);
    }

    #[test]
    fn wishes_out_of_bounds_are_refused_with_iperf3s_own_words() {
        let check = |text: &str, refusal: Refusal| {
            let said = serde_json::from_str(text).unwrap();
            assert_eq!(Wishes::from_json(&said).unwrap_err(), refusal, "{text}");
        };
        check("[]", Refusal::PARAMETERS);
        check(r#"{"tcp":true,"time":-1}"#, Refusal::PARAMETERS);
        check(r#"{"tcp":true,"time":"x"}"#, Refusal::PARAMETERS);
        check(r#"{"tcp":true,"time":1e300}"#, Refusal::PARAMETERS);
        check(r#"{"tcp":true,"time":86401}"#, Refusal::DURATION);
        check(r#"{"tcp":true,"parallel":129}"#, Refusal::STREAMS);
        check(r#"{"tcp":true,"parallel":0}"#, Refusal::STREAMS);
        check(r#"{"tcp":true,"parallel":1e15}"#, Refusal::STREAMS);
        check(r#"{"tcp":true,"len":1048577}"#, Refusal::LENGTH);
        check(r#"{"udp":true,"len":15}"#, Refusal::DATAGRAM);
        check(r#"{"udp":true,"len":65508}"#, Refusal::LENGTH);
        check(r#"{"sctp":true}"#, Refusal::SCTP);
        check(r#"{"tcp":true,"TOS":256}"#, Refusal::TYPE_OF_SERVICE);
        check(
            r#"{"tcp":true,"reverse":true,"bidirectional":true}"#,
            Refusal::REVERSE_AND_BOTH,
        );
    }

    #[test]
    fn results_there_and_back() {
        let results = Results {
            congestion: Some("bbr".to_owned()),
            streams: vec![StreamResult {
                id: 3,
                bytes: 1 << 41,
                retransmits: -1,
                jitter_s: 0.25,
                errors: 2,
                packets: 100,
                seconds: Some(1.5),
                ..StreamResult::default()
            }],
            ..Results::default()
        };
        assert_eq!(Results::from_json(&results.to_json()), Some(results));
        // An old server: no times.
        let old = r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":0,"sender_has_retransmits":1,
            "streams":[{"id":1,"bytes":1.5e3,"retransmits":0,"jitter":0,"errors":0,"packets":0}]}"#;
        let read = Results::from_json(&serde_json::from_str(old).unwrap()).unwrap();
        assert_eq!(read.streams[0].bytes, 1500);
        assert_eq!(read.streams[0].seconds, None);
        assert_eq!(Results::from_json(&json!({"streams": []})), None);
    }
}
