"""Templates: what a new agent begins with. Applied once; afterwards the agent's own home is all that counts."""
