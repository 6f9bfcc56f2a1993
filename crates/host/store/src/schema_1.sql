CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    boot_id TEXT,
    host TEXT,
    version TEXT NOT NULL,
    interval_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE sample (
    id INTEGER PRIMARY KEY,
    group_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL REFERENCES run (id),
    at_ms INTEGER NOT NULL,
    monotonic_ms INTEGER NOT NULL,
    boottime_ms INTEGER NOT NULL,
    sockets INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    losses_by_name TEXT NOT NULL
) STRICT;
CREATE INDEX sample_by_time ON sample (at_ms);
CREATE INDEX sample_by_group ON sample (group_id);
CREATE TABLE recent (
    sample_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (sample_id, kind)
) STRICT;
CREATE TABLE block (
    group_id INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (group_id, kind)
) STRICT;
CREATE TABLE gap (
    id INTEGER PRIMARY KEY,
    from_ms INTEGER NOT NULL,
    to_ms INTEGER NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE TABLE talker (
    id INTEGER PRIMARY KEY,
    netns INTEGER,
    direction TEXT NOT NULL,
    peer TEXT NOT NULL,
    port INTEGER NOT NULL,
    owner TEXT,
    container TEXT
) STRICT;
CREATE INDEX talker_by_peer ON talker (peer, port);
CREATE TABLE sum_1m (
    start_s INTEGER NOT NULL,
    talker_id INTEGER NOT NULL,
    sent_bytes INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL,
    retrans_segs INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    connections_max INTEGER NOT NULL,
    PRIMARY KEY (start_s, talker_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE sum_5m (
    start_s INTEGER NOT NULL,
    talker_id INTEGER NOT NULL,
    sent_bytes INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL,
    retrans_segs INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    connections_max INTEGER NOT NULL,
    PRIMARY KEY (start_s, talker_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE top_1h (
    start_s INTEGER NOT NULL,
    by TEXT NOT NULL,
    name TEXT NOT NULL,
    sent_bytes INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL,
    retrans_segs INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    connections_max INTEGER NOT NULL,
    PRIMARY KEY (by, start_s, name)
) STRICT, WITHOUT ROWID;
