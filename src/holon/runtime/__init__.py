"""The agent's life: admission, the loop, turns, waking. Decisions are pure functions; the host acts on them."""
