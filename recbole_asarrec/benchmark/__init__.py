"""Measurements that anyone can make again: ``python -m recbole_asarrec benchmark --help``."""
