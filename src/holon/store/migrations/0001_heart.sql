-- The heart: agents, their queue, their turns, their log.
-- Times are UTC milliseconds; records are JSON as text; columns beside a record are what queries need.

CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    fence BIGINT NOT NULL,
    acquired_at BIGINT NOT NULL
) {clustered};

CREATE TABLE agents (
    id TEXT NOT NULL PRIMARY KEY,
    visibility TEXT NOT NULL,
    registry_status TEXT NOT NULL,
    parent_agent_id TEXT,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    failed_at BIGINT,
    identity TEXT NOT NULL,
    state TEXT NOT NULL
) {clustered};
CREATE INDEX agents_failed ON agents (failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX agents_by_parent ON agents (parent_agent_id) WHERE parent_agent_id IS NOT NULL;

-- Places in an agent's queue, log and transcript. Apart from the agent, so that an admission does not rewrite it.
CREATE TABLE counters (
    scope TEXT NOT NULL PRIMARY KEY,
    event_seq BIGINT NOT NULL DEFAULT 0,
    oldest_event_seq BIGINT NOT NULL DEFAULT 1,
    queue_seq BIGINT NOT NULL DEFAULT 0,
    transcript_seq BIGINT NOT NULL DEFAULT 0,
    pending BIGINT NOT NULL DEFAULT 0
) {clustered};

-- The intake log: it only grows, until retention takes what nothing refers to any more.
CREATE TABLE messages (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    envelope TEXT NOT NULL
) {clustered};

CREATE TABLE queue (
    message_id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    lane INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    status TEXT NOT NULL,
    run_id TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    source_key TEXT
) {clustered};
CREATE INDEX queue_waiting ON queue (agent_id, lane, seq) WHERE status = 'queued';
CREATE INDEX queue_claimed ON queue (agent_id) WHERE status = 'dequeued';
CREATE INDEX queue_source ON queue (source_key) WHERE source_key IS NOT NULL AND status = 'queued';

CREATE TABLE turns (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    turn_index BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    record TEXT NOT NULL
) {clustered};
CREATE UNIQUE INDEX turns_by_index ON turns (agent_id, turn_index);
CREATE INDEX turns_by_message ON turns (message_id);
CREATE INDEX turns_open ON turns (agent_id) WHERE phase <> 'terminal';

CREATE TABLE tool_calls (
    turn_id TEXT NOT NULL,
    round INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (turn_id, round, ordinal)
) {clustered};

CREATE TABLE transcript (
    agent_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    turn_id TEXT,
    round INTEGER,
    message_id TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (agent_id, seq)
) {clustered};

CREATE TABLE briefs (
    agent_id TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    turn_id TEXT,
    record TEXT NOT NULL,
    PRIMARY KEY (agent_id, id)
) {clustered};

CREATE TABLE events (
    agent_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    message_id TEXT,
    turn_id TEXT,
    payload TEXT NOT NULL,
    PRIMARY KEY (agent_id, seq)
) {clustered};

CREATE TABLE timers (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    next_fire_at BIGINT,
    record TEXT NOT NULL
) {clustered};
CREATE INDEX timers_due ON timers (next_fire_at) WHERE status = 'active';
CREATE INDEX timers_by_agent ON timers (agent_id, id);

CREATE TABLE tasks (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    due_at BIGINT,
    record TEXT NOT NULL
) {clustered};
CREATE INDEX tasks_due ON tasks (due_at) WHERE status = 'running' AND due_at IS NOT NULL;
CREATE INDEX tasks_by_agent ON tasks (agent_id, id);
CREATE INDEX tasks_live ON tasks (agent_id) WHERE status IN ('queued', 'running', 'cancelling', 'interrupted');

CREATE TABLE triggers (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    status TEXT NOT NULL,
    record TEXT NOT NULL
) {clustered};
CREATE UNIQUE INDEX triggers_active ON triggers (agent_id) WHERE status = 'active';

CREATE TABLE wake_hints (
    agent_id TEXT NOT NULL,
    id TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (agent_id, id)
) {clustered};

CREATE TABLE idempotency (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    result TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (scope, key)
) {clustered};
CREATE INDEX idempotency_age ON idempotency (created_at);

-- What must be done outside the database after a commit, and until it is done.
CREATE TABLE outbox (
    id TEXT NOT NULL PRIMARY KEY,
    topic TEXT NOT NULL,
    payload TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL
) {clustered};
CREATE INDEX outbox_due ON outbox (due_at);
