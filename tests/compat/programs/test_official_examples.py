"""Programs of the official SDK run with their import lines changed, and answer as on their own SDK.

The thresholds are what has been reached; a change may raise them. `MCP_PYTHON_SDK` is a git directory of
modelcontextprotocol/python-sdk with the tags of its releases.
"""

from __future__ import annotations

import os

import pytest
from compat.programs.official_clients import measure_clients
from compat.programs.official_examples import Line, Outcome, measure_servers

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif("MCP_PYTHON_SDK" not in os.environ, reason="MCP_PYTHON_SDK is not set: no programs to run"),
]

# The share of programs that run, and of servers that give the same answers, in percent: measured with v1.29.0 and
# v2.0.0. docs/migration.md has the figures.
REACHED: dict[Line, tuple[int, int]] = {"v1": (92, 91), "v2": (94, 87)}
CLIENTS: dict[Line, int] = {"v1": 100, "v2": 100}


def share(outcomes: list[bool]) -> float:
    return 100 * sum(outcomes) / len(outcomes)


def reasons(outcomes: list[Outcome]) -> str:
    return "\n".join(f"{outcome.name}: {outcome.reason}" for outcome in outcomes if outcome.reason)


@pytest.mark.parametrize("line", REACHED)
def test_servers_run_and_give_the_official_client_the_same_answers(line: Line) -> None:
    outcomes = list(measure_servers(line))
    runs, same = REACHED[line]
    assert len(outcomes) > 30
    assert share([outcome.runs for outcome in outcomes]) >= runs, reasons(outcomes)
    compared = [outcome.same for outcome in outcomes if outcome.same is not None]
    assert share(compared) >= same, reasons(outcomes)


@pytest.mark.parametrize("line", CLIENTS)
def test_client_programs_run(line: Line) -> None:
    outcomes = list(measure_clients(line))
    assert len(outcomes) > 5
    assert share([outcome.runs for outcome in outcomes]) >= CLIENTS[line], reasons(outcomes)
