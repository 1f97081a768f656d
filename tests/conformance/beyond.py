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
    fields: dict[str, Any] = {"role": "assistant", "model": "harness", "stopReason": "endTurn"}
    if "tools" not in params:
        return {**fields, "content": {"type": "text", "text": content["text"].upper()}}
    if isinstance(content, list):
        text = ", ".join(f"{block['toolUseId']}: {block['content'][0]['text']}" for block in content)
        return {**fields, "content": {"type": "text", "text": text}}
    words = content["text"].split()
    uses = [{"type": "tool_use", "id": word, "name": "count_letters", "input": {"word": word}} for word in words]
    return {**fields, "stopReason": "toolUse", "content": uses}


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


async def no_item_is_on_two_pages(wire: Wire) -> None:
    kinds = {
        "tools": "tools",
        "resources": "resources",
        "resources/templates": "resourceTemplates",
        "prompts": "prompts",
    }
    for method, items in kinds.items():
        names: list[str] = []
        pages = 0
        page: Any = await wire.send_request(f"{method}/list")
        while True:
            pages += 1
            names += [item.get("uri", item["name"]) for item in page[items]]
            if "nextCursor" not in page:
                break
            page = await wire.send_request(f"{method}/list", {"cursor": page["nextCursor"]})
        assert len(names) == len(set(names)) > 1
        assert pages > 1 or items == "resourceTemplates"
        assert (await wire.send_request(f"{method}/list", {"cursor": "nonsense"}))["error"]["code"] == INVALID_PARAMS


async def an_unknown_tool_is_an_error_of_the_protocol(wire: Wire) -> None:
    assert (await wire.call("nonsense"))["error"]["code"] == INVALID_PARAMS


async def progress_and_log_come_before_the_result(wire: Wire) -> None:
    assert await wire.send_request("logging/setLevel", {"level": "warning"}) == {}
    await wire.call("log_something", level="info", text="hidden")
    await wire.call("log_something", level="error", text="shown")
    assert (await wire.until("notifications/message"))["data"] == {"text": "shown"}
    meta = {"progressToken": "p"}
    params = {"name": "long_running", "arguments": {"seconds": 0, "steps": 2}, "_meta": meta}
    await wire.send_request("tools/call", params)
    progress = [
        notification["params"]
        for notification in wire.notifications
        if notification["method"] == "notifications/progress"
    ]
    assert [update["progress"] for update in progress] == [0, 1, 2] and {
        update["progressToken"] for update in progress
    } == {"p"}


async def a_cancelled_call_ends_and_is_not_answered(wire: Wire) -> None:
    before = await cancelled(wire)
    request = wire.request(
        "tools/call",
        {"name": "long_running", "arguments": {"seconds": 60, "steps": 1}, "_meta": {"progressToken": 1}},
    )
    waiting = wire.expect(request)
    await wire.post(request)
    await wire.until("notifications/progress")
    await wire.notify("notifications/cancelled", {"requestId": request["id"], "reason": "enough"})
    while await cancelled(wire) != before + 1:
        pass
    assert not waiting.done()


async def cancelled(wire: Wire) -> int:
    """How many calls the server has given up, as it says itself."""

    status = await wire.send_request("resources/read", {"uri": "demo://status"})
    return int(json.loads(status["contents"][0]["text"])["cancelled"])


async def roots_are_listed_and_again_when_they_change(wire: Wire) -> None:
    assert text(await wire.call("list_roots")) == "work: file:///work"
    wire.answers = {**ANSWERS, "roots/list": lambda params: {"roots": [{"uri": "file:///play"}]}}
    await wire.notify("notifications/roots/list_changed")
    assert (await wire.until("notifications/message"))["data"] == "roots: file:///play"


async def the_model_is_sampled(wire: Wire) -> None:
    assert text(await wire.call("sample", prompt="hello")) == "harness (endTurn): HELLO"


async def the_model_uses_tools(wire: Wire) -> None:
    assert text(await wire.call("research", question="one three")) == "one: 3, three: 5"


async def the_user_fills_in_a_form(wire: Wire) -> None:
    assert text(await wire.call("elicit_name")) == "accept: age=36, name=Ada, news=True, size=m"


async def the_user_visits_a_page(wire: Wire) -> None:
    refused = (await wire.call("locked"))["error"]
    [elicitation] = refused["data"]["elicitations"]
    assert refused["code"] == VISIT_FIRST and elicitation["mode"] == "url"
    assert text(await wire.call("visit_page")) == "thank you"
    assert (await wire.until("notifications/elicitation/complete"))["elicitationId"] == elicitation["elicitationId"]
    assert text(await wire.call("locked")) == "open"


async def only_subscribers_of_a_resource_are_notified(wire: Wire) -> None:
    note = {"uri": "note://milk"}
    await wire.call("write_note", name="milk", text="one")
    assert await wire.send_request("resources/subscribe", note) == {}
    await wire.call("write_note", name="milk", text="two")
    assert await wire.until("notifications/resources/updated") == note
    assert (await wire.send_request("resources/read", note))["contents"][0]["text"] == "two"
    assert await wire.send_request("resources/unsubscribe", note) == {}
    await wire.call("write_note", name="milk", text="three")
    assert await wire.send_request("ping") == {}
    assert not [
        notification
        for notification in wire.notifications
        if notification["method"] == "notifications/resources/updated"
    ]


