"""What the official suite does not look at: every old revision as itself, stdio, HTTP with SSE as before, and more.

The everything example is asked on the bare wire, and what it says is judged by the official schemas.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, STATELESS, Rev, among, hello
from support.processes import end_with_session
from support.project import ROOT

from conformance.beyond import ANSWERS, CAPABILITIES, SCENARIOS, all_that_the_suite_requires_is_served
from conformance.beyond_stateless import OF_THE_SMALL, OF_THE_SUITE
from conformance.wires import conversation, served

EVERYTHING = str(ROOT / "examples" / "everything" / "server.py")
SUITE_SERVER = str(ROOT / "tests" / "conformance" / "server.py")
SMALL_SERVER = str(ROOT / "tests" / "conformance" / "small_server.py")
TRANSPORTS = {"stdio": "", "http": "/mcp", "sse": "/sse"}


def is_in_the_long_run(transport: str, rev: Rev, scenario: str) -> bool:
    """Return False for a case that is left to the exhaustive run."""
    if transport == "sse":
        return rev is HANDSHAKE[0]
    return rev is HANDSHAKE[-1] and (transport == "http" or scenario in OVER_STDIO)


# Each scenario runs over HTTP in the newest version, and over the oldest transport in the oldest one: a server serves
# all of these. Over stdio each has a server of its own, so only what depends on the order of lines runs there.
OVER_STDIO = ("a_cancelled_call_ends_and_is_not_answered", "answers_to_many_at_once_go_to_their_requests")
CASES = [
    pytest.param(
        transport,
        rev,
        scenario,
        id=f"{transport}-{rev}-{scenario.__name__}",
        marks=() if is_in_the_long_run(transport, rev, scenario.__name__) else pytest.mark.exhaustive,
    )
    for transport in TRANSPORTS
    for rev in HANDSHAKE
    for scenario, since in SCENARIOS.items()
    if rev.id >= since
]


@cache
def url(transport: str, server: str = EVERYTHING) -> str:
    """Where a server of this process serves; each way has one of its own."""
    if transport == "stdio":
        return ""
    process, origin = served((server, "http", "--port", "0"), transport)
    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()
    end_with_session(process)
    return origin + TRANSPORTS[transport]


@pytest.mark.long
@pytest.mark.parametrize(("transport", "rev", "scenario"), CASES)
async def test_a_scenario(transport: str, rev: Rev, scenario: Any) -> None:
    async with conversation(transport, rev, [EVERYTHING, "stdio"], url(transport), ANSWERS) as wire:
        agreed = await wire.open(rev.id, CAPABILITIES)
        assert agreed["protocolVersion"] == rev.id
        await scenario(wire)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_from_another_time_is_offered_the_newest_that_begins_with_a_handshake(transport: str) -> None:
    rev = HANDSHAKE[-1]
    async with conversation(transport, rev, [EVERYTHING, "stdio"], url(transport), ANSWERS) as wire:
        request = hello("1999-12-31", CAPABILITIES, id=0)
        waiting = wire.expect(request)
        await wire.post(request)
        assert (await wire.answer(waiting))["protocolVersion"] == rev.id


@pytest.mark.long
@pytest.mark.parametrize(
    ("server", "scenario"),
    [
        pytest.param(server, scenario, id=scenario.__name__)
        for server, scenarios in ((SUITE_SERVER, OF_THE_SUITE), (SMALL_SERVER, OF_THE_SMALL))
        for scenario in scenarios
    ],
)
@pytest.mark.parametrize("transport", ["http", "stdio"])
@among(STATELESS)
async def test_a_scenario_without_a_handshake(transport: str, rev: Rev, server: str, scenario: Any) -> None:
    async with conversation(transport, rev, [server, "stdio"], url(transport, server), {}) as wire:
        await scenario(wire)


@pytest.mark.long
@pytest.mark.parametrize("transport", ["http", "stdio"])
@among(ALL_REVISIONS)
async def test_the_server_of_the_suite_serves_every_revision(transport: str, rev: Rev) -> None:
    async with conversation(transport, rev, [SUITE_SERVER, "stdio"], url(transport, SUITE_SERVER), {}) as wire:
        if not rev.stateless:
            assert (await wire.open(rev.id, {}))["protocolVersion"] == rev.id
        await all_that_the_suite_requires_is_served(wire)
