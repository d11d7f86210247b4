-- Children that are not done yet: what every spawn counts, of one agent and of all.

CREATE INDEX tasks_children ON tasks (agent_id)
WHERE kind = 'child_agent_task' AND status IN ('queued', 'running', 'cancelling', 'interrupted');
