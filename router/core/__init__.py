"""Decisions: pure code that knows no socket, no task and no clock of its own."""
