CREATE TABLE observed (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX observed_by_time ON observed (at_ms, kind);
