//! Samples of one host to intervals that are sent.

use crate::flow::{FlowKey, FlowRow, RoundTrips, TranslatedFlows, fold_rest, workload};
use sockeye_history::{ConnectionSums, Gap, Identity, KeyedSums, Values};
use sockeye_model::{NetnsInode, State, WorkloadKind};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Where a sample comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Name of the host; empty: unknown.
    pub host: String,
    /// Id of its boot; empty: unknown.
    pub boot_id: String,
    /// Version of the recorder.
    pub version: String,
    /// Milliseconds between its samples.
    pub interval_ms: u64,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleHead {
    /// Its number in the store.
    pub id: i64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Milliseconds since the boot, with suspended time.
    pub boottime_ms: u64,
    /// Sockets that it has.
    pub sockets: u64,
    /// How much of it was lost.
    pub losses: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// The gap before it.
    pub gap: Option<Gap>,
}

/// What a host saw in an interval. Its samples are those of the clock's interval: 12:00:00 to 12:01:00.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Where it comes from.
    pub origin: Origin,
    /// Its begin, in seconds since 1970.
    pub start_s: u32,
    /// Its length.
    pub length_s: u32,
    /// Time since the boot at its first sample: an interval that the clock shows twice, since it was set back, is two.
    pub boottime_ms: u64,
    /// Its first sample.
    pub first: SampleMark,
    /// Its last sample.
    pub last: SampleMark,
    /// Number of its samples.
    pub samples: u32,
    /// The most sockets of a sample.
    pub sockets_max: u64,
    /// How much was lost in its samples.
    pub losses: u64,
    /// Flows, also those that are folded with others or idle.
    pub flows_seen: u64,
    /// Flows. Those in which nothing happens are in every fifth minute, and after a gap.
    pub flows: Vec<FlowRow>,
    /// Listeners, in every fifth minute, and those whose queue was not empty.
    pub listeners: Vec<ListenerRow>,
    /// Gaps that end in it.
    pub gaps: Vec<Gap>,
}

/// A sample by number and time: a number alone may be that of another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleMark {
    /// Its number in the store.
    pub id: i64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A listener over an interval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListenerRow {
    /// Network namespace; `None` if only one is recorded.
    pub netns: Option<NetnsInode>,
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Name of the first owner.
    pub owner: Option<String>,
    /// Name of the systemd unit.
    pub unit: Option<String>,
    /// Name of the container.
    pub container: Option<String>,
    /// The most connections that waited to be accepted.
    pub waiting_max: u32,
    /// The most that may wait; 0: unknown.
    pub backlog: u32,
}

/// What is sent of each interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceOptions {
    /// Seconds of an interval; it divides [`KEYFRAME_S`].
    pub length_s: u32,
    /// Flows of an interval that are rows of their own.
    pub flows_max: usize,
}

/// Folds samples, in their order.
#[derive(Debug)]
pub struct SliceBuilder {
    options: SliceOptions,
    sums: KeyedSums<FlowKey>,
    translated: TranslatedFlows,
    open: Option<OpenSlice>,
    /// Whether the next interval is the first, or follows a gap.
    is_after_gap: bool,
}

/// The interval whose samples come.
#[derive(Debug)]
struct OpenSlice {
    slice: Slice,
    is_keyframe: bool,
    flows: HashMap<FlowKey, OpenFlow>,
    listeners: BTreeMap<ListenerKey, (u32, u32)>,
}

type ListenerKey = (
    Option<NetnsInode>,
    IpAddr,
    u16,
    Option<String>,
    Option<String>,
    Option<String>,
);

#[derive(Debug, Default)]
struct OpenFlow {
    sums: ConnectionSums,
    rtt: RoundTrips,
    receive_queue_bytes: u64,
    send_queue_bytes: u64,
}

/// What the connections of a flow have at one sample.
#[derive(Debug, Default)]
struct Now {
    rtts_us: Vec<u32>,
    min_rtt_us: Option<u32>,
    receive_queue_bytes: u64,
    send_queue_bytes: u64,
}

impl SliceBuilder {
    /// Begins without a sample.
    #[must_use]
    pub fn new(options: SliceOptions) -> Self {
        Self {
            options,
            sums: KeyedSums::default(),
            translated: TranslatedFlows::default(),
            open: None,
            is_after_gap: true,
        }
    }

    /// Sets the flows that NAT translates. Their connections are rows of their own from the next sample on.
    pub fn set_translated(&mut self, translated: TranslatedFlows) {
        self.translated = translated;
    }

