"""The rows of the context of an app's functions."""

from __future__ import annotations

import json
from typing import Final

from support.feature_cells.cells import JAVA, Cell, text
from support.feature_cells.features import Outcomes, call, feature, values

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"


def only_logged(cell: Cell, outcomes: Outcomes) -> None:
    """Check that the tool has run, where no log messages arrive."""
    assert text(outcomes[0]) == "logged"


@feature(
    11, "`ctx.debug`, `info`, `warning`, `error`", {**call("log_all", {LOG_LEVEL: "debug"}), "logs": 4}, needs=("log",),
    without=only_logged,
)  # fmt: skip
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "logged"
    assert outcomes[0]["logs"] == [
        ["debug", "d", None],
        ["info", "i", "names"],
        ["warning", {"msg": "w", "extra": {"count": 1}}, None],
        ["error", "e", None],
    ]


def only_reported(cell: Cell, outcomes: Outcomes) -> None:
    """Check that the tool has run, where no progress arrives."""
    assert text(outcomes[0]) == "reported"


@feature(11, "`ctx.report_progress`", {**call("report"), "progress": 2}, needs=("progress",), without=only_reported)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "reported"
    texts = ["half", "done"] if cell.revision >= "2025-03-26" else [None, None]
    expected = [[1, 2, texts[0]], [2, 2, texts[1]]]
    # The TypeScript clients forget a progress token when the response is there, which may arrive with notifications.
    # The Java client handles notifications in several threads.
    seen = sorted(outcomes[0]["progress"]) if cell.peer == JAVA else outcomes[0]["progress"]
    assert seen == expected or (cell.peer.startswith("TypeScript") and seen == expected[: len(seen)]), seen


@feature(11, "`ctx.read_resource`, `list_tools`, `list_resources`, `list_prompts`, `get_prompt`", call("own"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert json.loads(text(outcomes[0])) == {
        "text": ["a note", "text/plain"],
        "prompt": "Is 3 EUR too much for tea?",
        **dict.fromkeys(("tools", "resources", "prompts"), True),
    }


@feature(
    11,
    "`ctx.elicit(message, Model)` with typed data, `.action`, `.data`",
    call("book", message="Who?"),
    call("book", message="Please decline"),
    needs=("elicitation",),
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [text(outcome) for outcome in outcomes] == ["accept Booking Ada 3", "decline None"]


@feature(11, "`ctx.elicit_url`", call("pay"), needs=("URL elicitation",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "accept"


@feature(11, "`ctx.sample` with texts, and with a result type", call("write"), call("judge"), needs=("sampling",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [text(outcome) for outcome in outcomes] == ["MORNING", "Verdict(good=True)"]


@feature(
    11,
    "`ctx.request`, `client_id`, `state`, `request_context`, `Context[State]`",
    call("who", {"client_id": "me", "test": "x"}),
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    seen = json.loads(text(outcomes[0]))
    address = None if cell.transport == "stdio" else "127.0.0.1"
    assert seen == {
        "state": ["main"] * 3,
        "host": address,
        "client": address,
        "client_id": "me",
        "meta": "x",
        "same": True,
        "revision": cell.revision,
        "method": "tools/call",
    }


def forgotten(cell: Cell, outcomes: Outcomes) -> None:
    """Check that state lasts for one request."""
    assert [text(outcome) for outcome in outcomes] == ["1", "1", "None", "1"]


@feature(
    11,
    "`ctx.get_state`, `set_state`, `delete_state`",
    *(call(name) for name in ("count", "count", "forget", "count")),
    needs=("session",),
    without=forgotten,
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [text(outcome) for outcome in outcomes] == ["1", "2", "None", "1"]


@feature(
    11,
    "`ctx.session`: `send_log_message`, `create_message`, `list_roots`",
    {**call("by_session", {LOG_LEVEL: "debug"}), "logs": 1},
    needs=("sampling", "roots"),
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    seen = values(outcomes[0])
    assert [line.rstrip("/") for line in seen] == ["HELLO", "file:///work"], outcomes
    if not cell.reason("log"):
        assert ["critical", "c", "names"] in outcomes[0]["logs"]


def only_changed(cell: Cell, outcomes: Outcomes) -> None:
    """Check that the tool has run, where no notification of a change arrives."""
    assert text(outcomes[0]) == "changed"


@feature(
    11,
    "`ctx.session.send_tool_list_changed`, `ctx.notify_…`",
    {**call("change"), "changes": ["tools", "prompts", "resources"]},
    needs=("changes",),
    without=only_changed,
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "changed"
    assert {*outcomes[0]["changes"]} >= {"tools", "prompts", "resources"}
