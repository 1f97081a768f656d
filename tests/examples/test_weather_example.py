"""The weather example as a child process, asked by our clients, before a weather service that is at times broken."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.checkers import mypy, pyright
from support.fake_weather import Answer, FakeWeather, alert, as_json, period, serving
from support.project import ROOT

from mcp_generated.v2025_03_26 import Client, SyncClient
from mcp_generated.v2025_03_26 import types as t
from mcp_runtime.errors import RemoteJSONRPCError

EXAMPLE = ROOT / "examples" / "weather"
COMMAND = [sys.executable, str(EXAMPLE / "server.py"), "stdio"]
DEADLINE = 20.0
ALERTS, POINT, FORECAST = "/alerts/active/area/CA", "/points/38.58,-121.49", "/gridpoints/STO/41,67/forecast"
SACRAMENTO = {"latitude": 38.58, "longitude": -121.49}


@pytest.fixture
def weather() -> Iterator[FakeWeather]:
    with serving() as fake:
        yield fake


def environment(url: str, timeout: str = "5") -> dict[str, str]:
    return {"WEATHER_API": url, "WEATHER_USER_AGENT": "tests/1", "WEATHER_TIMEOUT": timeout}


def within_deadline(conversation: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(conversation, DEADLINE))


def call(url: str, tool: str, timeout: str = "5", **arguments: Any) -> t.CallToolResult:
    """The result of one call in a conversation of its own."""

    async def conversation() -> t.CallToolResult:
        async with Client.stdio(*COMMAND, env=environment(url, timeout)) as client:
            return await client.call_tool(name=tool, arguments=arguments)

    result = within_deadline(conversation())
    assert isinstance(result, t.CallToolResult)
    return result


def text(result: t.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, t.TextContent)
    return content.text


def failure(result: t.CallToolResult) -> str:
    assert result.is_error is True
    return text(result)


def test_it_lists_two_tools_whose_arguments_are_described() -> None:
    async def conversation() -> None:
        async with Client.stdio(*COMMAND) as client:
            assert isinstance(client.server, t.InitializeResult)
            assert client.server.protocol_version == "2025-03-26"
            assert client.server.server_info.name == "weather"
            tools = {tool.name: tool async for tool in client.iter_tools()}
        assert {name: tool.input_schema.required for name, tool in tools.items()} == {
            "get_alerts": ["state"],
            "get_forecast": ["latitude", "longitude"],
        }
        for tool in tools.values():
            assert tool.description and tool.annotations and tool.annotations.read_only_hint
            assert all(
                property["type"] and property["description"]
                for property in (tool.input_schema.properties or {}).values()
            )

    within_deadline(conversation())


def test_alerts_are_told_with_what_to_do(weather: FakeWeather) -> None:
    result = call(weather.url, "get_alerts", state="ca")
    assert not result.is_error
    assert text(result) == (
        "Event: Flood Warning\nArea: Sacramento\nSeverity: Severe\nDescription: Much rain.\n"
        "Instructions: Stay away from the river.\n---\n"
        "Event: Wind Advisory\nArea: Sacramento\nSeverity: Severe\nDescription: Much rain.\n"
        "Instructions: none given"
    )
    assert weather.requests == [(ALERTS, "tests/1")]


@pytest.mark.long
def test_a_quiet_state_has_no_alerts(weather: FakeWeather) -> None:
    assert text(call(weather.url, "get_alerts", state="NV")) == "No active alerts for NV."


@pytest.mark.long
def test_a_forecast_is_that_of_the_next_five_periods(weather: FakeWeather) -> None:
    # More decimals than the service takes are left out.
    result = call(weather.url, "get_forecast", latitude=38.58000001, longitude=-121.49)
    assert not result.is_error
    assert text(result).split("\n---\n") == [
        f"Period {n}:\nTemperature: {50 + n}°F\nWind: 5 mph SW\nForecast: Mostly clear." for n in range(1, 6)
    ]
    assert [path for path, _ in weather.requests] == [POINT, FORECAST]


@pytest.mark.long
def test_the_synchronous_client_gets_the_same(weather: FakeWeather) -> None:
    with SyncClient.stdio(*COMMAND, env=environment(weather.url)) as client:
        assert [tool.name for tool in client.iter_tools()] == ["get_alerts", "get_forecast"]
        assert text(client.call_tool(name="get_alerts", arguments={"state": "NV"})) == "No active alerts for NV."
        assert text(client.call_tool(name="get_forecast", arguments=SACRAMENTO)).startswith("Period 1:\n")


NO_PLACES: list[tuple[str, dict[str, Any], str]] = [
    ("get_alerts", {"state": "ZZ"}, "'ZZ' is not the two-letter code of a US state"),
    ("get_alerts", {"state": "../x"}, "'../x' is not the two-letter code"),
    ("get_alerts", {"state": ""}, "'' is not the two-letter code"),
    ("get_forecast", {"latitude": 90.5, "longitude": 0}, "Latitude goes from -90 to 90"),
    ("get_forecast", {"latitude": 0, "longitude": -181}, "longitude from -180 to 180"),
    ("get_forecast", {"latitude": 10**400, "longitude": 0}, "Latitude goes from -90 to 90"),
    ("get_forecast", {"latitude": 48.86, "longitude": 2.35}, "no forecast for 48.86,2.35: the service covers the"),
]


@pytest.mark.long
def test_a_place_that_is_none_is_a_result_that_says_so(weather: FakeWeather) -> None:
    async def conversation() -> None:
        async with Client.stdio(*COMMAND, env=environment(weather.url)) as client:
            for tool, arguments, message in NO_PLACES:
                assert message in failure(await client.call_tool(name=tool, arguments=arguments))

    within_deadline(conversation())
    assert all(path.startswith("/points/48.86") for path, _ in weather.requests)


NONSENSE: list[tuple[str, Answer, str | None]] = [
    (ALERTS, Answer(b"{}", 500), "The weather service answered 500 Internal Server Error."),
    (ALERTS, Answer(b"<html>maintenance</html>"), "something that is not JSON"),
    (ALERTS, Answer(b""), "something that is not JSON"),
    (ALERTS, Answer(b"[" * 100_000), "something that is not JSON"),
    (ALERTS, as_json({"features": [alert("\ud800")]}), "something that is not JSON"),
    (ALERTS, as_json([]), "has an unexpected form: all of it: "),
    (ALERTS, as_json({"title": "hello"}), "has an unexpected form: features: Field required"),
    (ALERTS, as_json({"features": [{}]}), "has an unexpected form: features.0.properties: Field required"),
    (ALERTS, as_json({"features": [alert(None)]}), "features.0.properties.event: Input should be a valid string"),
    (ALERTS, Answer(b" " * (9 << 20)), "response is longer than 8388608 bytes"),
    (ALERTS, Answer(b"", 302, location="http://localhost:9/elsewhere"), "The weather service answered 302 Found."),
    (POINT, Answer(b"{}", 503), "The weather service answered 503 Service Unavailable."),
    (POINT, as_json({"properties": {}}), "has an unexpected form: properties.forecast: Field required"),
    (POINT, as_json({"properties": {"forecast": "file:///etc/hosts"}}), "refers to another origin, which is not"),
    (POINT, as_json({"properties": {"forecast": "http://[bad"}}), "refers to another origin, which is not"),
    (FORECAST, Answer(b"no"), "something that is not JSON"),
    (FORECAST, as_json({"properties": {}}), "has an unexpected form: properties.periods: Field required"),
    (
        FORECAST,
        as_json({"properties": {"periods": [period(1, windSpeed=None)]}}),
        "properties.periods.0.windSpeed: Input should be a valid string",
    ),
    (FORECAST, as_json({"properties": {"periods": []}}), None),
]


@pytest.mark.long
def test_a_service_that_answers_nonsense_is_a_result_that_says_what(weather: FakeWeather) -> None:
    async def conversation() -> None:
        async with Client.stdio(*COMMAND, env=environment(weather.url)) as client:
            for path, answer, message in NONSENSE:
                weather.reset_answers()
                weather.answers[path] = answer
                tool, arguments = ("get_alerts", {"state": "CA"}) if path == ALERTS else ("get_forecast", SACRAMENTO)
                result = await client.call_tool(name=tool, arguments=arguments)
                if message is None:
                    nothing = "There is no forecast for 38.58,-121.49 at the moment."
                    assert text(result) == nothing and not result.is_error
                else:
                    assert message in failure(result)

    within_deadline(conversation())


@pytest.mark.long
def test_the_service_may_send_us_on_to_itself(weather: FakeWeather) -> None:
    weather.answers[ALERTS] = Answer(b"", 301, location=f"{weather.url}/alerts/active/area/NV")
    assert text(call(weather.url, "get_alerts", state="CA")) == "No active alerts for CA."


@pytest.mark.long
@pytest.mark.parametrize("answer", [Answer(b"", silent=True), Answer(b" " * 1000, dripping=True)], ids=["none", "slow"])
def test_a_service_that_takes_too_long_is_given_up_while_others_are_answered(
    weather: FakeWeather, answer: Answer
) -> None:
    weather.answers[ALERTS] = answer

    async def conversation() -> None:
        async with Client.stdio(*COMMAND, env=environment(weather.url, "1")) as client:
            slow = asyncio.create_task(client.call_tool(name="get_alerts", arguments={"state": "CA"}))
            quick = await client.call_tool(name="get_alerts", arguments={"state": "NV"})
            assert text(quick) == "No active alerts for NV."
            assert failure(await slow) == "The weather service did not respond within 1 s."

    within_deadline(conversation())


@pytest.mark.long
def test_a_service_that_is_not_there_is_a_result_that_says_so() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else can answer there.
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        assert "The weather service cannot be reached: " in failure(call(url, "get_alerts", state="CA"))


@pytest.mark.long
def test_a_service_that_does_not_speak_http_is_a_result_that_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def conversation() -> None:
            loop = asyncio.get_running_loop()
            listener.setblocking(False)
            env = environment(f"http://127.0.0.1:{listener.getsockname()[1]}")
            async with Client.stdio(*COMMAND, env=env) as client:
                called = asyncio.create_task(client.call_tool(name="get_alerts", arguments={"state": "CA"}))
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    await loop.sock_recv(connection, 1 << 16)
                    await loop.sock_sendall(connection, b"220 mail ready\r\n")
                assert "Talking to the weather service failed: BadStatusLine" in failure(await called)

        within_deadline(conversation())


WRONG_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("get_weather", {}, "unknown tool: 'get_weather'"),
    ("get_alerts", {}, "the argument 'state' must be a string"),
    ("get_alerts", {"state": 7}, "the argument 'state' must be a string"),
    ("get_forecast", {"latitude": 38.58}, "the argument 'longitude' must be a number"),
    ("get_forecast", {"latitude": "47.6062", "longitude": 0}, "the argument 'latitude' must be a number"),
    ("get_forecast", {"latitude": True, "longitude": 0}, "the argument 'latitude' must be a number"),
]


@pytest.mark.long
def test_a_wrong_call_is_refused() -> None:
    async def conversation() -> None:
        async with Client.stdio(*COMMAND, env=environment("http://127.0.0.1:9")) as client:
            for tool, arguments, message in WRONG_CALLS:
                with pytest.raises(RemoteJSONRPCError) as caught:
                    await client.call_tool(name=tool, arguments=arguments)
                assert (caught.value.code, caught.value.message) == (-32602, message)

    within_deadline(conversation())


@pytest.mark.long
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WEATHER_API", "file:///etc"),
        ("WEATHER_API", "weather"),
        ("WEATHER_API", "http://[x"),
        ("WEATHER_TIMEOUT", "soon"),
        ("WEATHER_TIMEOUT", "nan"),
        ("WEATHER_TIMEOUT", "0"),
        ("WEATHER_USER_AGENT", "a\r\nb: c"),
    ],
)
def test_a_wrong_setting_is_one_line_before_anything_starts(variable: str, value: str) -> None:
    env = {variable: value}
    done = subprocess.run(COMMAND, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"error: {variable} ") and done.stderr.count("\n") == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_strict_type_checkers_find_nothing(check: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("__pycache__", "__main__.py"))
    assert check(folder, ".") == []