    /// Takes a sample that was sent before, so that the next one has differences to it.
    pub fn resume<'a>(&mut self, sockets: impl Iterator<Item = (&'a Identity, &'a Values)> + Clone) {
        drop(self.sums.add_visiting(&self.translated, sockets, &mut |_, _| {}));
        self.is_after_gap = false;
    }

    /// Returns the interval that is complete with this sample, which is not in it. Call it before [`Self::add`].
    pub fn end_before(&mut self, sample: &SampleHead) -> Option<Slice> {
        let start_s = self.start_of(sample.at_ms);
        let open = self.open.take_if(|open| {
            open.slice.start_s != start_s
                || open.slice.origin != sample.origin
                // The clock was set back within the interval.
                || sample.at_ms < open.slice.last.at_ms
        })?;
        Some(open.finish(self.options.flows_max))
    }

    /// Returns the interval whose samples come, if it is over at a time in milliseconds since 1970, and no further one is likely. One that
    /// comes nevertheless begins a further part of the interval.
    pub fn end_at(&mut self, now_ms: u64) -> Option<Slice> {
        let flows_max = self.options.flows_max;
        let open = self.open.take_if(|open| {
            let Slice {
                start_s,
                length_s,
                origin,
                ..
            } = &open.slice;
            let end_ms = (u64::from(*start_s) + u64::from(*length_s)) * 1_000;
            end_ms + 2 * origin.interval_ms + LATE_MS < now_ms
        })?;
        Some(open.finish(flows_max))
    }

    /// Notes that samples before the next one are missing: it is followed by idle flows, too.
    pub const fn note_gap(&mut self) {
        self.is_after_gap = true;
    }

    /// Adds a sample. `separates`: whether no difference may span the gap before it.
    pub fn add<'a>(
        &mut self,
        sample: &SampleHead,
        separates: bool,
        sockets: impl Iterator<Item = (&'a Identity, &'a Values)> + Clone,
    ) {
        if separates {
            self.sums.forget();
            self.is_after_gap = true;
        }
        let mut now: HashMap<FlowKey, Now> = HashMap::new();
        let sums =
            self.sums.add_visiting(
                &self.translated,
                sockets.clone(),
                &mut |key: &FlowKey, values| match now.get_mut(key) {
                    Some(of_flow) => of_flow.add(values),
                    None => now.entry(key.clone()).or_default().add(values),
                },
            );
        let start_s = self.start_of(sample.at_ms);
        let (options, is_after_gap) = (self.options, self.is_after_gap);
        let open = self
            .open
            .get_or_insert_with(|| OpenSlice::begin(sample, start_s, options));
        open.is_keyframe |= is_after_gap;
        self.is_after_gap = false;
        open.add(sample, sums, now, sockets);
    }

    /// Returns the begin of the interval of a time in milliseconds since 1970, in seconds.
    #[must_use]
    pub fn start_of(&self, at_ms: u64) -> u32 {
        let length_s = u64::from(self.options.length_s.max(1));
        u32::try_from(at_ms / 1_000 / length_s * length_s).unwrap_or(u32::MAX)
    }
}

impl OpenSlice {
    fn begin(sample: &SampleHead, start_s: u32, options: SliceOptions) -> Self {
        let mark = SampleMark {
            id: sample.id,
            at_ms: sample.at_ms,
        };
        Self {
            is_keyframe: start_s.is_multiple_of(KEYFRAME_S),
            flows: HashMap::new(),
            listeners: BTreeMap::new(),
            slice: Slice {
                origin: sample.origin.clone(),
                start_s,
                length_s: options.length_s,
                boottime_ms: sample.boottime_ms,
                first: mark,
                last: mark,
                samples: 0,
                sockets_max: 0,
                losses: 0,
                flows_seen: 0,
                flows: Vec::new(),
                listeners: Vec::new(),
                gaps: Vec::new(),
            },
        }
    }

