CREATE DATABASE IF NOT EXISTS `sockeye`;

CREATE TABLE IF NOT EXISTS `sockeye`.migrations (
    version UInt32,
    applied DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
ORDER BY (version)
SETTINGS non_replicated_deduplication_window = 14400;

CREATE TABLE IF NOT EXISTS `sockeye`.flows (
    t DateTime('UTC') CODEC(T64, ZSTD(3)) COMMENT 'begin of the interval',
    length_s UInt16 CODEC(ZSTD(3)) COMMENT 'its length in seconds',
    host LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'the host that saw it',
    netns UInt32 CODEC(ZSTD(3)) COMMENT 'its network namespace, 0: only one is recorded',
    zone LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'where the addresses are valid: empty: everywhere, else on this host',
    side Enum8('client' = 1, 'server' = 2) CODEC(ZSTD(3)) COMMENT 'which end the host is',
    client IPv6 CODEC(ZSTD(3)) COMMENT 'the end that connected, :: if folded',
    server IPv6 CODEC(ZSTD(3)) COMMENT 'the end that listens, :: if folded',
    port UInt16 CODEC(ZSTD(3)) COMMENT 'the port that it listens on',
    owner LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'process of this end, empty: unknown',
    unit LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'its systemd unit',
    container LowCardinality(String) CODEC(ZSTD(3)) COMMENT 'its container',
    folded UInt32 CODEC(T64, ZSTD(3)) COMMENT 'flows in this row, 0: it is one',
    connections UInt32 CODEC(T64, ZSTD(3)) COMMENT 'the most connections of a sample',
    opened UInt32 CODEC(T64, ZSTD(3)) COMMENT 'connections opened',
    closed UInt32 CODEC(T64, ZSTD(3)) COMMENT 'connections closed',
    sent_bytes UInt64 CODEC(T64, ZSTD(3)) COMMENT 'bytes that the other end acknowledged',
    received_bytes UInt64 CODEC(T64, ZSTD(3)) COMMENT 'bytes received',
    retrans_segs UInt32 CODEC(T64, ZSTD(3)) COMMENT 'segments retransmitted by this end',
    rtt_count UInt32 CODEC(T64, ZSTD(3)) COMMENT 'connections with a round trip time',
    rtt_us_median UInt32 CODEC(T64, ZSTD(3)) COMMENT 'their median, 0: unknown',
    rtt_us_p95 UInt32 CODEC(T64, ZSTD(3)) COMMENT '95 of 100 are not above it',
    rtt_us_min UInt32 CODEC(T64, ZSTD(3)) COMMENT 'the smallest ever, 0: unknown',
    receive_queue_bytes UInt64 CODEC(T64, ZSTD(3)) COMMENT 'received and not read, at most',
    send_queue_bytes UInt64 CODEC(T64, ZSTD(3)) COMMENT 'written and not acknowledged, at most',
    rtt_us_sum UInt64 ALIAS toUInt64(rtt_us_median) * rtt_count COMMENT 'not stored'
)
ENGINE = MergeTree
PARTITION BY toDate(t)
ORDER BY (toStartOfFiveMinutes(t), server, port, client, side, host, t)
TTL t + INTERVAL 7 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS `sockeye`.flows_5m (
    t DateTime('UTC') CODEC(T64, ZSTD(3)),
    server IPv6 CODEC(ZSTD(3)),
    port UInt16 CODEC(ZSTD(3)),
    client IPv6 CODEC(ZSTD(3)),
    side Enum8('client' = 1, 'server' = 2) CODEC(ZSTD(3)),
    zone LowCardinality(String) CODEC(ZSTD(3)),
    host LowCardinality(String) CODEC(ZSTD(3)),
    netns UInt32 CODEC(ZSTD(3)),
    owner LowCardinality(String) CODEC(ZSTD(3)),
    unit LowCardinality(String) CODEC(ZSTD(3)),
    container LowCardinality(String) CODEC(ZSTD(3)),
    folded SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(3)),
    connections SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(3)),
    opened SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    closed SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    sent_bytes SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    received_bytes SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    retrans_segs SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    rtt_count SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    rtt_us_sum SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    rtt_us_p95 SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(3)),
    receive_queue_bytes SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3)),
    send_queue_bytes SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(t)
