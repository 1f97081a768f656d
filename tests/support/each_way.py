"""Tests of a client and a server run in memory, over HTTP in process and on a socket, and over transports of users."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Iterator[Any]:
    """Run each version in memory, and each transport with the versions that it differs in.

    The transports of users know nothing of versions. Over HTTP the oldest version and the newest of each lifecycle
    differ; what a test has for the versions between alone runs as well.
    """
    made = yield
    if not isinstance(made, list):
        return made
    revisions: dict[str, set[str]] = {}
    for item in made:
        if (found := _transport_and_version(item)) is not None:
            revisions.setdefault(found[0], set()).add(found[1])

    def is_superfluous(item: pytest.Item) -> bool:
        if (found := _transport_and_version(item)) is None or found[0] == "memory":
            return False
        kept = _NEWEST if found[0] in _CUSTOM else {_OLDEST, *_NEWEST}
        return found[1] not in kept and (found[0] in _CUSTOM or not kept.isdisjoint(revisions[found[0]]))

    return [item for item in made if not is_superfluous(item)]


def _transport_and_version(item: pytest.Item) -> tuple[str, str] | None:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return (str(params["over"]), str(params["rev"])) if {"over", "rev"} <= params.keys() else None


# The transports of users carry messages, and know no feature: the tests of these folders run over them.
_OVER_CUSTOM = {"tools", "messages", "cancellation"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that make a client by `client_of` run in each way; those that write on the wire themselves in memory."""
    test = metafunc.function
    if "client_of" in test.__code__.co_names and test.__name__ not in _IN_MEMORY:
        metafunc.fixturenames.append("over")
        is_carried = not _OVER_CUSTOM.isdisjoint(metafunc.definition.path.parts)
        custom = pytest.mark.long if is_carried else pytest.mark.exhaustive
        with_a_listener = [
            pytest.param("socket", marks=pytest.mark.long),
            *(pytest.param(kind, marks=custom) for kind in _CUSTOM),
        ]
        metafunc.parametrize("over", ["memory", "http", *with_a_listener], indirect=True)


@pytest.fixture
def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "over", request.param)
