"""The rows of dependencies, middleware, visibility, changed tools, resources and settings."""

from __future__ import annotations

import json

from support.feature_cells.cells import BALANCED, INSPECTOR, NEWEST, Cell, is_stateless, refused, text
from support.feature_cells.features import Outcomes, call, feature, listed, values

# ---- 12: dependencies ------------------------------------------------------------------------------------------------


@feature(
    12,
    "`Depends` with generators, once for a call, not in the schema",
    call("price", item="tea"),
    call("still_open"),
    {"op": "tools"},
    {"op": "prompt", "name": "question", "arguments": {"thing": "tea"}},
    {"op": "read", "uri": "note://about/tea"},
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "3 EUR, 2 EUR, opened 1" and text(outcomes[1]) == "0"
    assert [*listed(outcomes[2], "name")["price"]["inputSchema"]["properties"]] == ["item"]
    assert outcomes[3]["result"]["messages"][0]["content"]["text"] == "Is 3 EUR too much for tea?"
    assert outcomes[4]["result"]["contents"][0]["text"] == "tea costs 3 EUR"


@feature(12, "`Resolve` and `Elicit`", call("greet"), needs=("elicitation",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "Hello Ada"


@feature(12, "`Resolve` with `Sample` and `ListRoots`", call("visit"), needs=("sampling", "roots"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]).rstrip("/") == "ROME file:///work"


# ---- 12: middleware --------------------------------------------------------------------------------------------------


@feature(
    12,
    "hooks of messages: calls, reads, prompts, the start of a client",
    call("passed"),
    {"op": "read", "uri": "hooks://passed"},
    {"op": "prompt", "name": "passed", "arguments": {}},
    call("starts"),
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert values(outcomes[0]) == ["on_message", "on_request", "on_call_tool"]
    read = json.loads(outcomes[1]["result"]["contents"][0]["text"])
    assert read == ["on_message", "on_request", "on_read_resource"]
    prompt = outcomes[2]["result"]["messages"][0]["content"]["text"]
    assert prompt == "on_message on_request on_get_prompt"
    if cell.transport == BALANCED:
        return  # Another process may have had the start.
    if cell.revision != NEWEST:
        assert {*values(outcomes[3])} >= {
            "on_initialize",
            "on_message initialize",
            "on_request initialize",
            "on_notification",
        }
    elif cell.discovers:
        assert {*values(outcomes[3])} >= {"on_discover"}


@feature(12, "hooks of lists", {"op": "tools"}, {"op": "resources"}, {"op": "templates"}, {"op": "prompts"})
def _(cell: Cell, outcomes: Outcomes) -> None:
    names = [
        [*listed(outcome, key)] for outcome, key in zip(outcomes, ("name", "uri", "uriTemplate", "name"), strict=True)
    ]
    assert "price" in names[0] and "note://text" in names[1] and "question" in names[3]
    assert names[2] == ["note://about/{thing}"]
    assert not [name for part in names for name in part if name.startswith("hidden")]


@feature(12, "a hook that refuses a call", call("hidden_tool"), needs=("unlisted tools",))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert outcomes[0]["result"]["isError"] is True
    assert values(outcomes[0]) == ["a middleware refuses this"]


@feature(
    12,
    "the hook of completions",
    {"op": "complete", "prompt": "question", "name": "thing", "value": "t"},
    needs=("completion",),
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert outcomes[0]["result"]["values"] == ["from the app", "from a middleware"]


def first_passes(cell: Cell, outcomes: Outcomes) -> None:
    """Check the first call, where another process serves the next one."""
    assert text(outcomes[0]) in ("passed", "1", "3 EUR, 2 EUR, opened 1")


@feature(
    12,
    "`LoggingMiddleware`, `TimingMiddleware`, their structured and detailed forms",
    call("price", item="tea"),
    {"op": "prompt", "name": "question", "arguments": {"thing": "tea"}},
    call("journal_of", word="tools/call"),
    call("journal_of", word="prompts/get"),
    needs=("process",),
    without=first_passes,
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    calls, prompts = values(outcomes[2]), values(outcomes[3])
    assert {"request tools/call", "request tools/call 'price'"} <= {*calls}
    assert any(line.startswith("event=request_start method=tools/call") for line in calls)
    assert any(line.startswith('{"event": "request_start"') or '"method"' in line for line in prompts)


@feature(12, "`ErrorHandlingMiddleware`", call("broken"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    error = outcomes[0]["error"]
    assert "invalid params: this is too big" in error["message"]
    assert error.get("code", -32602) == -32602


@feature(12, "`RetryMiddleware`", call("flaky", caller="$cell"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "attempt 3"


@feature(12, "`ResponseLimitingMiddleware`", call("large"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]).endswith("[Response truncated due to size limit]") and len(text(outcomes[0])) < 400


def check_limit(cell: Cell, outcomes: Outcomes) -> None:
    """Check that the third call is one too many."""
    assert [text(outcome) for outcome in outcomes[:2]] == ["passed"] * 2
    assert "too many 'tools/call' requests" in outcomes[2]["error"]["message"]


for _title, _name in (("RateLimitingMiddleware", "limited"), ("SlidingWindowRateLimitingMiddleware", "limited_window")):
    feature(
        12, f"`{_title}`", *[call(_name, caller="$cell")] * 3, needs=("process", "error of 429"), without=first_passes
    )(check_limit)


@feature(
    12, "`ResponseCachingMiddleware`", *[call("number", caller="$cell")] * 2, needs=("process",), without=first_passes
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [text(outcome) for outcome in outcomes] == ["1", "1"]


@feature(12, "`AuthMiddleware` with `restrict_tag`", call("erase"), {"op": "tools"})
def _(cell: Cell, outcomes: Outcomes) -> None:
    if cell.transport == "stdio":  # There are no users.
        assert text(outcomes[0]) == "erased" and "erase" in listed(outcomes[1], "name")
    else:
        refused(cell, outcomes[:1])
        assert "erase" not in listed(outcomes[1], "name")


# ---- 12: visibility, time-outs, changed tools ------------------------------------------------------------------------


@feature(12, "`tags=`, `app.disable(tags=…)`", call("secret"), {"op": "tools"})
def _(cell: Cell, outcomes: Outcomes) -> None:
    refused(cell, outcomes[:1])
    tools = listed(outcomes[1], "name")
    assert "secret" not in tools
    assert cell.revision < "2025-06-18" or "shop" in str(tools["price"]["_meta"])


def not_enabled(cell: Cell, outcomes: Outcomes) -> None:
    """Check that nothing is enabled for another request, and that a request without a session gets an error."""
    if cell.peer != INSPECTOR or is_stateless(cell):
        refused(cell, outcomes[:1])
    assert "secret" not in listed(outcomes[1], "name")
    refused(cell, outcomes[2:])


@feature(
    12,
    "`ctx.enable_components`, `reset_visibility` for a session",
    call("unlock"),
    {"op": "tools", "fresh": True},
    call("secret"),
    call("lock"),
    call("secret"),
    needs=("session",),
    without=not_enabled,
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert text(outcomes[0]) == "unlocked" and "secret" in listed(outcomes[1], "name")
    assert (text(outcomes[2]), text(outcomes[3])) == ("open", "locked")
    refused(cell, outcomes[4:])


@feature(12, "`@app.tool(timeout=…)`", call("wait"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert outcomes[0]["result"]["isError"] is True and "timed out after 0.05 s" in values(outcomes[0])[0]


@feature(
    12,
    "`Tool.from_tool`: rename, hide, wrap",
    call("cost", thing="tea"),
    call("tea"),
    call("shout", thing=" tea "),
    {"op": "tools"},
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert [text(outcome).partition(",")[0] for outcome in outcomes[:3]] == ["3 EUR", "3 EUR", "3 EUR!"]
    tools = listed(outcomes[3], "name")
    assert tools["cost"]["description"] == "Return what it costs."
    assert tools["cost"]["inputSchema"]["properties"]["thing"]["description"] == "What to buy."
    assert not tools["tea"]["inputSchema"].get("properties")


# ---- 12: the app -----------------------------------------------------------------------------------------------------


@feature(
    12,
    "title, icons and website of an app and of its parts",
    {"op": "server"},
    {"op": "tools"},
    {"op": "resources"},
    {"op": "prompts"},
    {"op": "templates"},
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    server = outcomes[0]["result"]
    assert (server["name"], server["version"]) == ("features", "1.2")
    price = listed(outcomes[1], "name")["price"]
    has_titles, has_icons = cell.revision >= "2025-06-18", cell.revision >= "2025-11-25"
    assert (server.get("title"), price.get("title")) == (("All features", "The price") if has_titles else (None, None))
    parts = (server, price, listed(outcomes[2], "uri")["note://text"], listed(outcomes[3], "name")["passed"])
    for part in (*parts, listed(outcomes[4], "uriTemplate")["note://about/{thing}"]):
        sources = [icon["src"] for icon in part.get("icons") or ()]
        assert sources == (["https://shop.example/icon.png"] if has_icons else []), part
    assert str(server.get("websiteUrl")) == ("https://shop.example" if has_icons else "None")


@feature(
    12,
    "`TextResource`, `FileResource`, `DirectoryResource`, `HttpResource`",
    *({"op": "read", "uri": f"note://{name}"} for name in ("text", "file", "folder", "http")),
)
def _(cell: Cell, outcomes: Outcomes) -> None:
    seen = [outcome["result"]["contents"][0] for outcome in outcomes]
    assert [content["text"] for content in seen[:2] + seen[3:]] == ["a note", "a file", "some news"]
    assert json.loads(seen[2]["text"]) == {"files": ["a.md", "b.txt"]}
    assert seen[1]["mimeType"] == "text/markdown"


@feature(12, "`run_async`, `settings`, `log_level`, `dependencies`", call("settings"))
def _(cell: Cell, outcomes: Outcomes) -> None:
    assert values(outcomes[0])[-1] == "features" and "httpx2" in str(values(outcomes[0]))
    assert values(outcomes[0])[0] == "WARNING"
