-- {bytes} is a column of bytes, {number} one that the database numbers; what follows {postgres} in a line is for PostgreSQL alone.

CREATE TABLE hosts (
    id TEXT PRIMARY KEY,
    registration {bytes} NOT NULL,
    seen BIGINT NOT NULL
);

CREATE TABLE bugs (
    id TEXT PRIMARY KEY,
    program TEXT NOT NULL,
    signature TEXT NOT NULL,
    state TEXT NOT NULL,
    -- The build that the state is about.
    state_build {bytes},
    widened BIGINT NOT NULL
);
CREATE INDEX bugs_of_program ON bugs (program);

-- Changed with every entry of a log, so nothing large is in it: SQLite writes whole rows.
CREATE TABLE cases (
    number {number},
    bug TEXT NOT NULL REFERENCES bugs (id),
    build {bytes} NOT NULL,
    last_seq BIGINT NOT NULL,
    retired_seq BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    UNIQUE (bug, build)
);
CREATE INDEX cases_of_build ON cases (build);

CREATE TABLE openings (
    case_number BIGINT PRIMARY KEY REFERENCES cases (number) ON DELETE CASCADE,
    modules {bytes} NOT NULL,
    report {bytes} NOT NULL,
    runs_until BIGINT NOT NULL
);

CREATE TABLE failures (
    case_number BIGINT NOT NULL REFERENCES cases (number) ON DELETE CASCADE,
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (case_number, id)
);
CREATE INDEX failures_by_age ON failures (at);

CREATE TABLE reporters (
    case_number BIGINT NOT NULL REFERENCES cases (number) ON DELETE CASCADE,
    host TEXT NOT NULL,
    PRIMARY KEY (case_number, host)
);

-- No reference to its case: who writes here holds the case's row, and a check for each run would cost as much as the run.
-- A run that was forgotten keeps its row without a body, so that it is not taken for a new one when it is sent again.
CREATE TABLE runs (
    case_number BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    at BIGINT NOT NULL,
    body {bytes},
    object TEXT,
    PRIMARY KEY (case_number, seq),
    UNIQUE (case_number, id)
);
CREATE INDEX runs_by_object ON runs (object) WHERE object IS NOT NULL;
-- PostgreSQL's own way to compress takes longer than everything else about a run. Not every PostgreSQL has the other one.
{postgres} DO $$ BEGIN EXECUTE 'ALTER TABLE runs ALTER COLUMN body SET COMPRESSION lz4'; EXCEPTION WHEN feature_not_supported OR syntax_error THEN NULL; END $$;

CREATE TABLE derived (
    case_number BIGINT PRIMARY KEY REFERENCES cases (number) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    widened BIGINT NOT NULL,
    sketch {bytes} NOT NULL,
    summary {bytes} NOT NULL
);

-- Outlives the bugs that it is about.
CREATE TABLE audit (
    number {number},
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    bug TEXT NOT NULL,
    what TEXT NOT NULL
);

CREATE TABLE modules (
    build {bytes} PRIMARY KEY,
    path TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    object TEXT NOT NULL
);
