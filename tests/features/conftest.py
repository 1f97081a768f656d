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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the transports of users with the newest version of each lifecycle: they know nothing of versions."""
    newest = {str(endpoints.HANDSHAKE[-1]), str(endpoints.STATELESS[-1])}

    def is_superfluous(item: pytest.Item) -> bool:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        return params.get("over") in _CUSTOM and "rev" in params and str(params["rev"]) not in newest

    items[:] = [item for item in items if not is_superfluous(item)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that make a client by `client_of` run in each way; those that write on the wire themselves in memory."""
    test = metafunc.function
    if "client_of" in test.__code__.co_names and test.__name__ not in _IN_MEMORY:
        metafunc.fixturenames.append("over")
        custom = [pytest.param(kind, marks=pytest.mark.long) for kind in _CUSTOM]
        metafunc.parametrize("over", ["memory", "http", "socket", *custom], indirect=True)


@pytest.fixture
def over(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "over", request.param)
