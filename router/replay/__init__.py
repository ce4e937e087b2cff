"""Policies against arrivals in virtual time: the router's own decisions over a model of the engines."""
