"""The chatbot example in this process: a scripted model drives real servers through it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from client import Chat
from model import Call, Question, Reply, Result, Results, Rules
from servers import Launch, Toolbox, start_servers
from support.chatbot import BROKEN, ECHO, ODD_COMMAND, WEATHER, Scripted, calls, chat, launch, within_deadline
from support.fake_weather import FakeWeather, serving


@pytest.fixture
def service() -> Iterator[FakeWeather]:
    with serving() as fake:
        yield fake


async def allow(question: str) -> bool:
    return True


@pytest.fixture
def weather(service: FakeWeather) -> Launch:
    return launch(WEATHER, "weather", {"WEATHER_API": service.url})


def test_a_model_uses_tools_in_two_rounds_and_then_answers(weather: Launch) -> None:
    model = Scripted(
        calls(("get_alerts", {"state": "NV"}), ("get_alerts", {"state": "CA"}), text="Let me look."),
        calls(("get_forecast", {"latitude": 38.58, "longitude": -121.49})),
        Reply("Take an umbrella."),
    )
    code, output = chat([weather], model, "", "  what of the weather?  ", "quit", "never heard")
    assert code == 0
    assert output[2:] == [
        "Let me look.",
        '[get_alerts {"state": "NV"}]',
        '[get_alerts {"state": "CA"}]',
        '[get_forecast {"latitude": 38.58, "longitude": -121.49}]',
        "Take an umbrella.",
    ]
    [first, second, third] = model.conversations
    assert first == (Question("what of the weather?"),)
    [_question, reply, results] = second
    assert isinstance(reply, Reply) and isinstance(results, Results)
    assert [result.id for result in results.results] == ["c0", "c1"]
    assert results.results[0] == Result("c0", "No active alerts for NV.")
    assert results.results[1].text.startswith("Event: Flood Warning\n")
    assert third[:3] == second and isinstance(third[-1], Results)
    assert third[-1].results[0].text.startswith("Period 1:\n")


def test_a_model_is_told_what_the_tools_take(weather: Launch) -> None:
    model = Scripted(Reply("Hello."))
    _, output = chat([weather], model, "hello", "QUIT")
    assert output[0] == "Tools: get_alerts, get_forecast"
    tools = {tool.name: tool for tool in model.tools}
    assert tools["get_alerts"].description == "Active weather alerts of a US state."
    schema = tools["get_alerts"].input_schema
    assert (schema["type"], schema["required"]) == ("object", ["state"])


@pytest.mark.long
def test_what_goes_wrong_with_a_tool_goes_back_to_the_model(weather: Launch, service: FakeWeather) -> None:
    service.answers.clear()
    wrong = calls(
        ("get_alerts", {"state": "CA"}),  # The tool fails.
        ("get_alerts", {"state": 7}),  # The server refuses.
        ("get_rich", {}),  # There is no such tool.
    )
    model = Scripted(wrong, Reply("Sorry."))
    _, output = chat([weather], model, "alerts?")
    results = model.conversations[-1][-1]
    assert isinstance(results, Results) and all(result.failed for result in results.results)
    texts = [result.text for result in results.results]
    assert texts == [
        "The weather service answered 404 Not Found.",
        "the argument 'state' must be a string (code -32602)",
        "There is no tool called 'get_rich'.",
    ]
    assert output[-1] == "Sorry."


@pytest.mark.long
def test_tools_that_two_servers_share_carry_the_name_of_their_server(weather: Launch) -> None:
    model = Scripted(calls(("odd_one__get_alerts", {}), ("weather__get_alerts", {"state": "NV"})), Reply("Done."))
    _, output = chat([weather, launch(ODD_COMMAND)], model, "alerts?", "y")
    assert output[0] == "Tools: weather__get_alerts, get_forecast, odd_one__get_alerts, everything, die"
    assert model.conversations[-1][-1] == Results(
        (Result("c0", "odd alerts \x1b[2J"), Result("c1", "No active alerts for NV."))
    )


@pytest.mark.long
def test_servers_of_one_name_are_told_apart() -> None:
    async def conversation() -> None:
        async with AsyncExitStack() as closing:
            echo = launch(ECHO)
            servers = await start_servers([echo, echo], closing, print, show_stderr=False)
            assert [server.name for server in servers] == ["echo", "echo-2"]
            toolbox = Toolbox(servers, allow)
            assert [tool.name for tool in toolbox.tools] == ["echo__echo", "echo__slow", "echo-2__echo", "echo-2__slow"]
            assert await toolbox.run([Call("1", "echo-2__echo", {"text": "hi"})]) == [Result("1", "hi")]

    within_deadline(conversation())


@pytest.mark.long
def test_content_that_is_no_text_is_named() -> None:
    model = Scripted(calls(("everything", {})), Reply("I see."))
    chat([launch(ODD_COMMAND)], model, "look", "yes")
    assert model.conversations[-1][-1] == Results(
        (Result("c0", "[image: image/png]\n[audio: audio/wav]\ninside\n[resource: x:2]"),)
    )


@pytest.mark.long
def test_a_server_that_cannot_start_is_one_line_and_the_others_work(weather: Launch) -> None:
    launches = [launch(("/no/such/program",)), launch(BROKEN, "broken"), weather]
    code, output = chat(launches, Rules(), "alerts in NV")
    assert code == 0
    *skipped, tools, _, _, answer = output
    assert sorted(skipped) == [
        "server '/no/such/program' is left out: '/no/such/program' cannot be started: No such file or directory",
        "server 'broken' is left out: 'server/discover': the server ended with exit code 1; its standard error ended"
        " with: no database",
    ]
    assert (tools, answer) == ("Tools: get_alerts, get_forecast", "No active alerts for NV.")


def test_a_server_that_never_answers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.START_SECONDS", 0.3)
    mute = launch((sys.executable, "-c", "import sys; sys.stdin.read()"), "mute")
    code, output = chat([mute], Rules(), "alerts in NV")
    assert code == 1
    assert output == ["server 'mute' is left out: it was not ready within 0.3 s", "No server could be started."]


@pytest.mark.long
def test_a_server_that_dies_fails_its_call_and_not_the_chat(weather: Launch) -> None:
    model = Scripted(
        calls(("die", {})), Reply("It died."), calls(("die", {}), ("get_forecast", {})), Reply("It is still dead.")
    )
    code, output = chat([weather, launch(ODD_COMMAND)], model, "one", "Y", "two", "y")
    assert code == 0 and output[-1] == "It is still dead."
    last = model.conversations[-1][-1]
    assert isinstance(last, Results) and "connection is closed" in last.results[0].text
    assert last.results[1].text.startswith("the argument 'latitude'")


@pytest.mark.long
def test_what_servers_write_to_standard_error_is_shown_on_demand() -> None:
    assert any("odd is starting" in line for line in chat([launch(ODD_COMMAND, "odd")], Rules(), verbose=True)[1])
    assert not any("odd is starting" in line for line in chat([launch(ODD_COMMAND, "odd")], Rules())[1])


def test_a_model_that_never_stops_calling_is_stopped() -> None:
    async def conversation() -> None:
        output: list[str] = []
        model = Scripted(*[calls(("none", {}))] * 3, Reply("Well."))
        conversation = Chat(model, Toolbox([], allow), output.append, rounds=3)
        await conversation.answer("go on")
        assert output[-1] == "Stopped after 3 rounds of tools."
        await conversation.answer("and now?")
        assert output[-1] == "Well."
        kinds = [type(message).__name__ for message in conversation.messages]
        assert kinds == ["Question", *["Reply", "Results"] * 3, "Reply", "Question", "Reply"]

    within_deadline(conversation())


def test_a_model_that_fails_does_not_end_the_chat() -> None:
    model = Scripted(calls(("none", {})), RuntimeError("no credit"), Reply("Back again."))
    _, output = chat([launch(ECHO)], model, "one", "two")
    assert output[-2:] == ["The model failed: RuntimeError('no credit')", "Back again."]
    assert model.conversations[-1] == (Question("two"),), "the question that failed is forgotten"
