"""Conversations with a server of the newest revision: they check what the official suite leaves out.

`OF_THE_SUITE` are scenarios for the server of the suite, `OF_THE_SMALL` for the small one.
"""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.beyond import (
    ANSWERS,
    CAPABILITIES,
    an_unknown_tool_is_an_error_of_the_protocol,
    no_item_is_on_two_pages,
    text,
)
from conformance.wires import Wire

INVALID_REQUEST: Final = -32600
MISSING: Final = -32021
META: Final = "io.modelcontextprotocol/"
CAN_ALL: Final = {"_meta": {f"{META}clientCapabilities": CAPABILITIES}}


async def versions_are_discovered(wire: Wire) -> None:
    discovered = await wire.send_request("server/discover")
    assert discovered["supportedVersions"] == [wire.rev.id]
    assert {"tools", "prompts", "resources", "completions", "logging"} <= discovered["capabilities"].keys()


async def progress_and_log_come_with_the_request_that_wants_them(wire: Wire) -> None:
    await wire.call("test_logging_tool")
    meta = {"progressToken": "p", f"{META}logLevel": "info"}
    await wire.send_request("tools/call", {"name": "test_tool_with_logging", "arguments": {}, "_meta": meta})
    await wire.send_request("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": meta})
    methods = [notification["method"] for notification in wire.notifications]
    assert methods == ["notifications/message"] * 3 + ["notifications/progress"] * 3


async def a_subscription_gets_what_it_requested(wire: Wire) -> None:
    watched = "test://watched-resource"
    params = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [watched]}}
    request = wire.request("subscriptions/listen", params)
    ended = wire.expect(request)
    await wire.post(request)
    assert (await wire.until("notifications/subscriptions/acknowledged"))["notifications"] == params["notifications"]
    await wire.call("test_trigger_prompt_change")
    await wire.call("test_trigger_tool_change")
    await wire.call("test_trigger_resource_update")
    changed = await wire.until("notifications/tools/list_changed")
    updated = await wire.until("notifications/resources/updated")
    assert updated["uri"] == watched
    assert {notification["_meta"][f"{META}subscriptionId"] for notification in (changed, updated)} == {request["id"]}
    assert not ended.done() and "notifications/prompts/list_changed" not in [
        notification["method"] for notification in wire.notifications
    ]


async def input_requests_are_answered_by_another_request(wire: Wire) -> None:
    tool = {"name": "test_input_required_result_multiple_inputs", "arguments": {}, **CAN_ALL}
    first = await wire.send_request("tools/call", tool)
    assert first["resultType"] == "input_required"
    answers = {
        key: ANSWERS[request["method"]](request.get("params")) for key, request in first["inputRequests"].items()
    }
    assert len(answers) == 3
    again = {**tool, "inputResponses": answers, "requestState": first["requestState"]}
    assert (await wire.send_request("tools/call", again))["resultType"] == "complete"


async def what_goes_on(wire: Wire, tool: str, **arguments: Any) -> Any:
    """The result of a call, after as many rounds as its questions take; and how many these were."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments, **CAN_ALL}
    rounds = 0
    while (result := await wire.send_request("tools/call", params)).get("resultType") == "input_required":
        rounds += 1
        questions = result["inputRequests"].items()
        answers = {key: ANSWERS[request["method"]](request.get("params")) for key, request in questions}
        params = {**params, "inputResponses": answers, "requestState": result["requestState"]}
    return result, rounds


async def the_model_uses_tools_inside_results(wire: Wire) -> None:
    result, rounds = await what_goes_on(wire, "research", question="one three")
    assert (text(result), rounds) == ("one: 3, three: 5", 2)


async def the_user_visits_a_page_inside_a_result(wire: Wire) -> None:
    result, rounds = await what_goes_on(wire, "visit_page")
    assert (text(result), rounds) == ("accept", 1)


async def a_missing_capability_is_an_error_that_names_it(wire: Wire) -> None:
    for tool, needed in (("visit_page", {"elicitation": {"url": {}}}), ("research", {"sampling": {"tools": {}}})):
        refused = (await wire.call(tool, **({"question": "?"} if tool == "research" else {})))["error"]
        assert refused["code"] == MISSING and refused["data"] == {"requiredCapabilities": needed}


async def a_cancelled_call_ends_and_is_not_answered(wire: Wire) -> None:
    before = await cancelled(wire)
    request = wire.request("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}})
    waiting = wire.expect(request)
    await wire.post(request)
    await wire.until("notifications/progress")
    await wire.give_up(request)
    while await cancelled(wire) != before + 1:
        pass
    assert not waiting.done()


async def cancelled(wire: Wire) -> int:
    """How many calls the server has given up, as it says itself."""
    status = await wire.send_request("resources/read", {"uri": "small://status"})
    return int(json.loads(status["contents"][0]["text"])["cancelled"])


async def a_batch_is_refused(wire: Wire) -> None:
    refused = wire.expect({"id": None, "method": "tools/list"})
    await wire.post([wire.request("tools/list"), wire.request("prompts/list")])
    assert (await wire.answer(refused))["error"]["code"] == INVALID_REQUEST
    assert (await wire.send_request("tools/list"))["tools"]


OF_THE_SUITE: Final = (
    an_unknown_tool_is_an_error_of_the_protocol,
    versions_are_discovered,
    progress_and_log_come_with_the_request_that_wants_them,
    a_subscription_gets_what_it_requested,
    input_requests_are_answered_by_another_request,
    a_batch_is_refused,
)
OF_THE_SMALL: Final = (
    no_item_is_on_two_pages,
    the_model_uses_tools_inside_results,
    the_user_visits_a_page_inside_a_result,
    a_missing_capability_is_an_error_that_names_it,
    a_cancelled_call_ends_and_is_not_answered,
)
