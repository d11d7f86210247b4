"""Skills: found when needed, loaded once, never lost."""
