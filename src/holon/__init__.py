"""Holon: a runtime for agents that live long."""

__version__ = "0.1.0"