async def completion_knows_what_was_chosen_before(wire: Wire) -> None:
    ref = {"type": "ref/prompt", "name": "describe"}
    result = await wire.send_request("completion/complete", {"ref": ref, "argument": {"name": "city", "value": "pa"}})
    assert result["completion"]["values"] == ["Paris", "Pau", "Padua"] and result["completion"]["total"] == 3
    if wire.rev.id >= "2025-06-18":
        params = {
            "ref": ref,
            "argument": {"name": "city", "value": "pa"},
            "context": {"arguments": {"country": "Italy"}},
        }
        assert (await wire.send_request("completion/complete", params))["completion"]["values"] == ["Padua"]


async def lists_that_change_are_notified(wire: Wire) -> None:
    for here in ("here", "gone"):
        assert text(await wire.call("toggle_extra")) == here
        await wire.until("notifications/tools/list_changed")
        await wire.until("notifications/prompts/list_changed")


async def structured_content_fits_its_schema(wire: Wire) -> None:
    result = await wire.call("statistics", numbers=[1, 2.5])
    assert result["structuredContent"] == {"count": 2, "sum": 3.5, "maximum": 2.5}


async def a_batch_is_answered_as_one_or_refused(wire: Wire) -> None:
    requests = [wire.request("ping"), wire.request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})]
    if wire.rev.revision.batches:
        waiting = [wire.expect(request) for request in requests]
        await wire.post(
            [*requests, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "no"}}]
        )
        pong, echo = [await wire.answer(response) for response in waiting]
        assert pong == {} and text(echo) == "hi"
    else:
        refused = wire.expect({"id": None, "method": "ping"})
        await wire.post(requests)
        assert (await wire.answer(refused))["error"]["code"] == -32600
    assert await wire.send_request("ping") == {}


async def a_call_runs_as_a_task(wire: Wire) -> None:
    params = {"name": "long_running", "arguments": {"seconds": 0, "steps": 1}, "task": {"ttl": 60_000}}
    task = (await wire.send_request("tools/call", params))["task"]
    name = {"taskId": task["taskId"]}
    result = await wire.send_request("tasks/result", name)
    assert text(result) == "1 steps in 0 s"
    assert result["_meta"]["io.modelcontextprotocol/related-task"] == name
    assert (await wire.send_request("tasks/get", name))["status"] == "completed"
    slow = (await wire.send_request("tools/call", {**params, "arguments": {"seconds": 60, "steps": 1}}))["task"]
    assert (await wire.send_request("tasks/cancel", {"taskId": slow["taskId"]}))["status"] == "cancelled"
    listed = {item["taskId"]: item["status"] for item in (await wire.send_request("tasks/list"))["tasks"]}
    assert listed[task["taskId"]] == "completed" and listed[slow["taskId"]] == "cancelled"


async def answers_to_many_at_once_go_to_their_requests(wire: Wire) -> None:
    results = await asyncio.gather(*(wire.call("echo", text=str(number)) for number in range(20)))
    assert [text(result) for result in results] == [str(number) for number in range(20)]


SCENARIOS: Final[Mapping[Callable[[Wire], Awaitable[None]], str]] = {
    no_item_is_on_two_pages: "2024-11-05",
    an_unknown_tool_is_an_error_of_the_protocol: "2024-11-05",
    progress_and_log_come_before_the_result: "2024-11-05",
    a_cancelled_call_ends_and_is_not_answered: "2024-11-05",
    roots_are_listed_and_again_when_they_change: "2024-11-05",
    the_model_is_sampled: "2024-11-05",
    the_model_uses_tools: "2025-11-25",
    the_user_fills_in_a_form: "2025-06-18",
    the_user_visits_a_page: "2025-11-25",
    only_subscribers_of_a_resource_are_notified: "2024-11-05",
    completion_knows_what_was_chosen_before: "2024-11-05",
    lists_that_change_are_notified: "2024-11-05",
    structured_content_fits_its_schema: "2025-06-18",
    a_batch_is_answered_as_one_or_refused: "2024-11-05",
    a_call_runs_as_a_task: "2025-11-25",
    answers_to_many_at_once_go_to_their_requests: "2024-11-05",
}


# ---- the server of the suite ----------------------------------------------------------------------------------------

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


async def all_that_the_suite_requires_is_served(wire: Wire) -> None:
    """Call every tool, read every resource, get every prompt, but for those that ask the client first."""
    for tool in (await wire.send_request("tools/list"))["tools"]:
        if any(part in tool["name"] for part in _ASKING) or tool["name"] == "test_reconnection":
            continue
        fields = tool["inputSchema"].get("properties", {})
        arguments = {name: value for name, value in _ARGUMENTS.items() if name in fields}
        result = await wire.call(tool["name"], **({} if "region" in arguments else arguments))
        failed = "error" in result or result.get("isError", False)
        assert failed is (tool["name"] in _FAILING), (tool["name"], result)
    listed = (await wire.send_request("resources/list"))["resources"]
    for uri in (*(resource["uri"] for resource in listed), "test://template/1/data"):
        assert (await wire.send_request("resources/read", {"uri": uri}))["contents"][0]["uri"] == uri
    for prompt in (await wire.send_request("prompts/list"))["prompts"]:
        arguments = {argument["name"]: "test://x" for argument in prompt.get("arguments", [])}
        if "input_required" not in prompt["name"]:
            assert (await wire.send_request("prompts/get", {"name": prompt["name"], "arguments": arguments}))[
                "messages"
            ]
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    params = {"ref": ref, "argument": {"name": "arg1", "value": "test"}}
    assert (await wire.send_request("completion/complete", params))["completion"]["values"] == ["test", "testing"]
