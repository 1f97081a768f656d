"""Stores that several processes share: records, streams, counters and channels, in memory, SQLite or Redis."""
