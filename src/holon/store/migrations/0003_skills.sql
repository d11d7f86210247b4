-- What came into prompts on demand: the ledger of loads, and which skills stand in an agent's session.

CREATE TABLE loads (
    id TEXT NOT NULL PRIMARY KEY,
    agent_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    reason TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    nanodollars BIGINT NOT NULL,
    session_id TEXT,
    epoch BIGINT NOT NULL,
    turn_id TEXT,
    refused BIGINT NOT NULL,
    used_at BIGINT
) {clustered};

CREATE INDEX loads_by_agent ON loads (agent_id, name, created_at);

CREATE INDEX loads_by_time ON loads (created_at);

CREATE TABLE skill_activations (
    agent_id TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    turn_id TEXT,
    record TEXT NOT NULL,
    PRIMARY KEY (agent_id, name)
) {clustered};

CREATE INDEX skill_activations_by_state ON skill_activations (state);
