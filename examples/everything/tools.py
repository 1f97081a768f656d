"""The table of tools, and their functions. Those that send requests to the client are in client_requests.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import client_requests
from connection_state import INVALID_PARAMS, PNG, WAV, Call, State, ToolFailedError, make
from jsonschema import Draft202012Validator
from resources import contents, link

from mcp_generated import JSONRPCError

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_LEVELS: Final = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_NAME: Final = {"type": "string", "pattern": "^[a-z]{1,20}$"}


@dataclass(frozen=True)
class Tool:
    """A tool. Its function returns a text, content blocks, or an object for the output schema.

    `properties` are the arguments, `optional` names the optional ones, `writes` is True if the tool changes something,
    and `needs` is a type that the version has to have.
    """

    name: str
    description: str
    function: Callable[[Call], Awaitable[Any]]
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    optional: tuple[str, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    needs: str = "Tool"
    writes: bool = False
    as_task: bool = False

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        required = [name for name in self.properties if name not in self.optional]
        return {"type": "object", "properties": dict(self.properties), "required": required}


# ---- functions -------------------------------------------------------------------------------------------------------


async def _echo(call: Call) -> str:
    return str(call.arguments["text"])


async def _add(call: Call) -> str:
    return str(call.arguments["a"] + call.arguments["b"])


async def _long_running(call: Call) -> str:
    """Report progress with each step; count cancellations, for `demo://status`."""
    seconds, steps = call.arguments.get("seconds", 1), call.arguments.get("steps", 5)
    try:
        for step in range(steps):
            await call.ctx.progress(step, total=steps, message=f"step {step + 1}")
            await asyncio.sleep(seconds / steps)
    except asyncio.CancelledError:
        call.state.cancelled += 1
        raise
    await call.ctx.progress(steps, total=steps, message="done")
    return f"{steps} steps in {seconds} s"


async def _log_something(call: Call) -> str:
    await call.ctx.log(call.arguments["level"], {"text": call.arguments["text"]}, "everything")
    return "logged"


async def _image(call: Call) -> list[Any]:
    return [call.t.ImageContent(data=PNG, mime_type="image/png")]


async def _audio(call: Call) -> list[Any]:
    return [call.t.AudioContent(data=WAV, mime_type="audio/wav")]


async def _embedded(call: Call) -> list[Any]:
    t = call.t
    embedded = contents(t, call.state, call.arguments["uri"])
    hints = t.Annotations(audience=["user"], priority=1)
    return [t.TextContent(text="Here it is.", annotations=hints), *(t.EmbeddedResource(resource=r) for r in embedded)]


async def _links(call: Call) -> list[Any]:
    return [link(call.t, uri) for uri in ("demo://text", "demo://image")]


async def _statistics(call: Call) -> dict[str, Any]:
    numbers = call.arguments["numbers"]
    return {"count": len(numbers), "sum": sum(numbers), "maximum": max(numbers)}


async def _fail(call: Call) -> str:
    raise ToolFailedError("This tool always fails.")


async def _write_note(call: Call) -> str:
    """Write a resource, and notify the client."""
    name, notes = call.arguments["name"], call.state.notes
    uri, is_new = f"note://{name}", name not in notes
    notes[name] = call.arguments["text"]
    if is_new:
        await call.ctx.notify_resource_list_changed()
    if uri in call.state.subscribed:
        await call.ctx.notify_resource_updated(uri=uri)
    return uri


async def _toggle_extra(call: Call) -> str:
    """Add or remove the tool and the prompt `extra`, and notify the client."""
    call.state.extra = not call.state.extra
    await call.ctx.notify_tool_list_changed()
    await call.ctx.notify_prompt_list_changed()
    return "here" if call.state.extra else "gone"


async def _extra(call: Call) -> str:
    return "I am only here for a while."


# ---- the table -------------------------------------------------------------------------------------------------------

_SUMMARY: Final = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "sum": _NUMBER, "maximum": _NUMBER},
    "required": ["count", "sum", "maximum"],
}
_STEPS: Final = {"type": "integer", "minimum": 1, "maximum": 100}
_SECONDS: Final = {"type": "number", "minimum": 0, "maximum": 60}
_NUMBERS: Final = {"type": "array", "items": _NUMBER, "minItems": 1}
_LEVEL: Final = {"type": "string", "enum": _LEVELS}
_TOKENS: Final = {"type": "integer", "minimum": 1}

TOOLS: Final = (
    Tool("echo", "Return a text.", _echo, {"text": _TEXT}),
    Tool("add", "Add two numbers.", _add, {"a": _NUMBER, "b": _NUMBER}),
    Tool(
        "long_running",
        "Run for some seconds and report progress.",
        _long_running,
        {"seconds": _SECONDS, "steps": _STEPS},
        optional=("seconds", "steps"),
        as_task=True,
    ),
    Tool("log_something", "Send a log message.", _log_something, {"level": _LEVEL, "text": _TEXT}),
    Tool("image", "Return an image.", _image),
    Tool("audio", "Return a sound.", _audio, needs="AudioContent"),
    Tool("embedded", "Return an embedded resource.", _embedded, {"uri": _TEXT}),
    Tool("links", "Return resource links.", _links, needs="ResourceLink"),
    Tool(
        "statistics",
        "Compute count, sum and maximum of numbers.",
        _statistics,
        {"numbers": _NUMBERS},
        output_schema=_SUMMARY,
        needs="ToolOutputSchema",
    ),
    Tool("fail", "Fail.", _fail),
    Tool("write_note", "Write a note.", _write_note, {"name": _NAME, "text": _TEXT}, writes=True),
    Tool("toggle_extra", "Add or remove a tool.", _toggle_extra, writes=True),
    Tool(
        "sample",
        "Ask the client's model.",
        client_requests.sample,
        {"prompt": _TEXT, "max_tokens": _TOKENS},
        optional=("max_tokens",),
    ),
    Tool(
        "research",
        "Let the client's model use a tool.",
        client_requests.research,
        {"question": _TEXT},
        needs="ToolUseContent",
    ),
    Tool("list_roots", "List the client's roots.", client_requests.list_roots),
    Tool("elicit_name", "Ask the user to fill in a form.", client_requests.elicit_name, needs="ElicitRequestParams"),
    Tool(
        "visit_page",
        "Ask the user to visit a page.",
        client_requests.visit_page,
        needs="ElicitRequestURLParams",
        writes=True,
    ),
    Tool("locked", "Require the visit of the page first.", client_requests.locked, needs="ElicitRequestURLParams"),
)
_EXTRA: Final = Tool("extra", "Exist for a while.", _extra)


def available(t: Any, state: State) -> dict[str, Tool]:
    """Return the current tools of a connection, by name."""
    tools = (*TOOLS, _EXTRA) if state.extra else TOOLS
    return {tool.name: tool for tool in tools if hasattr(t, tool.needs)}


def definition(t: Any, tool: Tool) -> Any:
    """Return the definition of a tool."""
    optional: dict[str, Any] = {}
    if hasattr(t, "ToolAnnotations"):
        optional["annotations"] = t.ToolAnnotations(read_only_hint=not tool.writes, open_world_hint=False)
    if tool.output_schema is not None:
        optional["output_schema"] = t.ToolOutputSchema.model_validate(tool.output_schema)
    if tool.as_task and hasattr(t, "ToolExecution"):
        optional["execution"] = t.ToolExecution(task_support="optional")
    schema = t.ToolInputSchema.model_validate(tool.input_schema())
    title = tool.name.replace("_", " ").title()
    return make(t.Tool, name=tool.name, title=title, description=tool.description, input_schema=schema, **optional)


async def run(call: Call, name: str) -> Any:
    """Return the result of a call. Raises JSONRPCError for an unknown tool.

    Invalid arguments raise JSONRPCError before 2025-11-25; since then they give a result with `isError`.
    """
    tool = available(call.t, call.state).get(name)
    if tool is None:
        raise JSONRPCError(INVALID_PARAMS, f"unknown tool: {name}")
    problem = _first_error(tool.input_schema(), dict(call.arguments))
    if problem is not None and call.revision < "2025-11-25":
        raise JSONRPCError(INVALID_PARAMS, f"{name}: {problem}")
    try:
        if problem is not None:
            raise ToolFailedError(f"{name}: {problem}")
        value = await tool.function(call)
    except ToolFailedError as error:
        return call.t.CallToolResult(content=[call.t.TextContent(text=str(error))], is_error=True)
    match value:
        case str():
            return call.t.CallToolResult(content=[call.t.TextContent(text=value)])
        case list():
            return call.t.CallToolResult(content=value)
        case _:
            if (problem := _first_error(tool.output_schema or {}, value)) is not None:
                raise RuntimeError(f"{name} returns a value that does not match its output schema: {problem}")
            text = json.dumps(value)
            return call.t.CallToolResult(content=[call.t.TextContent(text=text)], structured_content=value)


def _first_error(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return the first validation error of a value, in one line."""
    validator: Any = Draft202012Validator(schema)
    error = next(validator.iter_errors(value), None)
    return None if error is None else str(error.message)
