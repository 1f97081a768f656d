"""A scripted peer for tests of clients and servers."""
