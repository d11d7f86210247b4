"""Models: one module a transport, and around them what makes a round of attempts."""
