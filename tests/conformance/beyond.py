"""A conversation with the everything example goes in, and is checked for what the official suite does not look at.

Each function is a scenario; `SCENARIOS` says from which revision on it is one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from conformance.wires import Wire

INVALID_PARAMS: Final = -32602
VISIT_FIRST: Final = -32042

CAPABILITIES: Final = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}},
    "elicitation": {"form": {}, "url": {}},
}


def sample(params: Any) -> Any:
    """Use a tool if there is one and it was not used yet; else say what came in."""
    content = params["messages"][-1]["content"]
    said: dict[str, Any] = {"role": "assistant", "model": "harness", "stopReason": "endTurn"}
    if "tools" not in params:
        return {**said, "content": {"type": "text", "text": content["text"].upper()}}
    if isinstance(content, list):
        text = ", ".join(f"{block['toolUseId']}: {block['content'][0]['text']}" for block in content)
        return {**said, "content": {"type": "text", "text": text}}
    words = content["text"].split()
    uses = [{"type": "tool_use", "id": word, "name": "count_letters", "input": {"word": word}} for word in words]
    return {**said, "stopReason": "toolUse", "content": uses}


def elicit(params: Any) -> Any:
    if params.get("mode") == "url":
        return {"action": "accept"}
    return {"action": "accept", "content": {"name": "Ada", "age": 36, "news": True, "size": "m"}}


ANSWERS: Final = {
    "roots/list": lambda params: {"roots": [{"uri": "file:///work", "name": "work"}]},
    "sampling/createMessage": sample,
    "elicitation/create": elicit,
    "ping": lambda params: {},
}


def text(result: Any) -> str:
    return str(result["content"][0]["text"])


# ---- scenarios ------------------------------------------------------------------------------------------------------


async def every_item_is_on_one_page(wire: Wire) -> None:
    kinds = {
        "tools": "tools",
        "resources": "resources",
        "resources/templates": "resourceTemplates",
        "prompts": "prompts",
    }
    for method, items in kinds.items():
        names: list[str] = []
        pages = 0
        page: Any = await wire.ask(f"{method}/list")
        while True:
            pages += 1
            names += [each.get("uri", each["name"]) for each in page[items]]
            if "nextCursor" not in page:
                break
            page = await wire.ask(f"{method}/list", {"cursor": page["nextCursor"]})
        assert len(names) == len(set(names)) > 1
        assert pages > 1 or items == "resourceTemplates"
        assert (await wire.ask(f"{method}/list", {"cursor": "nonsense"}))["error"]["code"] == INVALID_PARAMS


async def an_unknown_tool_is_an_error_of_the_protocol(wire: Wire) -> None:
    assert (await wire.call("nonsense"))["error"]["code"] == INVALID_PARAMS


async def progress_and_log_come_before_the_result(wire: Wire) -> None:
    assert await wire.ask("logging/setLevel", {"level": "warning"}) == {}
    await wire.call("log_something", level="info", text="hidden")
    await wire.call("log_something", level="error", text="shown")
    assert (await wire.until("notifications/message"))["data"] == {"text": "shown"}
    meta = {"progressToken": "p"}
    asked = {"name": "long_running", "arguments": {"seconds": 0, "steps": 2}, "_meta": meta}
    await wire.ask("tools/call", asked)
    told = [each["params"] for each in wire.told if each["method"] == "notifications/progress"]
    assert [each["progress"] for each in told] == [0, 1, 2] and {each["progressToken"] for each in told} == {"p"}


async def a_cancelled_call_ends_and_is_not_answered(wire: Wire) -> None:
    before = await cancelled(wire)
    asked = wire.request(
        "tools/call",
        {"name": "long_running", "arguments": {"seconds": 60, "steps": 1}, "_meta": {"progressToken": 1}},
    )
    waiting = wire.expect(asked)
    await wire.post(asked)
    await wire.until("notifications/progress")
    await wire.tell("notifications/cancelled", {"requestId": asked["id"], "reason": "enough"})
    while await cancelled(wire) != before + 1:
        pass
    assert not waiting.done()


async def cancelled(wire: Wire) -> int:
    """How many calls the server has given up, as it says itself."""

    status = await wire.ask("resources/read", {"uri": "demo://status"})
    return int(json.loads(status["contents"][0]["text"])["cancelled"])


async def roots_are_asked_for_and_again_when_they_change(wire: Wire) -> None:
    assert text(await wire.call("list_roots")) == "work: file:///work"
    wire.answers = {**ANSWERS, "roots/list": lambda params: {"roots": [{"uri": "file:///play"}]}}
    await wire.tell("notifications/roots/list_changed")
    assert (await wire.until("notifications/message"))["data"] == "roots: file:///play"


async def the_model_is_asked(wire: Wire) -> None:
    assert text(await wire.call("sample", prompt="hello")) == "harness (endTurn): HELLO"


async def the_model_uses_tools(wire: Wire) -> None:
    assert text(await wire.call("research", question="one three")) == "one: 3, three: 5"


async def the_user_fills_in_a_form(wire: Wire) -> None:
    assert text(await wire.call("elicit_name")) == "accept: age=36, name=Ada, news=True, size=m"


async def the_user_visits_a_page(wire: Wire) -> None:
    refused = (await wire.call("locked"))["error"]
    [asked] = refused["data"]["elicitations"]
    assert refused["code"] == VISIT_FIRST and asked["mode"] == "url"
    assert text(await wire.call("visit_page")) == "thank you"
    assert (await wire.until("notifications/elicitation/complete"))["elicitationId"] == asked["elicitationId"]
    assert text(await wire.call("locked")) == "open"


async def who_watches_a_resource_hears_of_it_and_nobody_else(wire: Wire) -> None:
    note = {"uri": "note://milk"}
    await wire.call("write_note", name="milk", text="one")
    assert await wire.ask("resources/subscribe", note) == {}
    await wire.call("write_note", name="milk", text="two")
    assert await wire.until("notifications/resources/updated") == note
    assert (await wire.ask("resources/read", note))["contents"][0]["text"] == "two"
    assert await wire.ask("resources/unsubscribe", note) == {}
    await wire.call("write_note", name="milk", text="three")
    assert await wire.ask("ping") == {}
    assert not [told for told in wire.told if told["method"] == "notifications/resources/updated"]


async def completion_knows_what_was_chosen_before(wire: Wire) -> None:
    ref = {"type": "ref/prompt", "name": "describe"}
    found = await wire.ask("completion/complete", {"ref": ref, "argument": {"name": "city", "value": "pa"}})
    assert found["completion"]["values"] == ["Paris", "Pau", "Padua"] and found["completion"]["total"] == 3
    if wire.rev.id >= "2025-06-18":
        asked = {
            "ref": ref,
            "argument": {"name": "city", "value": "pa"},
            "context": {"arguments": {"country": "Italy"}},
        }
        assert (await wire.ask("completion/complete", asked))["completion"]["values"] == ["Padua"]


async def lists_that_change_are_told_of(wire: Wire) -> None:
    for here in ("here", "gone"):
        assert text(await wire.call("toggle_extra")) == here
        await wire.until("notifications/tools/list_changed")
        await wire.until("notifications/prompts/list_changed")


async def structured_content_fits_its_schema(wire: Wire) -> None:
    result = await wire.call("statistics", numbers=[1, 2.5])
    assert result["structuredContent"] == {"count": 2, "sum": 3.5, "maximum": 2.5}


async def a_batch_is_answered_as_one_or_refused(wire: Wire) -> None:
    asked = [wire.request("ping"), wire.request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})]
    if wire.rev.revision.batches:
        waiting = [wire.expect(each) for each in asked]
        await wire.post(
            [*asked, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "no"}}]
        )
        pong, echo = [await wire.answer(each) for each in waiting]
        assert pong == {} and text(echo) == "hi"
    else:
        refused = wire.expect({"id": None, "method": "ping"})
        await wire.post(asked)
        assert (await wire.answer(refused))["error"]["code"] == -32600
    assert await wire.ask("ping") == {}


async def a_call_runs_as_a_task(wire: Wire) -> None:
    asked = {"name": "long_running", "arguments": {"seconds": 0, "steps": 1}, "task": {"ttl": 60_000}}
    task = (await wire.ask("tools/call", asked))["task"]
    name = {"taskId": task["taskId"]}
    result = await wire.ask("tasks/result", name)
    assert text(result) == "1 steps in 0 s"
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == name
    assert (await wire.ask("tasks/get", name))["status"] == "completed"
    slow = (await wire.ask("tools/call", {**asked, "arguments": {"seconds": 60, "steps": 1}}))["task"]
    assert (await wire.ask("tasks/cancel", {"taskId": slow["taskId"]}))["status"] == "cancelled"
    listed = {each["taskId"]: each["status"] for each in (await wire.ask("tasks/list"))["tasks"]}
    assert listed[task["taskId"]] == "completed" and listed[slow["taskId"]] == "cancelled"


async def answers_to_many_at_once_go_to_whom_they_are_for(wire: Wire) -> None:
    said = await asyncio.gather(*(wire.call("echo", text=str(number)) for number in range(20)))
    assert [text(each) for each in said] == [str(number) for number in range(20)]


SCENARIOS: Final[Mapping[Callable[[Wire], Awaitable[None]], str]] = {
    every_item_is_on_one_page: "2024-11-05",
    an_unknown_tool_is_an_error_of_the_protocol: "2024-11-05",
    progress_and_log_come_before_the_result: "2024-11-05",
    a_cancelled_call_ends_and_is_not_answered: "2024-11-05",
    roots_are_asked_for_and_again_when_they_change: "2024-11-05",
    the_model_is_asked: "2024-11-05",
    the_model_uses_tools: "2025-11-25",
    the_user_fills_in_a_form: "2025-06-18",
    the_user_visits_a_page: "2025-11-25",
    who_watches_a_resource_hears_of_it_and_nobody_else: "2024-11-05",
    completion_knows_what_was_chosen_before: "2024-11-05",
    lists_that_change_are_told_of: "2024-11-05",
    structured_content_fits_its_schema: "2025-06-18",
    a_batch_is_answered_as_one_or_refused: "2024-11-05",
    a_call_runs_as_a_task: "2025-11-25",
    answers_to_many_at_once_go_to_whom_they_are_for: "2024-11-05",
}


# ---- the server of the suite --------------------------------------------------------------------------------------------

_ARGUMENTS: Final[Mapping[str, Any]] = {
    "prompt": "hello",
    "message": "Who are you?",
    "region": "eu",
    "contactMethod": "phone",
    "phone": "1",
    "name": "Ada",
}
_ASKING: Final = ("elicit", "sampling", "input_required", "missing_capability", "confirm", "multi_input", "with_task")
_FAILING: Final = ("test_error_handling", "failing_job", "protocol_error_job")


async def all_that_the_suite_asks_for_is_there(wire: Wire) -> None:
    """Call every tool, read every resource, get every prompt, but for those that ask the client first."""
    for tool in (await wire.ask("tools/list"))["tools"]:
        if any(part in tool["name"] for part in _ASKING) or tool["name"] == "test_reconnection":
            continue
        fields = tool["inputSchema"].get("properties", {})
        given = {name: value for name, value in _ARGUMENTS.items() if name in fields}
        result = await wire.call(tool["name"], **({} if "region" in given else given))
        failed = "error" in result or result.get("isError", False)
        assert failed is (tool["name"] in _FAILING), (tool["name"], result)
    listed = (await wire.ask("resources/list"))["resources"]
    for uri in (*(each["uri"] for each in listed), "test://template/1/data"):
        assert (await wire.ask("resources/read", {"uri": uri}))["contents"][0]["uri"] == uri
    for prompt in (await wire.ask("prompts/list"))["prompts"]:
        given = {each["name"]: "test://x" for each in prompt.get("arguments", [])}
        if "input_required" not in prompt["name"]:
            assert (await wire.ask("prompts/get", {"name": prompt["name"], "arguments": given}))["messages"]
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    asked = {"ref": ref, "argument": {"name": "arg1", "value": "test"}}
    assert (await wire.ask("completion/complete", asked))["completion"]["values"] == ["test", "testing"]