ORDER BY (t, server, port, client, side, zone, host, netns, owner, unit, container)
TTL t + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS `sockeye`.flows_1h (
    t DateTime('UTC') CODEC(T64, ZSTD(3)),
    server IPv6 CODEC(ZSTD(3)),
    port UInt16 CODEC(ZSTD(3)),
    client IPv6 CODEC(ZSTD(3)),
    side Enum8('client' = 1, 'server' = 2) CODEC(ZSTD(3)),
    zone LowCardinality(String) CODEC(ZSTD(3)),
    host LowCardinality(String) CODEC(ZSTD(3)),
    netns UInt32 CODEC(ZSTD(3)),
    owner LowCardinality(String) CODEC(ZSTD(3)),
    unit LowCardinality(String) CODEC(ZSTD(3)),
    container LowCardinality(String) CODEC(ZSTD(3)),
    folded SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(3)),
    connections SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(3)),
    opened SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    closed SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    sent_bytes SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    received_bytes SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    retrans_segs SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    rtt_count SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    rtt_us_sum SimpleAggregateFunction(sum, UInt64) CODEC(T64, ZSTD(3)),
    rtt_us_p95 SimpleAggregateFunction(max, UInt32) CODEC(T64, ZSTD(3)),
    receive_queue_bytes SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3)),
    send_queue_bytes SimpleAggregateFunction(max, UInt64) CODEC(T64, ZSTD(3))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(t)
ORDER BY (t, server, port, client, side, zone, host, netns, owner, unit, container)
TTL t + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE MATERIALIZED VIEW IF NOT EXISTS `sockeye`.flows_5m_view TO `sockeye`.flows_5m AS
SELECT toStartOfFiveMinutes(f.t) AS t, f.server AS server, f.port AS port, f.client AS client, f.side AS side, f.zone AS zone, f.host AS host, f.netns AS netns, f.owner AS owner, f.unit AS unit, f.container AS container,
    max(f.folded) AS folded,
    max(f.connections) AS connections,
    sum(f.opened) AS opened,
    sum(f.closed) AS closed,
    sum(f.sent_bytes) AS sent_bytes,
    sum(f.received_bytes) AS received_bytes,
    sum(f.retrans_segs) AS retrans_segs,
    sum(f.rtt_count) AS rtt_count,
    sum(toUInt64(f.rtt_us_median) * f.rtt_count) AS rtt_us_sum,
    max(f.rtt_us_p95) AS rtt_us_p95,
    max(f.receive_queue_bytes) AS receive_queue_bytes,
    max(f.send_queue_bytes) AS send_queue_bytes
FROM `sockeye`.flows AS f
GROUP BY toStartOfFiveMinutes(f.t), f.server, f.port, f.client, f.side, f.zone, f.host, f.netns, f.owner, f.unit, f.container;

CREATE MATERIALIZED VIEW IF NOT EXISTS `sockeye`.flows_1h_view TO `sockeye`.flows_1h AS
SELECT toStartOfHour(f.t) AS t, f.server AS server, f.port AS port, f.client AS client, f.side AS side, f.zone AS zone, f.host AS host, f.netns AS netns, f.owner AS owner, f.unit AS unit, f.container AS container,
    max(f.folded) AS folded,
    max(f.connections) AS connections,
    sum(f.opened) AS opened,
    sum(f.closed) AS closed,
    sum(f.sent_bytes) AS sent_bytes,
    sum(f.received_bytes) AS received_bytes,
    sum(f.retrans_segs) AS retrans_segs,
    sum(f.rtt_count) AS rtt_count,
    sum(toUInt64(f.rtt_us_median) * f.rtt_count) AS rtt_us_sum,
    max(f.rtt_us_p95) AS rtt_us_p95,
    max(f.receive_queue_bytes) AS receive_queue_bytes,
    max(f.send_queue_bytes) AS send_queue_bytes
FROM `sockeye`.flows AS f
GROUP BY toStartOfHour(f.t), f.server, f.port, f.client, f.side, f.zone, f.host, f.netns, f.owner, f.unit, f.container;

