-- The prompt and its price: epochs with their frozen heads, and the ledger of calls to models.

CREATE TABLE epochs (
    agent_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (agent_id, number)
) {clustered};

-- One row for each answered round. The conversation part of the request is the transcript up to `upto_seq`.
CREATE TABLE calls (
    agent_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    turn_id TEXT NOT NULL,
    model_ref TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    upto_seq BIGINT NOT NULL,
    chain TEXT NOT NULL,
    blocks BIGINT NOT NULL,
    fresh BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_written BIGINT NOT NULL,
    output BIGINT NOT NULL,
    nanodollars BIGINT NOT NULL,
    sections TEXT NOT NULL,
    PRIMARY KEY (agent_id, seq)
) {clustered};

-- Sums by day, so that a question about costs reads days and not calls.
CREATE TABLE cost_days (
    day TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    model_ref TEXT NOT NULL,
    section TEXT NOT NULL,
    calls BIGINT NOT NULL,
    fresh BIGINT NOT NULL,
    cache_read BIGINT NOT NULL,
    cache_written BIGINT NOT NULL,
    output BIGINT NOT NULL,
    nanodollars BIGINT NOT NULL,
    PRIMARY KEY (day, agent_id, model_ref, section)
) {clustered};
