"""The weather server of the tutorials: the tools `get_alerts` and `get_forecast`, for clients of MCP 2025-03-26.

Run it: `python examples/weather/server.py stdio`. WEATHER_API, WEATHER_USER_AGENT and WEATHER_TIMEOUT (seconds) set
the service, the name of this client, and the time limit.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from nws import Service, ServiceError

from mcp_generated import JSONRPCError
from mcp_generated.v2025_03_26 import Context, Server
from mcp_generated.v2025_03_26 import types as t

INVALID_PARAMS: Final = -32602

_STATE: Final = {
    "type": "string",
    "minLength": 2,
    "maxLength": 2,
    "description": "Two-letter code of a US state or territory, such as CA or NY.",
}


def _degrees(of: str, limit: int) -> dict[str, Any]:
    return {"type": "number", "minimum": -limit, "maximum": limit, "description": f"{of} of the place, in degrees."}


def _tool(name: str, description: str, **arguments: dict[str, Any]) -> t.Tool:
    return t.Tool(
        name=name,
        description=description,
        input_schema=t.ToolInputSchema(properties=arguments, required=list(arguments)),
        annotations=t.ToolAnnotations(read_only_hint=True, open_world_hint=True),
    )


class Weather(Server):
    """A server that calls the weather service. Errors of the service become results with `isError`, for the model."""

    def __init__(self, service: Service) -> None:
        super().__init__(name="weather", version="1.0", instructions="Weather of the United States.")
        self._service = service

    async def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        point = {"latitude": _degrees("Latitude", 90), "longitude": _degrees("Longitude", 180)}
        return t.ListToolsResult(
            tools=[
                _tool("get_alerts", "Active weather alerts of a US state.", state=_STATE),
                _tool("get_forecast", "Weather forecast for a place in the United States.", **point),
            ]
        )

    # Not `async def`: the call of the service blocks, and a plain function runs in a worker thread.
    def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        try:
            text = self._run_tool(params.name, params.arguments or {})
        except ServiceError as error:
            return t.CallToolResult(content=[t.TextContent(text=str(error))], is_error=True)
        return t.CallToolResult(content=[t.TextContent(text=text)])

    def _run_tool(self, tool: str, arguments: dict[str, Any]) -> str:
        match tool:
            case "get_alerts":
                return self._service.alerts(_text(arguments, "state"))
            case "get_forecast":
                return self._service.forecast(_number(arguments, "latitude"), _number(arguments, "longitude"))
            case _:
                raise JSONRPCError(INVALID_PARAMS, f"unknown tool: {tool!r}")


def _text(arguments: dict[str, Any], name: str) -> str:
    match arguments.get(name):
        case str(text):
            return text
        case _:
            raise JSONRPCError(INVALID_PARAMS, f"the argument {name!r} must be a string")


def _number(arguments: dict[str, Any], name: str) -> float:
    match arguments.get(name):
        case bool():  # An integer in Python, but not in JSON.
            pass
        case int() | float() as number:
            return number
        case _:
            pass
    raise JSONRPCError(INVALID_PARAMS, f"the argument {name!r} must be a number")


def main() -> None:
    """Serve with the transport that the first argument names."""
    try:
        service = Service.configured(os.environ)
    except ValueError as error:
        sys.exit(f"error: {error}")
    server = Weather(service)
    if sys.argv[1:2] == ["http"]:
        server.run("http")
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
