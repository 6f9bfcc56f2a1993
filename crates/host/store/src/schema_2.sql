CREATE TABLE finding (
    id INTEGER PRIMARY KEY,
    began_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    end TEXT NOT NULL,
    ended_ms INTEGER,
    rule TEXT NOT NULL,
    severity TEXT NOT NULL,
    severity_rank INTEGER NOT NULL,
    netns INTEGER,
    subject TEXT NOT NULL,
    pid INTEGER,
    owner TEXT,
    sockets INTEGER NOT NULL,
    example TEXT,
    facts TEXT NOT NULL,
    meaning TEXT NOT NULL,
    remedies TEXT NOT NULL
) STRICT;
CREATE INDEX finding_by_time ON finding (last_ms);
CREATE TABLE unseen (
    id INTEGER PRIMARY KEY,
    began_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    end TEXT NOT NULL,
    ended_ms INTEGER,
    kind TEXT NOT NULL,
    part TEXT,
    why TEXT NOT NULL
) STRICT;
CREATE INDEX unseen_by_time ON unseen (last_ms);
CREATE TABLE counted (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    netns INTEGER,
    function TEXT,
    device TEXT,
    owner TEXT
) STRICT;
CREATE INDEX counted_by_name ON counted (name, netns);
CREATE TABLE count_1m (
    start_s INTEGER NOT NULL,
    counted_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (start_s, counted_id)
) STRICT, WITHOUT ROWID;
