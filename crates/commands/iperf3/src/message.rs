//! Messages of the control connection: states of one byte, and JSON texts.

use super::protocol::{DATAGRAM, LENGTH, MAX_STREAMS};
use super::refusal::Refusal;
use serde_json::{Map, Value, json};
use sockeye_load::Transport;

/// State of a test: one signed byte, sent by the end that changes it.
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

/// Direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The client sends.
    #[default]
    ToServer,
    /// The server sends (`-R`).
    ToClient,
    /// Both send (`--bidir`).
    Both,
}

/// Parameters of a test, as the client sends them. The default has no stream, and no time or bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters {
    /// TCP or UDP.
    pub protocol: Transport,
    /// Direction of the data.
    pub direction: Direction,
    /// Length after the omitted time, in seconds; 0: until `bytes` or `blocks` are transferred.
    pub time_s: u64,
    /// Time at the start that is not counted, in seconds.
    pub omit_s: u64,
    /// Bytes to transfer; 0: no limit.
    pub bytes: u64,
    /// Writes or datagrams to transfer; 0: no limit.
    pub blocks: u64,
    /// Streams of each direction.
    pub streams: u32,
    /// Bytes of a write or datagram; 0: the server decides.
    pub length: u64,
    /// Most bits per second of each stream; 0: no limit.
    pub bits_per_s: u64,
    /// Writes that are sent at once if the rate is limited.
    pub burst: u64,
    /// Socket buffers in bytes; 0: the kernel decides.
    pub window: u64,
    /// Largest TCP segment in bytes; 0: the kernel decides.
    pub mss: u64,
    /// Whether to set `TCP_NODELAY`.
    pub no_delay: bool,
    /// TCP congestion control; `None`: the default.
    pub congestion: Option<String>,
    /// Type of service byte of the IP header.
    pub type_of_service: u8,
    /// Whether datagrams have 64-bit sequence numbers.
    pub wide_counters: bool,
    /// Whether to forbid fragments of datagrams.
    pub dont_fragment: bool,
    /// Processor to pin the server's threads to.
    pub server_processor: Option<u64>,
    /// Whether the server shall send its output.
    pub server_output: bool,
    /// Version of the client, as it sent it.
    pub version: Option<String>,
}

