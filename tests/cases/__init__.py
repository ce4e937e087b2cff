"""Faults that others shipped, as black-box tests of the router between two scripted engines."""
