-- The tables of a store: one text for SQLite and PostgreSQL. (SQLite takes any name of a type: a column of
-- DOUBLE PRECISION holds floats there, one of BYTEA whatever is put into it.)
--
-- `task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which PostgreSQL refuses
-- in text, survive as escapes. `events.key` is the hash of a model request. `inputs` holds the compressed files of
-- contexts, and `runs.input` refers to them. `batch_calls` are the calls in batches of a provider
-- (`--slow`), by the ids under which it knows them, each with what is known of its batch.
--
-- A change of the tables changes `version` in schema.py. A store of another version is refused.

CREATE TABLE journal_version (version_num VARCHAR(32) NOT NULL, PRIMARY KEY (version_num));

CREATE TABLE runs (
    run_id VARCHAR(64) NOT NULL,
    task TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    stop_reason VARCHAR(32),
    started_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION,
    rounds INTEGER NOT NULL,
    sub_calls INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION,
    settings TEXT NOT NULL,
    process TEXT NOT NULL,
    input VARCHAR(64),
    PRIMARY KEY (run_id)
);
CREATE INDEX runs_started_at ON runs (started_at);
CREATE INDEX runs_input ON runs (input);

CREATE TABLE events (
    run_id VARCHAR(64) NOT NULL,
    seq INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    kind VARCHAR(16) NOT NULL,
    data TEXT NOT NULL,
    key VARCHAR(64),
    PRIMARY KEY (run_id, seq),
    FOREIGN KEY (run_id) REFERENCES runs (run_id)
);
CREATE INDEX events_key ON events (key);

CREATE TABLE inputs (
    input VARCHAR(64) NOT NULL,
    name VARCHAR(32) NOT NULL,
    part INTEGER NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (input, name, part)
);

CREATE TABLE batch_calls (
    key VARCHAR(64) NOT NULL,
    provider_id VARCHAR(128) NOT NULL,
    model TEXT NOT NULL,
    sent_at DOUBLE PRECISION NOT NULL,
    requests INTEGER NOT NULL,
    state VARCHAR(16) NOT NULL,
    run_id VARCHAR(64) NOT NULL,
    PRIMARY KEY (key)
);
CREATE INDEX batch_calls_provider_id ON batch_calls (provider_id);
CREATE INDEX batch_calls_run_id ON batch_calls (run_id);
