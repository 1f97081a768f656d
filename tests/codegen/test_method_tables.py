"""The generated method tables equal what a second, independent reading of the official schema.json gives."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.project import needs_official, official, package

from mcp_generated import REVISIONS
from mcp_runtime.protocol.models import validator
from mcp_runtime.protocol.revision import InputRequest, Notification, Request

ROWS = {"2024-11-05": 27, "2025-03-26": 27, "2025-06-18": 28, "2025-11-25": 39, "2026-07-28": 22}

# What each method needs, as the text of the specification says it; by hand, from the pages and not from the overlay.
NEEDS = {
    "client": {
        "notifications/roots/list_changed": "client.roots.listChanged",
        "notifications/tasks/status": "client.tasks",
    },
    "server": {
        "notifications/elicitation/complete": "client.elicitation.url",
        "notifications/message": "server.logging",
        "notifications/prompts/list_changed": "server.prompts.listChanged",
        "notifications/resources/list_changed": "server.resources.listChanged",
        "notifications/resources/updated": "server.resources.subscribe",
        "notifications/tasks/status": "server.tasks",
        "notifications/tools/list_changed": "server.tools.listChanged",
        "elicitation/create": "client.elicitation",
        "roots/list": "client.roots",
        "sampling/createMessage": "client.sampling",
        "tasks/cancel": "client.tasks.cancel",
        "tasks/get": "client.tasks",
        "tasks/list": "client.tasks.list",
        "tasks/result": "client.tasks",
    },
}
NEEDS["client"] |= {
    "completion/complete": "server.completions",
    "logging/setLevel": "server.logging",
    "prompts/get": "server.prompts",
    "prompts/list": "server.prompts",
    "resources/list": "server.resources",
    "resources/read": "server.resources",
    "resources/subscribe": "server.resources.subscribe",
    "resources/templates/list": "server.resources",
    "resources/unsubscribe": "server.resources.subscribe",
    "tasks/cancel": "server.tasks.cancel",
    "tasks/get": "server.tasks",
    "tasks/list": "server.tasks.list",
    "tasks/result": "server.tasks",
    "tools/call": "server.tools",
    "tools/list": "server.tools",
}
NEEDS_NOTHING = {
    *("initialize", "ping", "server/discover", "subscriptions/listen", "notifications/cancelled"),
    *("notifications/initialized", "notifications/progress", "notifications/subscriptions/acknowledged"),
}

Row = tuple[str, str, str, str | None, bool, frozenset[str], str]


def rows_from_official(revision: str) -> set[Row]:
    """(kind, sender, method, params, params required, results, capability), read from schema.json alone."""
    schema = official(revision)
    types: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    rows: set[Row] = set()
    for union, kind, sender in (
        ("ClientRequest", "Request", "client"),
        ("ClientNotification", "Notification", "client"),
        ("ServerRequest", "Request", "server"),
        ("ServerNotification", "Notification", "server"),
        ("InputRequest", "InputRequest", "server"),
    ):
        for name in members(types, union):
            properties, required = types[name]["properties"], types[name].get("required", [])
            method = properties["method"]["const"]
            params = params_name(types, name, properties.get("params"))
            results = frozenset() if kind == "Notification" else results_of(types, name, properties.get("params"))
            rows.add((kind, sender, method, params, "params" in required, results, needs(revision, sender, method)))
    return rows


def members(types: dict[str, Any], union: str) -> list[str]:
    if union not in types:
        return []
    if "anyOf" in types[union]:
        return [arm["$ref"].rpartition("/")[2] for arm in types[union]["anyOf"]]
    method = types[union]["properties"]["method"]
    return [
        name
        for name, definition in types.items()
        if name != union and definition.get("properties", {}).get("method") == method
    ]


def params_name(types: dict[str, Any], name: str, params: Any) -> str | None:
    if params is None:
        return None
    if "$ref" in params:
        return str(params["$ref"].rpartition("/")[2])
    for base in ("Request", "Notification", "PaginatedRequest"):
        if params == types[base]["properties"].get("params"):
            return f"{base}Params"
    return f"{name}Params"


def results_of(types: dict[str, Any], name: str, params: Any) -> frozenset[str]:
    stem = name.removesuffix("Request")
    results = {f"{stem}Result"} if f"{stem}Result" in types else {"EmptyResult"}
    if f"{stem}ResultResponse" in types:
        result = types[f"{stem}ResultResponse"]["properties"]["result"]
        results = {arm["$ref"].rpartition("/")[2] for arm in result.get("anyOf", [result])}
    if params is not None and "TaskMetadata" in expanded(types, params):
        results.add("CreateTaskResult")
    return frozenset(results)


def expanded(types: dict[str, Any], params: Any) -> list[str]:
    """The names the params refer to in their own properties, arm by arm."""
    if "$ref" in params:
        return expanded(types, types[params["$ref"].rpartition("/")[2]])
    if "anyOf" in params:
        return [name for arm in params["anyOf"] for name in expanded(types, arm)]
    return [inner["$ref"].rpartition("/")[2] for inner in params["properties"].values() if "$ref" in inner]


def needs(revision: str, sender: str, method: str) -> str:
    if method in NEEDS_NOTHING or (revision, method) == ("2024-11-05", "completion/complete"):
        return ""
    return NEEDS[sender][method]


def rows_generated(revision: str) -> set[Row]:
    types = package(revision, "types")
    names = {id(getattr(types, name)): name for name in dir(types)} | {id(types.Result): "EmptyResult"}
    rows: set[Row] = set()
    for row in package(revision, "methods").REVISION.rows:
        results: frozenset[str] = frozenset()
        if isinstance(row, Request):
            results = frozenset(
                names[id(result)] for result in (row.result, *(interim.result for interim in row.interim))
            )
        elif isinstance(row, InputRequest):
            results = frozenset({names[id(row.result)]})
        params = None if row.params is None else names[id(row.params)]
        sender = row.direction.partition("_")[0]
        rows.add((type(row).__name__, sender, row.method, params, row.params_required, results, row.capability))
    return rows


@needs_official
def test_every_row_is_what_the_official_schema_gives(revision: str) -> None:
    assert rows_generated(revision) == rows_from_official(revision)


def test_there_are_143_rows() -> None:
    counts = {revision: len(package(revision, "methods").REVISION.rows) for revision in REVISIONS}
    assert counts == ROWS
    assert sum(counts.values()) == 143


def test_tasks_rows_go_both_ways_in_2025_11_25() -> None:
    rows = package("2025-11-25", "methods").REVISION.rows
    directions = sorted((row.method, row.direction) for row in rows if row.method.startswith("tasks/"))
    assert len(directions) == 8
    assert {method for method, _ in directions} == {"tasks/get", "tasks/list", "tasks/cancel", "tasks/result"}


def test_input_requests_of_2026_07_28_are_no_json_rpc_requests() -> None:
    rows = [row for row in package("2026-07-28", "methods").REVISION.rows if isinstance(row, InputRequest)]
    assert sorted(row.method for row in rows) == ["elicitation/create", "roots/list", "sampling/createMessage"]


def test_a_bad_result_is_never_taken_for_another_result(revision: str) -> None:
    """`{"content": "bad"}` fits the open result types, so only the row may decide which type it has to be."""
    rows = {row.name: row for row in package(revision, "methods").REVISION.rows if not isinstance(row, Notification)}
    for bad in (
        {"content": "bad"},
        {"content": "bad", "resultType": "complete"},
        {"content": "bad", "resultType": "?"},
    ):
        with pytest.raises(ValidationError, match="content"):
            rows["call_tool"].read_result(bad, {"name": "x"})


def test_an_interim_result_is_read_as_itself_and_only_where_it_may_come() -> None:
    rows = {row.name: row for row in package("2026-07-28", "methods").REVISION.rows if isinstance(row, Request)}
    asking = {"resultType": "input_required", "requestState": "s"}
    assert type(rows["call_tool"].read_result(asking)).__name__ == "InputRequiredResult"
    with pytest.raises(ValidationError):
        rows["list_tools"].read_result(asking)


def test_a_result_without_its_usual_values_has_them() -> None:
    """A server of an earlier revision does not say that a result is complete, or how long it may be kept."""
    rows = {row.name: row for row in package("2026-07-28", "methods").REVISION.rows if isinstance(row, Request)}
    called: Any = rows["call_tool"].read_result({"content": []})
    assert called.result_type == "complete"
    listed: Any = rows["list_tools"].read_result({"tools": [], "ttlMs": 7})
    assert (listed.result_type, listed.ttl_ms, listed.cache_scope) == ("complete", 7, "private")


def test_a_task_is_read_only_where_one_was_asked_for() -> None:
    rows = {row.name: row for row in package("2025-11-25", "methods").REVISION.rows if isinstance(row, Request)}
    task = {"taskId": "1", "status": "working", "createdAt": "t", "lastUpdatedAt": "t", "ttl": None}
    answer = rows["call_tool"].read_result({"task": task}, {"name": "x", "task": {}})
    assert type(answer).__name__ == "CreateTaskResult"
    with pytest.raises(ValidationError, match="content"):
        rows["call_tool"].read_result({"task": task}, {"name": "x"})


def test_a_message_without_params_reads_nothing() -> None:
    read = validator(Notification("x/y", "on_y", None).params)
    assert [read(params) for params in (None, {}, {"a": 1})] == [None, None, None]
