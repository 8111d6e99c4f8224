-- The tables of prompt segments: one text for SQLite and PostgreSQL. Ids are UUIDs, metadata is JSON, times are
-- ISO 8601 in UTC. `prompt_segment_schema.revision` counts the writes: each one changes this row, so writers
-- queue, and caches see it. Segments of retired scopes are kept inactive.

CREATE TABLE prompt_segment_schema (
    version_num VARCHAR(32) NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (version_num)
);

CREATE TABLE entities (
    kind VARCHAR(16) NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (kind, id),
    CONSTRAINT entities_kind CHECK (kind IN ('ruleset', 'world', 'entry', 'npc'))
);

CREATE TABLE entry_rulesets (
    entry TEXT NOT NULL,
    ruleset TEXT NOT NULL,
    sort_order INTEGER NOT NULL DEFAULT 0,
    entry_kind VARCHAR(16) GENERATED ALWAYS AS ('entry') STORED,
    ruleset_kind VARCHAR(16) GENERATED ALWAYS AS ('ruleset') STORED,
    PRIMARY KEY (entry, ruleset),
    FOREIGN KEY (entry_kind, entry) REFERENCES entities (kind, id),
    FOREIGN KEY (ruleset_kind, ruleset) REFERENCES entities (kind, id)
);

CREATE TABLE prompt_segments (
    id VARCHAR(36) NOT NULL,
    scope VARCHAR(16) NOT NULL,
    ref_id TEXT,
    content TEXT NOT NULL,
    metadata TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL DEFAULT 1,
    active BOOLEAN NOT NULL DEFAULT TRUE,
    created_at VARCHAR(40) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at VARCHAR(40) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    ref_kind VARCHAR(16) GENERATED ALWAYS AS (CASE WHEN scope = 'entry_start' THEN 'entry'
        WHEN scope IN ('ruleset', 'world', 'entry', 'npc') THEN scope END) STORED,
    PRIMARY KEY (id),
    FOREIGN KEY (ref_kind, ref_id) REFERENCES entities (kind, id),
    CONSTRAINT prompt_segments_scope CHECK (scope IN ('core', 'ruleset', 'world', 'entry', 'entry_start', 'npc')
        OR (scope IN ('game_state', 'player', 'rng', 'input') AND NOT active)),
    CONSTRAINT prompt_segments_ref_id CHECK (scope IN ('game_state', 'player', 'rng', 'input')
        OR (scope = 'core') = (ref_id IS NULL))
);
CREATE INDEX prompt_segments_scope_ref_id ON prompt_segments (scope, ref_id);

CREATE TABLE prompt_segment_versions (
    segment_id VARCHAR(36) NOT NULL,
    version INTEGER NOT NULL,
    content TEXT NOT NULL,
    metadata TEXT NOT NULL,
    note TEXT NOT NULL,
    created_at VARCHAR(40) NOT NULL,
    PRIMARY KEY (segment_id, version),
    FOREIGN KEY (segment_id) REFERENCES prompt_segments (id)
);

CREATE TABLE prompt_segment_labels (
    segment_id VARCHAR(36) NOT NULL,
    label VARCHAR(64) NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (segment_id, label),
    FOREIGN KEY (segment_id, version) REFERENCES prompt_segment_versions (segment_id, version)
);