impl Parameters {
    /// Returns the JSON text of a client.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = Map::new();
        json.insert(self.protocol.name().to_owned(), json!(true));
        for (key, value) in [
            ("omit", self.omit_s),
            ("time", self.time_s),
            ("num", self.bytes),
            ("blockcount", self.blocks),
            ("parallel", u64::from(self.streams)),
        ] {
            json.insert(key.to_owned(), json!(value));
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
                json.insert(key.to_owned(), json!(value));
            }
        }
        let flags = [
            ("nodelay", self.no_delay),
            ("reverse", self.direction == Direction::ToClient),
            ("bidirectional", self.direction == Direction::Both),
        ];
        for (key, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            json.insert((*key).to_owned(), json!(true));
        }
        if let Some(processor) = self.server_processor {
            json.insert("server_affinity".to_owned(), json!(processor));
        }
        if let Some(name) = &self.congestion {
            json.insert("congestion".to_owned(), json!(name));
        }
        json.insert("pacing_timer".to_owned(), json!(PACING_TIMER_US));
        json.insert("client_version".to_owned(), json!(CLIENT_VERSION));
        Value::Object(json)
    }

    /// Reads and checks the JSON text of a client. Ignores unknown keys, which newer clients send.
    pub(crate) fn from_json(json: &Value) -> Result<Self, Refusal> {
        let json = json.as_object().ok_or(Refusal::PARAMETERS)?;
        let number = |key: &str| match json.get(key) {
            None => Ok(0),
            Some(value) => whole(value).ok_or(Refusal::PARAMETERS),
        };
        let flag = |key: &str| match json.get(key) {
            None => false,
            Some(value) => !matches!(whole(value), Some(0)) && *value != Value::Bool(false),
        };
        if json.contains_key("sctp") {
            return Err(Refusal::SCTP);
        }
        let protocol = if json.contains_key("udp") {
            Transport::Udp
        } else {
            Transport::Tcp
        };
        let direction = match (flag("reverse"), flag("bidirectional")) {
            (true, true) => return Err(Refusal::REVERSE_AND_BOTH),
            (true, false) => Direction::ToClient,
            (false, true) => Direction::Both,
            (false, false) => Direction::ToServer,
        };
        let parameters = Self {
            protocol,
            direction,
            time_s: number("time")?,
            omit_s: number("omit")?,
            bytes: number("num")?,
            blocks: number("blockcount")?,
            streams: match number("parallel")? {
                0 if json.contains_key("parallel") => return Err(Refusal::STREAMS),
                0 => 1,
                count => u32::try_from(count).map_err(|_| Refusal::STREAMS)?,
            },
            length: number("len")?,
            bits_per_s: number("bandwidth")?,
            burst: number("burst")?,
            window: number("window")?,
            mss: number("MSS")?,
            no_delay: flag("nodelay"),
            congestion: json.get("congestion").and_then(name),
            type_of_service: u8::try_from(number("TOS")?).map_err(|_| Refusal::TYPE_OF_SERVICE)?,
            wide_counters: flag("udp_counters_64bit"),
            dont_fragment: flag("dont_fragment"),
            server_processor: json.get("server_affinity").and_then(whole),
            server_output: flag("get_server_output"),
            version: json.get("client_version").and_then(name),
        };
        parameters.check()?;
        Ok(parameters)
    }

    /// Checks the limits, which are those of iperf3.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let length_max = match self.protocol {
            Transport::Tcp => LENGTH_MAX,
            Transport::Udp => DATAGRAM_MAX,
        };
        let checks = [
            (self.time_s <= TIME_MAX_S, Refusal::DURATION),
            (self.omit_s <= OMIT_MAX_S, Refusal::OMIT),
            (self.streams > 0 && self.streams <= MAX_STREAMS, Refusal::STREAMS),
            (self.length <= length_max, Refusal::LENGTH),
            (
                self.protocol == Transport::Tcp || self.length == 0 || self.length >= DATAGRAM_MIN,
                Refusal::DATAGRAM,
            ),
            (self.window <= WINDOW_MAX, Refusal::WINDOW),
            (self.mss <= MSS_MAX, Refusal::SEGMENT),
            (self.burst <= BURST_MAX, Refusal::BURST),
        ];
        let failed = checks.into_iter().find(|(holds, _)| !holds);
        failed.map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// Replaces a length of 0 by the default: 128 KiB over TCP; over UDP a datagram that fits into one packet of the path.
    pub(crate) fn with_length(mut self, mss: Option<u32>) -> Self {
        if self.length == 0 {
            self.length = match (self.protocol, mss) {
                (Transport::Tcp, _) => LENGTH,
                (Transport::Udp, Some(mss)) => u64::from(mss).clamp(DATAGRAM_MIN, DATAGRAM_MAX),
                (Transport::Udp, None) => DATAGRAM,
            };
        }
        self
    }

    /// Returns whether the test ends by time, rather than by bytes or blocks.
    pub(crate) fn is_by_time(&self) -> bool {
        self.bytes == 0 && self.blocks == 0
    }
}

/// Results of one end.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) processor: Processor,
    /// 1 if the sender counts retransmits, 0 if not; -1: this end does not send.
    pub(crate) has_retransmits: i64,
    pub(crate) congestion: Option<String>,
    pub(crate) streams: Vec<StreamResult>,
    /// Output of the server, if requested.
    pub(crate) output: Option<String>,
}

/// Processor time of a program, in percent of the elapsed time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Processor {
    /// Total.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// Results of one end for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct StreamResult {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    /// Retransmitted segments; -1: unknown.
    pub(crate) retransmits: i64,
    pub(crate) jitter_s: f64,
    /// Missing datagrams.
    pub(crate) errors: i64,
    /// Highest sequence number of a datagram.
    pub(crate) packets: u64,
    /// Part of these in the omitted time.
    pub(crate) omitted_errors: i64,
    pub(crate) omitted_packets: u64,
    /// Length of the test in seconds; `None` from servers before 3.2.
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
        let mut json = json!({
            "cpu_util_total": self.processor.total,
            "cpu_util_user": self.processor.user,
            "cpu_util_system": self.processor.system,
            "sender_has_retransmits": self.has_retransmits,
            "streams": streams,
        });
        if let Some(name) = &self.congestion {
            json["congestion_used"] = json!(name);
        }
        if let Some(text) = &self.output {
            json["server_output_text"] = json!(text);
        }
        json
    }

    /// Reads results; `None` if a required key is missing.
    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let real = |key: &str| json.get(key)?.as_f64();
        let streams = json.get("streams")?.as_array()?;
        if streams.len() > 2 * MAX_STREAMS as usize {
            return None;
        }
        Some(Self {
            processor: Processor {
                total: real("cpu_util_total")?,
                user: real("cpu_util_user")?,
                system: real("cpu_util_system")?,
            },
            has_retransmits: signed(json.get("sender_has_retransmits")?)?,
            congestion: json.get("congestion_used").and_then(name),
            streams: streams
                .iter()
                .map(StreamResult::from_json)
                .collect::<Option<_>>()?,
            output: json
                .get("server_output_text")
                .and_then(|text| text.as_str().map(str::to_owned)),
        })
    }
}

