CREATE TABLE checked (
    at_ms INTEGER PRIMARY KEY,
    interval_ms INTEGER NOT NULL,
    finding_count INTEGER NOT NULL,
    worst TEXT
) STRICT;
