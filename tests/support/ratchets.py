"""Numbers that may only fall: a test notes today's, and fails if there are more, or fewer."""

from __future__ import annotations

from collections.abc import Iterable


def assert_only_falls(places: Iterable[str], noted: int) -> None:
    """Assert that so many places are left as a test notes; whoever removes some notes the lower number there."""
    found = sorted(places)
    listing = "\n".join(found)
    assert len(found) <= noted, f"{len(found)} places, {noted} were noted: add none\n{listing}"
    assert len(found) == noted, f"{len(found)} places are left: note this number instead of {noted}"


def assert_keeps(count: int, limit: int, slack: int) -> None:
    """Assert that a size keeps a limit which is at most `slack` above it."""
    assert count <= limit, f"{count}: more than {limit}"
    assert count >= limit - slack, f"{count}: lower the limit of {limit}"
