-- Workspaces that the host knows. Agents refer to them by id.
CREATE TABLE workspaces (
    id TEXT NOT NULL PRIMARY KEY,
    record TEXT NOT NULL
) {clustered};
