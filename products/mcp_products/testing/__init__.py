"""A scripted peer for tests of clients and servers."""

from .peer import ScriptedPeer as ScriptedPeer

__all__ = ["ScriptedPeer"]
