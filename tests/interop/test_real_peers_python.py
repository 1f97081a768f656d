"""The official Python SDK's client, in both its versions, uses all that our everything server has.

In each revision, over stdio and over HTTP in both its shapes.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest
from support.peers import driven, example_served, once, python_peer
from support.project import ROOT

pytestmark = pytest.mark.long

SERVER = [sys.executable, str(ROOT / "examples" / "everything" / "server.py"), "stdio"]
SDKS = ["mcp==1.30.0", "mcp==2.3.0"]
HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
# A revision over what it has: the first one knows no Streamable HTTP, and later ones have the older HTTP left behind.
TRANSPORTS = [("stdio", id) for id in HANDSHAKES] + [("/mcp", id) for id in HANDSHAKES[1:]] + [("/sse", HANDSHAKES[0])]
# Both SDKs, all transports, and the first and the last revision over each; the rest of the product is exhaustive.
REPRESENTATIVES = [
    ("mcp==1.30.0", "/sse", "2024-11-05"),
    ("mcp==1.30.0", "/mcp", "2025-11-25"),
    ("mcp==2.3.0", "stdio", "2024-11-05"),
    ("mcp==2.3.0", "/mcp", "2025-03-26"),
    ("mcp==2.3.0", "stdio", "2025-11-25"),
]
ALL_TOOLS = [
    *("echo", "add", "long_running", "log_something", "image", "audio", "embedded", "links", "statistics", "fail"),
    *("write_note", "toggle_extra", "sample", "research", "list_roots", "elicit_name", "visit_page", "locked"),
]
NEW_IN = {
    "audio": "2025-03-26",
    **dict.fromkeys(("links", "statistics", "elicit_name"), "2025-06-18"),
    **dict.fromkeys(("research", "visit_page", "locked"), "2025-11-25"),
}
NOT_FOUND, INVALID_PARAMS = -32002, -32602


class Seen:
    """What one SDK saw of the server in one revision."""

    def __init__(self, sdk: str, revision: str, seen: dict[str, Any]) -> None:
        self.sdk = sdk
        self.revision = revision
        self._seen = seen

    def __getattr__(self, name: str) -> dict[str, Any]:
        part: dict[str, Any] = self._seen[name]
        return part

    def has(self, tool: str) -> bool:
        return NEW_IN.get(tool, "") <= self.revision


def story(sdk: str, transport: str, revision: str, factory: pytest.TempPathFactory) -> Seen:
    """Run the driver, once for all test processes."""
    python = python_peer(sdk)

    def drive() -> Any:
        if transport == "stdio":
            return driven(python, "python_sdk.py", revision, *SERVER)
        with example_served("everything") as url:
            return driven(python, "python_sdk.py", revision, url + transport)

    return Seen(sdk, revision, once(factory, f"{sdk}-{transport.strip('/')}-{revision}", drive))


def _row(sdk: str, transport: str, revision: str) -> Any:
    """Return a parameter; those that are not in the table are exhaustive."""
    marks = [] if (sdk, transport, revision) in REPRESENTATIVES else [pytest.mark.exhaustive]
    return pytest.param((sdk, transport, revision), marks=marks, id=f"{sdk}-{transport}-{revision}")


@pytest.fixture(params=[_row(sdk, *transport) for sdk in SDKS for transport in TRANSPORTS])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return story(*request.param, tmp_path_factory)


def names(pages: list[list[dict[str, Any]]]) -> list[str]:
    return [item["name"] for page in pages for item in page]


def text(result: dict[str, Any], is_error: bool = False) -> str:
    """The only content of a result."""
    assert result.get("isError", False) is is_error, result
    [content] = result["content"]
    assert content["type"] == "text"
    return str(content["text"])


def code(outcome: dict[str, Any]) -> int:
    return int(outcome["error"]["code"])


def messages(notifications: list[dict[str, Any]], method: str) -> list[Any]:
    return [notification for notification in notifications if notification["method"] == method]


@pytest.mark.edges("1.30.0-/sse-2024-11-05", "2.3.0-/mcp-2025-03-26")
def test_the_two_agree_on_the_revision_that_is_offered(seen: Seen) -> None:
    assert seen.initialize["protocolVersion"] == seen.revision
    assert seen.initialize["serverInfo"]["name"] == "everything"
    assert seen.initialize["instructions"].startswith("Call `echo` first.")
    capabilities = seen.initialize["capabilities"]
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
    assert ("completions" in capabilities) is (seen.revision >= "2025-03-26")
    assert ("tasks" in capabilities) is (seen.revision >= "2025-11-25")
    assert seen.ping == {}


def test_lists_come_in_pages_and_a_wrong_cursor_is_refused(seen: Seen) -> None:
    lists = seen.lists
    assert names(lists["tools"]) == [name for name in ALL_TOOLS if seen.has(name)]
    assert [len(lists[kind]) > 1 for kind in ("tools", "resources", "prompts")] == [True, True, True]
    assert names(lists["resources"])[:3] == ["text", "image", "status"]
    assert [template["uriTemplate"] for template in lists["templates"][0]] == ["demo://number/{n}", "note://{name}"]
    assert names(lists["prompts"]) == ["simple", "describe", "with_resource", "with_image", "summarize", "translate"]
    assert {code(refused) for refused in lists["bad"].values()} == {INVALID_PARAMS}


def test_a_revision_is_shown_nothing_that_it_does_not_have(seen: Seen) -> None:
    tools = {tool["name"]: tool for page in seen.lists["tools"] for tool in page}
    assert ("annotations" in tools["echo"]) is (seen.revision >= "2025-03-26")
    assert ("title" in tools["echo"]) is (seen.revision >= "2025-06-18")
    assert ("execution" in tools["long_running"]) is (seen.revision >= "2025-11-25")
    if seen.has("statistics"):
        assert tools["statistics"]["outputSchema"]["required"] == ["count", "sum", "maximum"]


def test_tools_give_every_kind_of_content(seen: Seen) -> None:
    calls = seen.calls
    assert text(calls["echo"]) == "héllo\n\u2028" and text(calls["add"]) == "2.5"
    [image] = calls["image"]["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    words, embedded = calls["embedded"]["content"]
    assert words["annotations"] == {"audience": ["user"], "priority": 1}
    assert embedded["type"] == "resource" and embedded["resource"]["blob"] == image["data"]
    if seen.has("audio"):
        [audio] = calls["audio"]["content"]
        assert audio["type"] == "audio" and base64.b64decode(audio["data"]).startswith(b"RIFF")
    if seen.has("links"):
        assert [link["uri"] for link in calls["links"]["content"]] == ["demo://text", "demo://image"]
        assert calls["statistics"]["structuredContent"] == {"count": 3, "sum": 6.5, "maximum": 3}


def test_what_goes_wrong_is_an_error_for_the_model_or_for_the_program(seen: Seen) -> None:
    calls = seen.calls
    assert text(calls["fail"], is_error=True) == "This tool always fails."
    assert code(calls["nonsense"]) == INVALID_PARAMS
    # Wrong arguments are something the model can learn from, the newest of these revisions says.
    if seen.revision >= "2025-11-25":
        assert text(calls["wrong"], is_error=True) == "add: 'two' is not of type 'number'"
    else:
        assert code(calls["wrong"]) == INVALID_PARAMS
    for tool in ALL_TOOLS:
        if tool in calls and not seen.has(tool):
            assert code(calls[tool]) == INVALID_PARAMS


def test_tools_ask_the_client_for_its_model_and_its_roots(seen: Seen) -> None:
    asking = seen.asking
    assert text(asking["sample"]) == "parrot (endTurn): HELLO"
    assert text(asking["refused"], is_error=True) == "the client rejected the request: not today (code -1)"
    assert text(asking["list_roots"]) == "work: file:///work"
    assert asking["roots"] == {"level": "info", "logger": "everything", "data": "roots: file:///work"}
    sampled = [request for request in asking["asked"] if "messages" in request]
    assert [request["maxTokens"] for request in sampled] == [100, 7]
    assert sampled[0]["systemPrompt"] == "Be brief." and sampled[0]["stopSequences"] == ["END"]


def test_tools_ask_the_user(seen: Seen) -> None:
    asking, requests = seen.asking, [request for request in seen.asking["asked"] if "messages" not in request]
    if not seen.has("elicit_name"):
        assert code(asking["elicit_name"]) == INVALID_PARAMS and not requests
        return
    assert text(asking["elicit_name"]) == "accept: age=36, name=Ada, news=True, size=m"
    fields = requests[0]["requestedSchema"]["properties"]
    assert ("topics" in fields) is (seen.revision >= "2025-11-25")
    if not seen.has("visit_page"):
        return
    assert code(asking["locked"]) == -32042
    [page] = asking["locked"]["error"]["data"]["elicitations"]
    assert requests[1]["url"] == page["url"] == "https://example.com/terms"
    assert text(asking["visit_page"]) == "thank you" and text(asking["unlocked"]) == "open"
    [done] = messages(seen.resources["left"], "notifications/elicitation/complete")
    assert done["params"]["elicitationId"] == page["elicitationId"]


def test_resources_are_read_and_an_unknown_one_is_an_error(seen: Seen) -> None:
    read = seen.resources
    assert read["demo://text"]["contents"] == [{"uri": "demo://text", "mimeType": "text/plain", "text": "héllo"}]
    assert base64.b64decode(read["demo://image"]["contents"][0]["blob"]).startswith(b"\x89PNG")
    assert read["demo://number/7"]["contents"][0]["text"] == "This is number 7."
    assert code(read["demo://nothing"]) == code(read["no note"]) == NOT_FOUND
    assert read["demo://nothing"]["error"]["data"] == {"uri": "demo://nothing"}


def test_who_subscribes_is_told_of_changes_until_unsubscribing(seen: Seen) -> None:
    assert seen.resources["subscribe"] == seen.resources["unsubscribe"] == {}
    assert seen.resources["updated"] == {"uri": "note://milk"}
    assert seen.resources["note"]["contents"][0]["text"] == "two"
    assert not messages(seen.resources["left"], "notifications/resources/updated")


def test_prompts_are_filled_in(seen: Seen) -> None:
    prompts = seen.prompts
    assert prompts["simple"]["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Say something nice."}}
    ]
    assert prompts["describe"]["messages"][0]["content"]["text"] == "Describe Rome in a long text."
    assert prompts["with_resource"]["messages"][1]["content"]["resource"]["text"] == "héllo"
    assert prompts["with_image"]["messages"][1]["content"]["mimeType"] == "image/png"
    assert code(prompts["missing"]) == code(prompts["nonsense"]) == INVALID_PARAMS


def test_arguments_are_completed_with_at_most_a_hundred_values(seen: Seen) -> None:
    completions = {name: result["completion"] for name, result in seen.completion.items() if "completion" in result}
    assert completions["city"] == {"values": ["Paris", "Pau", "Padua"], "total": 3, "hasMore": False}
    # Before 2025-06-18 there is no context, and what is not a context narrows nothing down.
    narrowed = ["Paris", "Pau"] if seen.revision >= "2025-06-18" else ["Paris", "Pau", "Padua"]
    assert completions["city in France"]["values"] == narrowed
    assert len(completions["number"]["values"]) == 100
    assert (completions["number"]["total"], completions["number"]["hasMore"]) == (1000, True)
    assert len(completions["few numbers"]["values"]) == 11 and completions["few numbers"]["hasMore"] is False
    assert code(seen.completion["nonsense"]) == INVALID_PARAMS


def test_a_tool_lets_tools_and_prompts_come_and_go(seen: Seen) -> None:
    assert text(seen.changes["here"]) == "here" and text(seen.changes["gone"]) == "gone"
    assert text(seen.changes["extra"]) == "I am only here for a while."
    assert seen.changes["prompt"]["messages"]
    assert code(seen.changes["no extra"]) == INVALID_PARAMS


def test_a_level_keeps_lesser_log_messages_away(seen: Seen) -> None:
    assert seen.logging["set"] == {}
    assert seen.logging["first"] == {"level": "error", "logger": "everything", "data": {"text": "an error"}}
    assert not messages(seen.logging["left"], "notifications/message")


def test_progress_reaches_the_callback(seen: Seen) -> None:
    expected = [None] * 3 if seen.revision == "2024-11-05" else ["step 1", "step 2", "done"]
    assert seen.progress["seen"] == [[step, 2, words] for step, words in enumerate(expected)]
    assert text(seen.progress["result"]) == "2 steps in 0.1 s"


def test_a_cancelled_call_is_cancelled_in_the_server(seen: Seen) -> None:
    [status] = seen.cancellation["contents"]
    assert json.loads(status["text"])["cancelled"] == 1


def test_a_tool_runs_as_a_task(tmp_path_factory: pytest.TempPathFactory) -> None:
    seen = story("mcp==1.30.0", "stdio", "2025-11-25", tmp_path_factory)  # The other version of the SDK has no tasks.
    tasks = seen.tasks
    assert tasks["made"]["status"] == "working" and tasks["after"]["status"] == "completed"
    assert text(tasks["result"]) == "2 steps in 0.1 s"
    assert tasks["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"] == tasks["made"]["taskId"]
    assert tasks["cancelled"]["status"] == "cancelled"
    assert [task["status"] for task in tasks["listed"]["tasks"]] == ["completed", "cancelled"]
    assert code(tasks["forbidden"]) == -32601 and code(tasks["unknown"]) == INVALID_PARAMS
    notifications = messages(seen.logging["left"], "notifications/tasks/status")
    assert [notification["params"]["status"] for notification in notifications] == ["completed", "cancelled"]
