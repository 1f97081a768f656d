"""Tests of a client and a server run in memory, over HTTP in process and on a socket, and over transports of users."""

from __future__ import annotations

import pytest
from support import endpoints

# It counts how often a server is asked for its tools, and over HTTP a server asks itself, for what headers repeat.
_IN_MEMORY = {
    "test_structured_content_that_does_not_fit_is_not_taken",
    "test_another_order_of_the_same_tools_is_a_warning_once",
}


_CUSTOM = ("unix", "websocket")
_OLDEST = str(endpoints.HANDSHAKE[0])
_NEWEST = {str(endpoints.HANDSHAKE[-1]), str(endpoints.STATELESS[-1])}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each version in memory, and each transport with the versions that it differs in.

    The transports of users know nothing of versions. Over HTTP the oldest version and the newest of each lifecycle
    differ; what a test has for the versions between alone runs as well.
    """
    revisions: dict[tuple[str, str], set[str]] = {}
    for item in items:
        if (found := _transport_and_version(item)) is not None:
            revisions.setdefault((item.nodeid.partition("[")[0], found[0]), set()).add(found[1])

    def is_superfluous(item: pytest.Item) -> bool:
        if (found := _transport_and_version(item)) is None or found[0] == "memory":
            return False
        kept = _NEWEST if found[0] in _CUSTOM else {_OLDEST, *_NEWEST}
        others = revisions[item.nodeid.partition("[")[0], found[0]]
        return found[1] not in kept and (found[0] in _CUSTOM or not kept.isdisjoint(others))

    items[:] = [item for item in items if not is_superfluous(item)]


def _transport_and_version(item: pytest.Item) -> tuple[str, str] | None:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return (params["over"], str(params["rev"])) if {"over", "rev"} <= params.keys() else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that make a client by `client_of` run in each way; those that write on the wire themselves in memory."""
    test = metafunc.function
    if "client_of" in test.__code__.co_names and test.__name__ not in _IN_MEMORY:
        metafunc.fixturenames.append("over")
        with_a_listener = [pytest.param(kind, marks=pytest.mark.long) for kind in ("socket", *_CUSTOM)]
        metafunc.parametrize("over", ["memory", "http", *with_a_listener], indirect=True)


@pytest.fixture
def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "over", request.param)