    fn add<'a>(
        &mut self,
        sample: &SampleHead,
        sums: HashMap<FlowKey, ConnectionSums>,
        mut now: HashMap<FlowKey, Now>,
        sockets: impl Iterator<Item = (&'a Identity, &'a Values)>,
    ) {
        let slice = &mut self.slice;
        slice.last = SampleMark {
            id: sample.id,
            at_ms: sample.at_ms,
        };
        slice.samples += 1;
        slice.sockets_max = slice.sockets_max.max(sample.sockets);
        slice.losses += sample.losses;
        slice.gaps.extend(sample.gap.clone());
        for (key, more) in sums {
            let now = now.remove(&key).unwrap_or_default();
            let flow = self.flows.entry(key).or_default();
            let of_flow = flow.sums.transferred.connections;
            let connections = of_flow.max(more.transferred.connections);
            flow.sums += more;
            flow.sums.transferred.connections = connections;
            flow.take(now);
        }
        let listeners = sockets.filter(|(_, values)| values.state() == Some(State::Listen));
        for (identity, values) in listeners {
            let Some((address, port)) = identity.local else {
                continue;
            };
            let key = (
                identity.netns,
                address.to_canonical(),
                port.0,
                identity.first_owner(),
                workload(identity, WorkloadKind::Unit),
                workload(identity, WorkloadKind::Container),
            );
            let number = |name| values.number(name).map_or(0, |number| number as u32);
            let (waiting_max, backlog) = self.listeners.entry(key).or_default();
            *waiting_max = (*waiting_max).max(number("accept_waiting"));
            *backlog = number("accept_backlog");
        }
    }

    fn finish(self, flows_max: usize) -> Slice {
        let is_keyframe = self.is_keyframe;
        let flows = self.flows.into_iter().map(|(key, flow)| flow.row(key));
        let mut flows: Vec<_> = flows.collect();
        let flows_seen = flows.len() as u64;
        flows.retain(|row| is_keyframe || !row.is_idle());
        let listeners = self.listeners.into_iter().map(|(key, (waiting_max, backlog))| {
            let (netns, address, port, owner, unit, container) = key;
            ListenerRow {
                netns,
                address,
                port,
                owner,
                unit,
                container,
                waiting_max,
                backlog,
            }
        });
        let listeners = listeners
            .filter(|row| is_keyframe || row.waiting_max > 0)
            .take(LISTENERS_MAX)
            .collect();
        Slice {
            flows_seen,
            flows: fold_rest(flows, flows_max),
            listeners,
            ..self.slice
        }
    }
}

impl OpenFlow {
    fn take(&mut self, mut now: Now) {
        if !now.rtts_us.is_empty() {
            self.rtt = RoundTrips::of(&mut now.rtts_us, now.min_rtt_us);
        }
        self.receive_queue_bytes = self.receive_queue_bytes.max(now.receive_queue_bytes);
        self.send_queue_bytes = self.send_queue_bytes.max(now.send_queue_bytes);
    }

    fn row(self, key: FlowKey) -> FlowRow {
        FlowRow {
            key,
            folded: 0,
            sums: self.sums.transferred,
            failed: self.sums.failed,
            refused: self.sums.refused,
            limits: self.sums.limits,
            rtt: self.rtt,
            receive_queue_bytes: self.receive_queue_bytes,
            send_queue_bytes: self.send_queue_bytes,
        }
    }
}

impl Now {
    fn add(&mut self, values: &Values) {
        let us = |name| {
            let us = values.number(name).filter(|us| *us > 0)?;
            u32::try_from(us).ok()
        };
        self.rtts_us.extend(us("rtt_us"));
        // Without a measurement the kernel has the largest number.
        if let Some(min_us) = us("min_rtt_us").filter(|us| *us != u32::MAX) {
            self.min_rtt_us = Some(self.min_rtt_us.map_or(min_us, |before| before.min(min_us)));
        }
        self.receive_queue_bytes += values.number("receive_queue_bytes").unwrap_or(0);
        self.send_queue_bytes += values.number("send_queue_bytes").unwrap_or(0);
    }
}

/// Every interval that begins at a multiple of this has idle flows and all listeners, too.
pub const KEYFRAME_S: u32 = 300;

/// A sample that was due this long ago does not come.
const LATE_MS: u64 = 5_000;

