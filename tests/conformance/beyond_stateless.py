"""A conversation with a server of the newest revision goes in, and is checked for what the official suite does not look at.

`OF_THE_SUITE` are scenarios for the server of the suite, `OF_THE_SMALL` for the small one.
"""

from __future__ import annotations

import json
from typing import Any, Final

from conformance.beyond import (
    ANSWERS,
    CAPABILITIES,
    an_unknown_tool_is_an_error_of_the_protocol,
    every_item_is_on_one_page,
    text,
)
from conformance.wires import Wire

INVALID_REQUEST: Final = -32600
MISSING: Final = -32021
META: Final = "io.modelcontextprotocol/"
CAN_ALL: Final = {"_meta": {f"{META}clientCapabilities": CAPABILITIES}}


async def what_it_speaks_is_discovered(wire: Wire) -> None:
    found = await wire.ask("server/discover")
    assert found["supportedVersions"] == [wire.rev.id]
    assert {"tools", "prompts", "resources", "completions", "logging"} <= found["capabilities"].keys()


async def progress_and_log_come_with_the_request_that_wants_them(wire: Wire) -> None:
    await wire.call("test_logging_tool")
    meta = {"progressToken": "p", f"{META}logLevel": "info"}
    await wire.ask("tools/call", {"name": "test_tool_with_logging", "arguments": {}, "_meta": meta})
    await wire.ask("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": meta})
    told = [each["method"] for each in wire.told]
    assert told == ["notifications/message"] * 3 + ["notifications/progress"] * 3


async def who_listens_hears_what_was_asked_for(wire: Wire) -> None:
    watched = "test://watched-resource"
    wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [watched]}}
    asked = wire.request("subscriptions/listen", wanted)
    ended = wire.expect(asked)
    await wire.post(asked)
    assert (await wire.until("notifications/subscriptions/acknowledged"))["notifications"] == wanted["notifications"]
    await wire.call("test_trigger_prompt_change")
    await wire.call("test_trigger_tool_change")
    await wire.call("test_trigger_resource_update")
    changed = await wire.until("notifications/tools/list_changed")
    updated = await wire.until("notifications/resources/updated")
    assert updated["uri"] == watched
    assert {each["_meta"][f"{META}subscriptionId"] for each in (changed, updated)} == {asked["id"]}
    assert not ended.done() and "notifications/prompts/list_changed" not in [each["method"] for each in wire.told]


async def what_is_asked_inside_results_is_answered_by_asking_again(wire: Wire) -> None:
    tool = {"name": "test_input_required_result_multiple_inputs", "arguments": {}, **CAN_ALL}
    first = await wire.ask("tools/call", tool)
    assert first["resultType"] == "input_required"
    answers = {key: ANSWERS[each["method"]](each.get("params")) for key, each in first["inputRequests"].items()}
    assert len(answers) == 3
    again = {**tool, "inputResponses": answers, "requestState": first["requestState"]}
    assert (await wire.ask("tools/call", again))["resultType"] == "complete"


async def what_goes_on(wire: Wire, tool: str, **arguments: Any) -> Any:
    """The result of a call, after as many rounds as its questions take; and how many these were."""
    asked: dict[str, Any] = {"name": tool, "arguments": arguments, **CAN_ALL}
    rounds = 0
    while (result := await wire.ask("tools/call", asked)).get("resultType") == "input_required":
        rounds += 1
        questions = result["inputRequests"].items()
        answers = {key: ANSWERS[each["method"]](each.get("params")) for key, each in questions}
        asked = {**asked, "inputResponses": answers, "requestState": result["requestState"]}
    return result, rounds


async def the_model_uses_tools_inside_results(wire: Wire) -> None:
    result, rounds = await what_goes_on(wire, "research", question="one three")
    assert (text(result), rounds) == ("one: 3, three: 5", 2)


async def the_user_visits_a_page_inside_a_result(wire: Wire) -> None:
    result, rounds = await what_goes_on(wire, "visit_page")
    assert (text(result), rounds) == ("accept", 1)


async def who_cannot_be_asked_is_told_what_is_missing(wire: Wire) -> None:
    for tool, needed in (("visit_page", {"elicitation": {"url": {}}}), ("research", {"sampling": {"tools": {}}})):
        refused = (await wire.call(tool, **({"question": "?"} if tool == "research" else {})))["error"]
        assert refused["code"] == MISSING and refused["data"] == {"requiredCapabilities": needed}


async def a_call_that_is_given_up_ends_and_is_not_answered(wire: Wire) -> None:
    before = await given_up(wire)
    asked = wire.request("tools/call", {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}})
    waiting = wire.expect(asked)
    await wire.post(asked)
    await wire.until("notifications/progress")
    await wire.give_up(asked)
    while await given_up(wire) != before + 1:
        pass
    assert not waiting.done()


async def given_up(wire: Wire) -> int:
    """How many calls the server has given up, as it says itself."""
    status = await wire.ask("resources/read", {"uri": "small://status"})
    return int(json.loads(status["contents"][0]["text"])["cancelled"])


async def a_batch_is_refused(wire: Wire) -> None:
    refused = wire.expect({"id": None, "method": "tools/list"})
    await wire.post([wire.request("tools/list"), wire.request("prompts/list")])
    assert (await wire.answer(refused))["error"]["code"] == INVALID_REQUEST
    assert (await wire.ask("tools/list"))["tools"]


OF_THE_SUITE: Final = (
    an_unknown_tool_is_an_error_of_the_protocol,
    what_it_speaks_is_discovered,
    progress_and_log_come_with_the_request_that_wants_them,
    who_listens_hears_what_was_asked_for,
    what_is_asked_inside_results_is_answered_by_asking_again,
    a_batch_is_refused,
)
OF_THE_SMALL: Final = (
    every_item_is_on_one_page,
    the_model_uses_tools_inside_results,
    the_user_visits_a_page_inside_a_result,
    who_cannot_be_asked_is_told_what_is_missing,
    a_call_that_is_given_up_ends_and_is_not_answered,
)
