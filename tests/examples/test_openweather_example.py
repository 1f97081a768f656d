"""The OpenWeather example as a child process, asked by our client, before a weather service on this machine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from support.fake_weather import Answer, FakeWeather, as_json, serving
from support.project import ROOT

from mcp_generated.v2025_11_25 import Client
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import RemoteJSONRPCError
from mcp_runtime.session.requests import RequestOptions

SERVER = [sys.executable, str(ROOT / "examples" / "openweather" / "server.py")]
KEY = "k3y"


def report(temperature: float, **more: Any) -> dict[str, Any]:
    main = {"temp": temperature, "humidity": 65}
    return {"main": main, "weather": [{"description": "scattered clouds"}], "wind": {"speed": 3.6}, **more}


class Asking(Client):
    """A client with a model, which hears log messages."""

    log: list[str]
    prompts: list[str]

    async def on_create_message(self, ctx: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        self.prompts.append(str(params.messages[0].content))
        return t.CreateMessageResult(role="assistant", model="m", content=t.TextContent(text="Clouds."))

    async def on_logging_message(self, ctx: Any, params: t.LoggingMessageNotificationParams) -> None:
        self.log.append(str(params.data))


def answers(fake: FakeWeather) -> None:
    def path(what: str, city: str, count: str = "") -> str:
        return f"/{what}?q={city}{count}&appid={KEY}&units=metric"

    reports = [report(10 + number, dt_txt=f"2030-01-0{1 + number // 8} 00:00:00") for number in range(16)]
    fake.answers = {
        path("weather", "London"): as_json(report(20.5)),
        path("weather", "S%C3%A3o+Paulo"): as_json(report(30)),
        path("weather", "Oddville"): as_json({"main": {}}),
        path("weather", "Locked"): Answer(b"{}", 401),
        path("forecast", "London", "&cnt=8"): as_json({"list": reports[:8]}),
        path("forecast", "London", "&cnt=16"): as_json({"list": reports}),
        path("forecast", "London", "&cnt=24"): as_json({"list": reports}),
    }


async def conversation(fake: FakeWeather) -> None:
    client = Asking.stdio(*SERVER, env={"OPENWEATHER_API_KEY": KEY, "OPENWEATHER_API": fake.url})
    client.log = []
    client.prompts = []
    async with client:
        await resources(client)
        seen: list[tuple[float, float | None]] = []
        options = RequestOptions(on_progress=lambda update: seen.append((update.progress, update.total)))
        arguments = {"city": "London", "days": 2, "summary": True}
        result = await client.call_tool(name="get_forecast", arguments=arguments, options=options)
        assert isinstance(result, t.CallToolResult)
        forecast, summary = (block.text for block in result.content if isinstance(block, t.TextContent))
        days = json.loads(forecast)
        assert [(day["date"], day["temperature"]) for day in days] == [("2030-01-01", 10), ("2030-01-02", 18)]
        assert summary == "Clouds." and "scattered clouds" in client.prompts[0]
        assert seen == [(1, 2), (2, 2)]
        await client.set_level(level="error")
        late = await client.call_tool(name="get_forecast", arguments={"city": "London", "days": 3})
        assert isinstance(late, t.CallToolResult) and late.is_error and "day 3" in str(late.content)
        assert client.log == []
        await client.set_level(level="debug")
        none = await client.call_tool(name="get_forecast", arguments={"city": "Nowhere"})
        assert isinstance(none, t.CallToolResult) and none.is_error and KEY not in str(none.content)
        assert client.log == ["The weather service does not know 'Nowhere'."]
        for wrong in ({}, {"city": "London", "days": "2"}, {"city": "London", "days": 6}, {"city": "", "x": 1}):
            with pytest.raises(RemoteJSONRPCError) as refused:
                await client.call_tool(name="get_forecast", arguments=wrong)
            assert refused.value.code == -32602


async def resources(client: Client) -> None:
    assert [resource.name async for resource in client.iter_resources()] == ["Current weather in London"]
    assert [template.uri_template async for template in client.iter_resource_templates()] == [
        "weather://{city}/current"
    ]
    for uri, temperature in (("weather://London/current", 20.5), ("weather://S%C3%A3o%20Paulo/current", 30)):
        [content] = (await client.read_resource(uri=uri)).contents
        assert isinstance(content, t.TextResourceContents)
        assert json.loads(content.text)["temperature"] == temperature
    for city in ("Nowhere", "Oddville", "Locked", "a/b"):
        with pytest.raises(RemoteJSONRPCError) as refused:
            await client.read_resource(uri=f"weather://{city}/current")
        assert refused.value.code == -32002 and KEY not in str(refused.value)


@pytest.mark.long
def test_openweather_has_resources_a_template_progress_sampling_and_levels() -> None:
    with serving() as fake:
        answers(fake)
        asyncio.run(asyncio.wait_for(conversation(fake), 60))
        assert {parse_qs(urlsplit(path).query)["appid"][0] for path, _ in fake.requests} == {KEY}


@pytest.mark.long
def test_openweather_says_what_it_lacks() -> None:
    ended = subprocess.run(SERVER, env={}, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert ended.returncode == 1 and ended.stderr.strip() == "openweather: OPENWEATHER_API_KEY is not set"
