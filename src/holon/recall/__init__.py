"""Ranking, for everyone who searches."""