/// Listeners of an interval; the rest of a host with more is left out.
const LISTENERS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Side;
    use sockeye_history::{Limits, Sums};
    use sockeye_model::{Cookie, Endpoint, Entry, Port, Protocol, Queues, Socket, TcpInfo};

    const BEGIN_MS: u64 = 1_795_000_200_000;
    const OPTIONS: SliceOptions = SliceOptions {
        length_s: 60,
        flows_max: 100,
    };

    fn origin() -> Origin {
        Origin {
            host: "web1".to_owned(),
            boot_id: "boot".to_owned(),
            version: "0".to_owned(),
            interval_ms: 20_000,
        }
    }

    fn head(number: u64, at_ms: u64) -> SampleHead {
        SampleHead {
            id: number as i64,
            at_ms,
            boottime_ms: number * 20_000,
            sockets: 2,
            losses: 1,
            origin: origin(),
            gap: None,
        }
    }

    fn listener(waiting: u32) -> (Identity, Values) {
        let mut socket = Socket::new(Protocol::Tcp, State::Listen);
        socket.local = Endpoint::inet([0, 0, 0, 0].into(), Port(80));
        socket.peer = Endpoint::inet([0, 0, 0, 0].into(), Port(0));
        socket.queues = Queues::Accept {
            waiting,
            backlog: Some(128),
        };
        (
            Identity::of(&Entry::new(&socket), &mut |_| None),
            Values::of(&socket, 0),
        )
    }

    fn connection(cookie: u64, client: u8, bytes: u64, rtt_us: u32) -> (Identity, Values) {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.cookie = Some(Cookie(cookie));
        socket.local = Endpoint::inet([10, 0, 1, 1].into(), Port(80));
        socket.peer = Endpoint::inet([10, 0, 0, client].into(), Port(40_000));
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(bytes),
            rtt_us: Some(rtt_us),
            min_rtt_us: Some(u32::MAX),
            ..TcpInfo::default()
        });
        (
            Identity::of(&Entry::new(&socket), &mut |_| None),
            Values::of(&socket, 0),
        )
    }

    /// Adds a sample, and returns the interval that it ends.
    fn add(builder: &mut SliceBuilder, head: &SampleHead, sockets: &[(Identity, Values)]) -> Option<Slice> {
        let ended = builder.end_before(head);
        builder.add(
            head,
            false,
            sockets.iter().map(|(identity, values)| (identity, values)),
        );
        ended
    }

    #[test]
    fn interval_has_sums_of_its_samples_and_idle_flows_every_five_minutes() {
        let mut builder = SliceBuilder::new(OPTIONS);
        let mut slices = Vec::new();
        for number in 0..10_u64 {
            let at_ms = BEGIN_MS + number * 20_000;
            let sample = [
                listener(number as u32),
                connection(1, 1, number * 100, 50 + number as u32),
                connection(2, 2, 7, 9),
            ];
            slices.extend(add(&mut builder, &head(number, at_ms), &sample));
        }
        let shown: Vec<_> = slices
            .iter()
            .map(|slice| {
                let sent = |row: &FlowRow| (row.sums.sent_bytes, row.sums.connections, row.rtt.median_us);
                (
                    u64::from(slice.start_s) * 1_000 - BEGIN_MS,
                    (slice.first.id, slice.last.id, slice.samples),
                    slice.flows.iter().map(sent).collect::<Vec<_>>(),
                )
            })
            .collect();
        let expected = [
            (0, (0, 2, 3), vec![(200, 1, 52), (0, 1, 9)]),
            (60_000, (3, 5, 3), vec![(300, 1, 55)]),
            (120_000, (6, 8, 3), vec![(300, 1, 58)]),
        ];
        assert_eq!(shown, expected);
        let row = &slices[1].flows[0];
        assert_eq!(
            (row.key.side, row.key.port, row.rtt.min_us),
            (Side::Server, 80, 0)
        );
        assert_eq!(row.key.client, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(
            (slices[1].listeners[0].waiting_max, slices[1].listeners[0].backlog),
            (5, 128)
        );
        assert_eq!((slices[1].losses, slices[1].sockets_max), (3, 2));
    }

    #[test]
    fn connections_that_are_translated_are_rows_of_their_own() {
        let mut builder = SliceBuilder::new(OPTIONS);
        let with_port = |cookie: u64, client: u8, port: u16, bytes: u64| {
            let (mut identity, values) = connection(cookie, client, bytes, 9);
            identity.peer = Some(([10, 0, 0, client].into(), Port(port)));
            (identity, values)
        };
        let mut slices = Vec::new();
        for number in 0..7_u64 {
            let sample = [
                listener(0),
                with_port(1, 1, 40_001, number * 10),
                with_port(2, 1, 40_002, number * 20),
                with_port(3, 2, 40_003, number * 5),
                with_port(4, 2, 40_004, number * 5),
            ];
            slices.extend(add(
                &mut builder,
                &head(number, BEGIN_MS + number * 20_000),
                &sample,
            ));
            let translated = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 1, 1]), 80);
            builder.set_translated([translated].into_iter().collect());
        }
        let mut of: Vec<_> = slices[1]
            .flows
            .iter()
            .map(|row| (row.key.client, row.key.client_port, row.sums.sent_bytes))
            .collect();
        of.sort_unstable();
        let client = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert_eq!(
            of,
            [
                (client(1), 40_001, 30),
                (client(1), 40_002, 60),
                (client(2), 0, 30)
            ]
        );
    }

    #[test]
    fn failed_connects_and_limits_are_summed_up() {
        let mut builder = SliceBuilder::new(OPTIONS);
        let (mut identity, _) = connection(9, 9, 0, 0);
        identity.local = Some(([10, 0, 0, 5].into(), Port(0)));
        identity.peer = Some(([10, 0, 1, 1].into(), Port(443)));
        identity.cookie = None;
        let limited = |busy_ms: u64| {
            let (identity, _) = connection(1, 1, 0, 9);
            let mut socket = identity.socket();
            socket.state = State::Established;
            socket.tcp_info = Some(TcpInfo {
                busy_time_us: Some(busy_ms * 1_000),
                rwnd_limited_us: Some(busy_ms * 500),
                sndbuf_limited_us: Some(0),
                ..TcpInfo::default()
            });
            (identity, Values::of(&socket, 0))
        };
        let mut slices = Vec::new();
        for number in 0..7_u64 {
            let at_ms = BEGIN_MS + number * 20_000;
            let failures = (identity.clone(), Values::of_failures(4, 3));
            let sample = [listener(0), limited(number * 100), failures];
            slices.extend(add(&mut builder, &head(number, at_ms), &sample));
        }
        let of: Vec<_> = slices[1]
            .flows
            .iter()
            .map(|row| {
                let Limits {
                    busy_ms,
                    rwnd_limited_ms,
                    ..
                } = row.limits;
                (row.key.port, row.failed, row.refused, busy_ms, rwnd_limited_ms)
            })
            .collect();
        assert_eq!(of, [(443, 12, 9, 0, 0), (80, 0, 0, 300, 150)]);
        assert_eq!(slices[1].flows[0].sums, Sums::default());
        assert_eq!(slices[1].flows[0].key.side, Side::Client);
        // What failed before the first sample is not known to be of this interval.
        assert_eq!(slices[0].flows.iter().map(|row| row.failed).sum::<u64>(), 8);
    }

    #[test]
    fn interval_that_the_clock_shows_twice_is_two() {
        let mut builder = SliceBuilder::new(OPTIONS);
        let sample = [listener(0), connection(1, 1, 5, 9)];
        let times = [BEGIN_MS, BEGIN_MS + 40_000, BEGIN_MS + 20_000, BEGIN_MS + 60_000];
        let mut slices = Vec::new();
        for (number, at_ms) in times.into_iter().enumerate() {
            slices.extend(add(&mut builder, &head(number as u64, at_ms), &sample));
        }
        let of: Vec<_> = slices
            .iter()
            .map(|slice| (slice.start_s, slice.boottime_ms, slice.samples))
            .collect();
        let start_s = (BEGIN_MS / 1_000) as u32;
        assert_eq!(of, [(start_s, 0, 2), (start_s, 40_000, 1)]);
    }

    #[test]
    fn interval_ends_by_the_clock_if_no_sample_follows() {
        let mut builder = SliceBuilder::new(OPTIONS);
        add(&mut builder, &head(0, BEGIN_MS), &[listener(0)]);
        assert_eq!(builder.end_at(BEGIN_MS + 105_000), None);
        assert_eq!(
            builder.end_at(BEGIN_MS + 105_001).map(|slice| slice.samples),
            Some(1)
        );
        assert_eq!(builder.end_at(BEGIN_MS + 999_999), None);
    }

    #[test]
    fn resumed_builder_goes_on_from_what_was_sent() {
        let mut builder = SliceBuilder::new(OPTIONS);
        let before = [listener(0), connection(1, 1, 1_000, 9)];
        builder.resume(before.iter().map(|(identity, values)| (identity, values)));
        let later = [listener(0), connection(1, 1, 1_500, 9)];
        let at_ms = BEGIN_MS + 60_000;
        assert_eq!(add(&mut builder, &head(1, at_ms), &later), None);
        let slice = builder.end_before(&head(2, at_ms + 60_000)).unwrap();
        assert_eq!(slice.flows[0].sums.sent_bytes, 500);
        // No gap is before it: it needs no idle flows.
        assert_eq!(slice.listeners, []);
    }

    #[test]
    fn no_difference_spans_a_gap() {
        let mut builder = SliceBuilder::new(OPTIONS);
        add(
            &mut builder,
            &head(0, BEGIN_MS),
            &[listener(0), connection(1, 1, 1_000, 9)],
        );
        let after = head(1, BEGIN_MS + 60_000);
        builder.end_before(&after).unwrap();
        let sockets = [listener(0), connection(1, 1, 9_000, 9)];
        builder.add(
            &after,
            true,
            sockets.iter().map(|(identity, values)| (identity, values)),
        );
        let slice = builder.end_before(&head(2, BEGIN_MS + 120_000)).unwrap();
        assert_eq!(
            (slice.flows[0].sums.sent_bytes, slice.flows[0].sums.connections),
            (0, 1)
        );
        assert_eq!(slice.listeners.len(), 1);
    }
}
