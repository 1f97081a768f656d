"""The table of what servers of official SDKs offer, and what our clients must receive of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from support.feature_cells.cells import BUILT, OWN, PEERS, Cell, Reason, cells, refused, text
from support.feature_cells.features import Feature, Outcomes, Step, call, listed
from support.sdk_peers import built

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
OFFERS: Final[list[Feature]] = []


def offer(name: str, *steps: Step, needs: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Return a decorator that adds a check as a row of the table."""

    def add(check: Any) -> Any:
        OFFERS.append(Feature(0, name, steps, check, needs))
        return check

    return add


def reason(cell: Cell, *needs: str) -> Reason | None:
    """Return why our client cannot use what a row needs, in the revision of a cell; None if it can."""
    return Cell(OWN, cell.revision, cell.transport).reason(*needs)


def server_cells(peer: str) -> list[Cell]:
    """Return the cells of a server: our clients of all its revisions, over stdio and HTTP."""
    return [cell for cell in cells(peer) if cell.revision in SERVED[peer]]


def server_command(peer: str, transport: str, *revisions: str) -> list[str]:
    """Return the command of a server, which has all revisions or some. Skips the test where it cannot be built."""
    return [*built(BUILT[peer]), "server", transport, *revisions]


SERVED: Final = {peer: PEERS[peer] for peer in BUILT}


@offer("name, title and version of a server", {"op": "server"})
def _(cell: Cell, outcomes: Outcomes) -> None:
    server = outcomes[0]["result"]
    assert (server["name"], server["version"]) == ("peer", "1.2")
    assert cell.revision < "2025-06-18" or server["title"] == "A peer"


@offer("tools in several pages, with schemas, titles and annotations", {"op": "tools"})
def _(cell: Cell, outcomes: Outcomes) -> None:
    tools = listed(outcomes[0], "name")
    assert {"add", "fail", "log", "work", "sample", "ask", "roots", "change"} <= {*tools}
    assert {*tools["add"]["inputSchema"]["properties"]} == {"a", "b"} and tools["add"]["description"]
    assert cell.revision < "2025-03-26" or tools["add"]["annotations"]["readOnlyHint"] is True
    assert cell.revision < "2025-06-18" or (tools["add"]["title"], "outputSchema" in tools["add"]) == ("Add", True)


@offer("a call, with text and structured content", call("add", a=2, b=3))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "5"
    assert cell.revision < "2025-06-18" or outcomes[0]["result"]["structuredContent"] == {"sum": 5}


@offer("errors: of a tool, of arguments, of unknown names", call("fail"), call("add", a="no"), call("unknown"),
       {"op": "read", "uri": "note://unknown"}, {"op": "prompt", "name": "unknown", "arguments": {}})  # fmt: skip
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert outcomes[0]["result"]["isError"] is True
    assert "it went wrong" in outcomes[0]["result"]["content"][0]["text"]
    for outcome in outcomes[1:3]:
        refused(cell, [outcome])
    for outcome in outcomes[3:]:
        assert outcome["error"]["message"].strip(), outcome


@offer(
    "log messages", {"op": "level", "level": "debug"}, {**call("log", {LOG_LEVEL: "debug"}), "logs": 1}, needs=("log",)
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[1]) == "logged" and outcomes[1]["logs"] == [["warning", "careful", "peer"]]


@offer("progress", {**call("work"), "progress": 2}, needs=("progress",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "worked"
    assert [step[:2] for step in outcomes[0]["progress"]] == [[1, 2], [2, 2]]
    assert cell.revision < "2025-03-26" or [step[2] for step in outcomes[0]["progress"]] == ["half", "done"]


@offer("sampling", call("sample", message="rome"), needs=("sampling",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "ROME"


@offer("elicitation", call("ask", message="Who?"), call("ask", message="decline"), needs=("elicitation",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [text(outcome) for outcome in outcomes] == ["accept Ada", "decline"]


@offer("roots", call("roots"), needs=("roots",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "file:///work"


@offer("resources and templates", {"op": "resources"}, {"op": "templates"}, {"op": "read", "uri": "note://one"},
       {"op": "read", "uri": "note://about/tea"})  # fmt: skip
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [*listed(outcomes[0], "uri")] == ["note://one"]
    assert [*listed(outcomes[1], "uriTemplate")] == ["note://about/{thing}"]
    contents = [outcome["result"]["contents"][0] for outcome in outcomes[2:]]
    assert [(item["text"], item["mimeType"]) for item in contents] == [
        ("about one", "text/plain"),
        ("about tea", "text/plain"),
    ]


@offer("prompts", {"op": "prompts"}, {"op": "prompt", "name": "question", "arguments": {"thing": "tea"}})
def _(cell: Cell, outcomes: Outcomes) -> None:
    [argument] = listed(outcomes[0], "name")["question"]["arguments"]
    assert (argument["name"], argument["required"]) == ("thing", True)
    assert outcomes[1]["result"]["messages"][0]["content"]["text"] == "What is tea?"


@offer("completion", {"op": "complete", "prompt": "question", "name": "thing", "value": "t"}, needs=("completion",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert outcomes[0]["result"]["values"] == ["tea", "tin"]


@offer("notifications of changed lists", {**call("change"), "changes": ["tools"]}, needs=("changes",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "changed" and "tools" in outcomes[0]["changes"]
