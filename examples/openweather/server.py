"""OpenWeather as a server with typed handlers: a resource, a template, a tool with progress, and sampling.

Run it: `OPENWEATHER_API_KEY=… python examples/openweather/server.py`.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Final
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from service import OpenWeather, ServiceError

from mcp_generated import JSONRPCError, RemoteJSONRPCError
from mcp_generated.v2025_11_25 import Context, Server
from mcp_generated.v2025_11_25 import types as t

INVALID_PARAMS: Final = -32602
NOT_FOUND: Final = -32002
CITY: Final = "London"
_URI: Final = re.compile(r"weather://([^/?#]{1,300})/current")


class ForecastArguments(BaseModel):
    """The arguments of get_forecast: the city, the number of days, and True for a summary by the client's model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    city: str = Field(min_length=1, max_length=100)
    days: int = Field(default=3, ge=1, le=5)
    summary: bool = False


class Weather(Server):
    """A server that calls OpenWeather. Errors of the service become results with `isError`, for the model."""

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
        match = _URI.fullmatch(params.uri)
        if match is None:
            raise JSONRPCError(NOT_FOUND, "there is no such resource", {"uri": params.uri})
        try:
            weather = await self._service.current(unquote(match[1]))
        except ServiceError as error:
            raise JSONRPCError(NOT_FOUND, str(error), {"uri": params.uri}) from None
        contents = t.TextResourceContents(uri=params.uri, mime_type="application/json", text=json.dumps(weather))
        return t.ReadResourceResult(contents=[contents])

    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        schema = t.ToolInputSchema.model_validate(ForecastArguments.model_json_schema())
        about = "Weather forecast for a city, a day at a time; `summary` has the client's model sum it up."
        hints = t.ToolAnnotations(read_only_hint=True, open_world_hint=True)
        tool = t.Tool(name="get_forecast", description=about, input_schema=schema, annotations=hints)
        return t.ListToolsResult(tools=[tool])

    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name != "get_forecast":
            raise JSONRPCError(INVALID_PARAMS, f"there is no tool {params.name!r}")
        try:
            arguments = ForecastArguments.model_validate(params.arguments or {})
            days: list[dict[str, Any]] = []
            for number in range(arguments.days):
                days.append(await self._service.day(arguments.city, number))
                await ctx.progress(number + 1, arguments.days, f"day {number + 1}")
            text = json.dumps(days)
            blocks = [text, await _summary(ctx, text)] if arguments.summary else [text]
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise JSONRPCError(INVALID_PARAMS, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except ServiceError as error:
            await ctx.log("warning", str(error), "openweather")
            return t.CallToolResult(content=[t.TextContent(text=str(error))], is_error=True)
        return t.CallToolResult(content=[t.TextContent(text=block) for block in blocks])

    async def set_level(self, ctx: Context, params: t.SetLevelRequestParams) -> t.EmptyResult:
        return t.EmptyResult()  # The runtime stores the level, and `ctx.log` applies it.


async def _summary(ctx: Context, forecast: str) -> str:
    """Return a summary by the client's model; the client and its user may decline."""
    if "sampling" not in ctx.capabilities:
        return "This client has no model to sum it up."
    message = t.SamplingMessage(role="user", content=t.TextContent(text=f"Sum up this forecast: {forecast}"))
    try:
        result = await ctx.create_message(messages=[message], max_tokens=200)
    except RemoteJSONRPCError:
        return "The client did not sum it up."
    blocks = result.content if isinstance(result.content, list) else [result.content]
    return " ".join(block.text for block in blocks if isinstance(block, t.TextContent))


if __name__ == "__main__":
    try:
        service = OpenWeather.configured()
    except ValueError as error:
        sys.exit(f"openweather: {error}")
    Weather(service).run("stdio")
