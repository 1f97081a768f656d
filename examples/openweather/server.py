"""OpenWeather as a server of low-level handlers: resources, a template, a tool with progress, and the client's own model.

Run it: `OPENWEATHER_API_KEY=… python examples/openweather/server.py`.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Final
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from service import OpenWeather, Unavailable

from mcp_generated.v2025_11_25 import Context, Server
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import RemoteJSONRPCError, JSONRPCError

INVALID_PARAMS: Final = -32602
NOT_FOUND: Final = -32002
CITY: Final = "London"
_URI: Final = re.compile(r"weather://([^/?#]{1,300})/current")


class Wanted(BaseModel):
    """The arguments of get_forecast: where, for how many days, and whether the client's model is to sum it up."""

    model_config = ConfigDict(extra="forbid", strict=True)

    city: str = Field(min_length=1, max_length=100)
    days: int = Field(default=3, ge=1, le=5)
    summary: bool = False


class Weather(Server):
    """Asks the service. What goes wrong there is a result that a model can read, with `isError`."""

    def __init__(self, service: OpenWeather) -> None:
        super().__init__(name="openweather", version="1.0", capabilities={"logging": {}})
        self._service = service

    async def list_resources(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListResourcesResult:
        here = t.Resource(
            uri=f"weather://{CITY}/current", name=f"Current weather in {CITY}", mime_type="application/json"
        )
        return t.ListResourcesResult(resources=[here])

    async def list_resource_templates(
        self, ctx: Context, params: t.PaginatedRequestParams
    ) -> t.ListResourceTemplatesResult:
        anywhere = t.ResourceTemplate(
            uri_template="weather://{city}/current",
            name="Current weather for any city",
            mime_type="application/json",
        )
        return t.ListResourceTemplatesResult(resource_templates=[anywhere])

    async def read_resource(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        found = _URI.fullmatch(params.uri)
        if found is None:
            raise JSONRPCError(NOT_FOUND, "there is no such resource", {"uri": params.uri})
        try:
            weather = await self._service.current(unquote(found[1]))
        except Unavailable as fault:
            raise JSONRPCError(NOT_FOUND, str(fault), {"uri": params.uri}) from None
        said = t.TextResourceContents(uri=params.uri, mime_type="application/json", text=json.dumps(weather))
        return t.ReadResourceResult(contents=[said])

    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        schema = t.ToolInputSchema.model_validate(Wanted.model_json_schema())
        about = "Weather forecast for a city, a day at a time; `summary` has the client's model sum it up."
        hints = t.ToolAnnotations(read_only_hint=True, open_world_hint=True)
        tool = t.Tool(name="get_forecast", description=about, input_schema=schema, annotations=hints)
        return t.ListToolsResult(tools=[tool])

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name != "get_forecast":
            raise JSONRPCError(INVALID_PARAMS, f"there is no tool {params.name!r}")
        try:
            wanted = Wanted.model_validate(params.arguments or {})
            days: list[dict[str, Any]] = []
            for number in range(wanted.days):
                days.append(await self._service.day(wanted.city, number))
                await ctx.progress(number + 1, wanted.days, f"day {number + 1}")
            text = json.dumps(days)
            blocks = [text, await _summary(ctx, text)] if wanted.summary else [text]
        except ValidationError as fault:
            first = fault.errors(include_input=False)[0]
            raise JSONRPCError(INVALID_PARAMS, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except Unavailable as fault:
            await ctx.log("warning", str(fault), "openweather")
            return t.CallToolResult(content=[t.TextContent(text=str(fault))], is_error=True)
        return t.CallToolResult(content=[t.TextContent(text=each) for each in blocks])

    async def set_level(self, ctx: Context, params: t.SetLevelRequestParams) -> t.EmptyResult:
        return t.EmptyResult()  # The runtime keeps the level, and `ctx.log` sends what it lets through.


async def _summary(ctx: Context, forecast: str) -> str:
    """What the client's model makes of it; whether it is asked at all is for the client and its user to say."""
    if "sampling" not in ctx.capabilities:
        return "This client has no model to sum it up."
    asked = t.SamplingMessage(role="user", content=t.TextContent(text=f"Sum up this forecast: {forecast}"))
    try:
        answer = await ctx.create_message(messages=[asked], max_tokens=200)
    except RemoteJSONRPCError:
        return "The client did not sum it up."
    blocks = answer.content if isinstance(answer.content, list) else [answer.content]
    return " ".join(each.text for each in blocks if isinstance(each, t.TextContent))


if __name__ == "__main__":
    try:
        service = OpenWeather.configured()
    except ValueError as fault:
        sys.exit(f"openweather: {fault}")
    Weather(service).run("stdio")
