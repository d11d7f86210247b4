-- What keeps the ledgers short: sums of loads that retention took, and ways to what goes with a temporary agent.

-- Loads that are no longer kept one by one, summed by skill, agent and month.
CREATE TABLE load_months (
    month TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    name TEXT NOT NULL,
    loads BIGINT NOT NULL,
    preloads BIGINT NOT NULL,
    refs BIGINT NOT NULL,
    used BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    nanodollars BIGINT NOT NULL,
    last_loaded_at BIGINT,
    PRIMARY KEY (month, agent_id, name)
) {clustered};

-- Loads whose use is still to be seen, by session: what every turn's end asks for.
CREATE INDEX loads_unused ON loads (agent_id, name, session_id) WHERE used_at IS NULL;

-- Archived private agents, and messages by agent for temporary agents only: named agents pay nothing for it.
CREATE INDEX agents_retired ON agents (id) WHERE registry_status = 'archived' AND visibility = 'private';

CREATE INDEX queue_of_temporary ON queue (agent_id, message_id) WHERE substr(agent_id, 1, 4) = 'tmp_';

CREATE INDEX triggers_of_agent ON triggers (agent_id);