CREATE TABLE IF NOT EXISTS `sockeye`.listeners (
    t DateTime('UTC') CODEC(T64, ZSTD(3)) COMMENT 'begin of the interval',
    host LowCardinality(String) COMMENT 'the host',
    netns UInt32 COMMENT 'its network namespace, 0: only one is recorded',
    address IPv6 COMMENT 'its address',
    port UInt16 COMMENT 'its port',
    owner LowCardinality(String) COMMENT 'process, empty: unknown',
    unit LowCardinality(String) COMMENT 'its systemd unit',
    container LowCardinality(String) COMMENT 'its container',
    waiting_max UInt32 COMMENT 'the most connections that waited to be accepted',
    backlog UInt32 COMMENT 'the most that may wait, 0: unknown'
)
ENGINE = MergeTree
PARTITION BY toDate(t)
ORDER BY (toStartOfFiveMinutes(t), address, port, host, t)
TTL t + INTERVAL 7 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS `sockeye`.hosts (
    t DateTime('UTC') CODEC(T64, ZSTD(3)) COMMENT 'begin of the interval',
    host LowCardinality(String) COMMENT 'the host',
    boot_id LowCardinality(String) COMMENT 'its boot, empty: unknown',
    version LowCardinality(String) COMMENT 'version of its recorder',
    sample_interval_ms UInt32 COMMENT 'time between two samples',
    samples UInt32 COMMENT 'samples of the interval',
    sockets UInt32 COMMENT 'the most sockets of a sample',
    losses UInt64 COMMENT 'what the recorder could not read',
    flows_seen UInt32 COMMENT 'flows, also those that are folded or idle',
    flows_sent UInt32 COMMENT 'rows of flows',
    last_sample DateTime64(3, 'UTC') COMMENT 'its last sample',
    sent DateTime64(3, 'UTC') COMMENT 'when it was sent, by the clock of the host',
    received DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it came, by the clock of the server'
)
ENGINE = MergeTree
PARTITION BY toDate(t)
ORDER BY (host, t)
TTL t + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS `sockeye`.counts (
    t DateTime('UTC') CODEC(T64, ZSTD(3)) COMMENT 'begin of the minute',
    host LowCardinality(String) COMMENT 'the host',
    kind LowCardinality(String) COMMENT 'counter, or drop',
    name LowCardinality(String) COMMENT 'of the counter or the reason',
    netns UInt32 COMMENT 'network namespace, 0: only one, or unknown',
    function LowCardinality(String) COMMENT 'function of the kernel that drops',
    device LowCardinality(String) COMMENT 'network interface',
    owner LowCardinality(String) COMMENT 'process of the packets\' socket',
    count UInt64 COMMENT 'how much'
)
ENGINE = MergeTree
PARTITION BY toDate(t)
ORDER BY (name, host, t)
TTL t + INTERVAL 90 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS `sockeye`.findings (
    began DateTime64(3, 'UTC') COMMENT 'the first check that found it',
    host LowCardinality(String) COMMENT 'the host',
    id Int64 COMMENT 'its number in the store of the host',
    last DateTime64(3, 'UTC') COMMENT 'the last check that found it',
    state Enum8('there' = 1, 'ended' = 2, 'unknown' = 3) COMMENT 'unknown: a gap followed',
    ended DateTime64(3, 'UTC') COMMENT 'the first check without it, 1970: see state',
    rule LowCardinality(String) COMMENT 'the rule that found it',
    severity LowCardinality(String) COMMENT 'its severity',
    severity_rank UInt8 COMMENT '0: the least severe',
    netns UInt32 COMMENT 'network namespace, 0: only one, or the whole host',
    subject String COMMENT 'what it is about',
    pid UInt32 COMMENT 'process, 0: unknown or several',
    owner LowCardinality(String) COMMENT 'its name',
    sockets UInt64 COMMENT 'sockets concerned',
    example String COMMENT 'ends of the worst of them',
    facts String COMMENT 'evidence: name=value ...',
    meaning String COMMENT 'its meaning',
    remedies String COMMENT 'what to do, a line each',
    revision UInt64 COMMENT 'the highest of the rows of a finding counts'
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMM(began)
ORDER BY (host, began, id)
TTL toDateTime(last) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS `sockeye`.gaps (
    begin DateTime64(3, 'UTC') COMMENT 'the last sample before it',
    host LowCardinality(String) COMMENT 'the host',
    end DateTime64(3, 'UTC') COMMENT 'the first sample after it',
    reason LowCardinality(String) COMMENT 'why there is no sample'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(begin)
ORDER BY (host, begin, end, reason)
TTL toDateTime(end) + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 14400, ttl_only_drop_parts = 1;

INSERT INTO `sockeye`.migrations (version) VALUES (1);