impl StreamResult {
    fn from_json(json: &Value) -> Option<Self> {
        let optional = |key: &str| json.get(key).and_then(Value::as_f64);
        Some(Self {
            id: whole(json.get("id")?)?,
            bytes: whole(json.get("bytes")?)?,
            retransmits: signed(json.get("retransmits")?)?,
            jitter_s: json.get("jitter")?.as_f64()?,
            errors: signed(json.get("errors")?)?,
            // Negative if it overflowed in iperf3's int.
            packets: signed(json.get("packets")?)?.max(0).cast_unsigned(),
            omitted_errors: json.get("omitted_errors").and_then(signed).unwrap_or(0),
            omitted_packets: json.get("omitted_packets").and_then(whole).unwrap_or(0),
            seconds: optional("end_time")
                .zip(optional("start_time"))
                .map(|(end, start)| end - start)
                .filter(|seconds| seconds.is_finite()),
        })
    }
}

/// Reads a name from the other end, which is logged and shown: other than printable ASCII characters become `?`.
fn name(value: &Value) -> Option<String> {
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    Some(value.as_str()?.chars().take(NAME_MAX).map(printable).collect())
}

/// Reads a whole number. cJSON writes large ones as floating point: `1e+12`.
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

/// Version that the client sends; servers only log it.
const CLIENT_VERSION: &str = concat!("sockeye ", env!("CARGO_PKG_VERSION"));
/// Sent by every iperf3, although only the sender uses it.
const PACING_TIMER_US: u64 = 1000;

/// Longest name from the other end, in characters.
const NAME_MAX: usize = 64;
const TIME_MAX_S: u64 = 86_400;
const OMIT_MAX_S: u64 = 600;
const LENGTH_MAX: u64 = 1 << 20;
/// Fewest bytes of a datagram: seconds, microseconds and the wide sequence number.
pub(crate) const DATAGRAM_MIN: u64 = 16;
/// Most bytes of a datagram in an IPv4 packet.
const DATAGRAM_MAX: u64 = 65_535 - 20 - 8;
const WINDOW_MAX: u64 = 512 << 20;
const MSS_MAX: u64 = 32 * 1024 - 1;
const BURST_MAX: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_convert_to_bytes_and_back() {
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
    const REQUEST: &str = r#"{"udp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"bidirectional":true,"len":32768,"bandwidth":10000000,"pacing_timer":1000,"client_version":"3.12"}"#;

    #[test]
    fn parameters_of_iperf3_are_read() {
        let parameters = Parameters::from_json(&serde_json::from_str(REQUEST).unwrap()).unwrap();
        assert_eq!(parameters.protocol, Transport::Udp);
        assert_eq!(parameters.direction, Direction::Both);
        assert_eq!(
            (parameters.time_s, parameters.length, parameters.streams),
            (1, 32768, 1)
        );
        assert_eq!(parameters.bits_per_s, 10_000_000);
        assert_eq!(parameters.version.as_deref(), Some("3.12"));
    }

    #[test]
    fn parameters_read_back() {
        let parameters = Parameters {
            direction: Direction::ToClient,
            streams: 4,
            bytes: 1 << 40,
            time_s: 0,
            length: 128 << 10,
            congestion: Some("cubic".to_owned()),
            no_delay: true,
            version: Some(CLIENT_VERSION.to_owned()),
            ..Parameters::default()
        };
        assert_eq!(Parameters::from_json(&parameters.to_json()).unwrap(), parameters);
    }

    #[test]
    fn parameters_out_of_range_are_refused_with_iperf3_codes() {
        let check = |text: &str, refusal: Refusal| {
            let json = serde_json::from_str(text).unwrap();
            assert_eq!(Parameters::from_json(&json).unwrap_err(), refusal, "{text}");
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
    fn results_read_back_and_old_ones_have_no_times() {
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
