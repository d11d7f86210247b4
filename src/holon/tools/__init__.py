"""The tools that a model sees: registry, envelopes, one module a family."""
