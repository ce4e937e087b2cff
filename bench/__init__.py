"""Measurements that are kept beside the code."""
