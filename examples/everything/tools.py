"""Tools: a table of them, and what each does. Those that ask the client are in asking.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import asking
from conversation import INVALID_PARAMS, PNG, WAV, Call, Failed, State, make
from jsonschema import Draft202012Validator
from mcp_runtime.errors import JSONRPCError
from resources import contents, link

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_LEVELS: Final = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_NAME: Final = {"type": "string", "pattern": "^[a-z]{1,20}$"}


@dataclass(frozen=True)
class Tool:
    """What a tool is called and does. It gives a text, contents, or an object that fits `gives`. `takes` are its
    arguments, `optional` those that can be left out, and `needs` is a type without which a revision cannot have it."""

    name: str
    about: str
    run: Callable[[Call], Awaitable[Any]]
    takes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    optional: tuple[str, ...] = ()
    gives: Mapping[str, Any] | None = None
    needs: str = "Tool"
    changes: bool = False
    as_task: bool = False

    def input_schema(self) -> dict[str, Any]:
        required = [name for name in self.takes if name not in self.optional]
        return {"type": "object", "properties": dict(self.takes), "required": required}


# ---- what they do -----------------------------------------------------------------------------------------------------


async def _echo(call: Call) -> str:
    return str(call.arguments["text"])


async def _add(call: Call) -> str:
    return str(call.arguments["a"] + call.arguments["b"])


async def _long_running(call: Call) -> str:
    """Tell its progress with each step; being cancelled is remembered, for `demo://status`."""
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
    await call.ctx.log(call.arguments["level"], {"said": call.arguments["text"]}, "everything")
    return "logged"


async def _image(call: Call) -> list[Any]:
    return [call.t.ImageContent(data=PNG, mime_type="image/png")]


async def _audio(call: Call) -> list[Any]:
    return [call.t.AudioContent(data=WAV, mime_type="audio/wav")]


async def _embedded(call: Call) -> list[Any]:
    t = call.t
    found = contents(t, call.state, call.arguments["uri"])
    hints = t.Annotations(audience=["user"], priority=1)
    return [t.TextContent(text="Here it is.", annotations=hints), *(t.EmbeddedResource(resource=r) for r in found)]


async def _links(call: Call) -> list[Any]:
    return [link(call.t, uri) for uri in ("demo://text", "demo://image")]


async def _statistics(call: Call) -> dict[str, Any]:
    numbers = call.arguments["numbers"]
    return {"count": len(numbers), "sum": sum(numbers), "largest": max(numbers)}


async def _fail(call: Call) -> str:
    raise Failed("This tool always fails.")


async def _write_note(call: Call) -> str:
    """Write a resource: its watchers are told that it changed, and everybody that there is one more."""
    name, notes = call.arguments["name"], call.state.notes
    uri, is_new = f"note://{name}", name not in notes
    notes[name] = call.arguments["text"]
    if is_new:
        await call.ctx.notify_resource_list_changed()
    if uri in call.state.watched:
        await call.ctx.notify_resource_updated(uri=uri)
    return uri


async def _toggle_extra(call: Call) -> str:
    """Let the tool and the prompt called `extra` come or go, and tell so."""
    call.state.extra = not call.state.extra
    await call.ctx.notify_tool_list_changed()
    await call.ctx.notify_prompt_list_changed()
    return "here" if call.state.extra else "gone"


async def _extra(call: Call) -> str:
    return "I am only here for a while."


# ---- the table --------------------------------------------------------------------------------------------------------

_SUMMARY: Final = {
    "type": "object",
    "properties": {"count": {"type": "integer"}, "sum": _NUMBER, "largest": _NUMBER},
    "required": ["count", "sum", "largest"],
}
_STEPS: Final = {"type": "integer", "minimum": 1, "maximum": 100}
_SECONDS: Final = {"type": "number", "minimum": 0, "maximum": 60}
_NUMBERS: Final = {"type": "array", "items": _NUMBER, "minItems": 1}
_LEVEL: Final = {"type": "string", "enum": _LEVELS}
_TOKENS: Final = {"type": "integer", "minimum": 1}

TOOLS: Final = (
    Tool("echo", "Give a text back.", _echo, {"text": _TEXT}),
    Tool("add", "Add two numbers.", _add, {"a": _NUMBER, "b": _NUMBER}),
    Tool(
        "long_running",
        "Take some time, and tell how far it is.",
        _long_running,
        {"seconds": _SECONDS, "steps": _STEPS},
        optional=("seconds", "steps"),
        as_task=True,
    ),
    Tool("log_something", "Send a log message.", _log_something, {"level": _LEVEL, "text": _TEXT}),
    Tool("image", "Give an image.", _image),
    Tool("audio", "Give a sound.", _audio, needs="AudioContent"),
    Tool("embedded", "Give a resource with its content.", _embedded, {"uri": _TEXT}),
    Tool("links", "Point to resources.", _links, needs="ResourceLink"),
    Tool("statistics", "Sum up numbers.", _statistics, {"numbers": _NUMBERS}, gives=_SUMMARY, needs="ToolOutputSchema"),
    Tool("fail", "Fail.", _fail),
    Tool("write_note", "Write a note.", _write_note, {"name": _NAME, "text": _TEXT}, changes=True),
    Tool("toggle_extra", "Let one more tool come or go.", _toggle_extra, changes=True),
    Tool(
        "sample",
        "Ask the client's model.",
        asking.sample,
        {"prompt": _TEXT, "max_tokens": _TOKENS},
        optional=("max_tokens",),
    ),
    Tool(
        "research", "Let the client's model use a tool.", asking.research, {"question": _TEXT}, needs="ToolUseContent"
    ),
    Tool("list_roots", "List the client's roots.", asking.list_roots),
    Tool("ask_user", "Ask the user for some data.", asking.ask_user, needs="ElicitRequestParams"),
    Tool("visit_page", "Send the user to a page.", asking.visit_page, needs="ElicitRequestURLParams", changes=True),
    Tool("locked", "Works once the user has agreed.", asking.locked, needs="ElicitRequestURLParams"),
)
_EXTRA: Final = Tool("extra", "Be there for a while.", _extra)


def offered(t: Any, state: State) -> dict[str, Tool]:
    """The tools that a conversation has at the moment, by name."""
    every = (*TOOLS, _EXTRA) if state.extra else TOOLS
    return {tool.name: tool for tool in every if hasattr(t, tool.needs)}


def listed(t: Any, tool: Tool) -> Any:
    """The tool as a client is told of it."""
    more: dict[str, Any] = {}
    if hasattr(t, "ToolAnnotations"):
        more["annotations"] = t.ToolAnnotations(read_only_hint=not tool.changes, open_world_hint=False)
    if tool.gives is not None:
        more["output_schema"] = t.ToolOutputSchema.model_validate(tool.gives)
    if tool.as_task and hasattr(t, "ToolExecution"):
        more["execution"] = t.ToolExecution(task_support="optional")
    schema = t.ToolInputSchema.model_validate(tool.input_schema())
    title = tool.name.replace("_", " ").title()
    return make(t.Tool, name=tool.name, title=title, description=tool.about, input_schema=schema, **more)


async def called(call: Call, name: str) -> Any:
    """The result of a call. Raises JSONRPCError for an unknown tool, and before 2025-11-25 for wrong arguments; since then
    they are a result that the model can learn from."""
    tool = offered(call.t, call.state).get(name)
    if tool is None:
        raise JSONRPCError(INVALID_PARAMS, f"unknown tool: {name}")
    fault = _fault(tool, call.arguments)
    if fault is not None and call.revision < "2025-11-25":
        raise JSONRPCError(INVALID_PARAMS, f"{name}: {fault}")
    try:
        if fault is not None:
            raise Failed(f"{name}: {fault}")
        given = await tool.run(call)
    except Failed as failed:
        return call.t.CallToolResult(content=[call.t.TextContent(text=str(failed))], is_error=True)
    match given:
        case str():
            return call.t.CallToolResult(content=[call.t.TextContent(text=given)])
        case list():
            return call.t.CallToolResult(content=given)
        case _:
            if (wrong := _misfit(tool.gives or {}, given)) is not None:
                raise RuntimeError(f"{name} gives what does not fit its output schema: {wrong}")
            text = json.dumps(given)
            return call.t.CallToolResult(content=[call.t.TextContent(text=text)], structured_content=given)


def _fault(tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of a call, in one line."""
    return _misfit(tool.input_schema(), dict(arguments))


def _misfit(schema: Mapping[str, Any], value: Any) -> str | None:
    """Where a value does not fit a schema, in one line."""
    validator: Any = Draft202012Validator(schema)
    fault = next(validator.iter_errors(value), None)
    return None if fault is None else str(fault.message)
