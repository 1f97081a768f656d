"""Tools that send requests to the client: sampling, roots and elicitation."""

from __future__ import annotations

from typing import Any, Final

from connection_state import Call, ToolFailedError

from mcp_generated import JSONRPCError, RemoteJSONRPCError

PAGE_TO_VISIT: Final = {
    "mode": "url",
    "message": "Please agree to the terms.",
    "elicitationId": "terms",
    "url": "https://example.com/terms",
}
_FORM: Final = {
    "name": {"type": "string", "title": "Name", "minLength": 1},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "news": {"type": "boolean", "default": False},
    "size": {"type": "string", "enum": ["s", "m", "l"], "enumNames": ["small", "medium", "large"]},
}
_TOPICS: Final = {"type": "array", "items": {"type": "string", "enum": ["art", "food", "music"]}, "maxItems": 2}
_URL_ELICITATION_REQUIRED: Final = -32042
_MAX_ROUNDS: Final = 5


async def sample(call: Call) -> str:
    """Send a sampling request."""
    _needs(call, "sampling")
    t = call.t
    message = t.SamplingMessage(role="user", content=t.TextContent(text=call.arguments["prompt"]))
    preferences = t.ModelPreferences(hints=[t.ModelHint(name="small")], speed_priority=0.9)
    try:
        result = await call.ctx.create_message(
            messages=[message],
            max_tokens=call.arguments.get("max_tokens", 100),
            model_preferences=preferences,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["END"],
            metadata={"reason": "example"},
        )
    except RemoteJSONRPCError as error:
        raise ToolFailedError(f"the client rejected the request: {error}") from None
    return f"{result.model} ({result.stop_reason}): " + _texts(_blocks(result.content))


async def research(call: Call) -> str:
    """Send sampling requests with a tool, and with the results of its calls, until the model calls no tool."""
    _needs(call, "sampling", "tools")
    t = call.t
    schema = t.ToolInputSchema.model_validate({"type": "object", "properties": {"word": {"type": "string"}}})
    tools = [t.Tool(name="count_letters", description="Count the letters of a word.", input_schema=schema)]
    messages = [t.SamplingMessage(role="user", content=t.TextContent(text=call.arguments["question"]))]
    for _ in range(_MAX_ROUNDS):
        result = await call.ctx.create_message(messages=messages, max_tokens=100, tools=tools)
        blocks = _blocks(result.content)
        uses = [block for block in blocks if block.type == "tool_use"]
        if not uses:
            return _texts(blocks)
        counts = [t.TextContent(text=str(len(str(use.input.get("word"))))) for use in uses]
        results = [
            t.ToolResultContent(tool_use_id=use.id, content=[text]) for use, text in zip(uses, counts, strict=False)
        ]
        messages.append(t.SamplingMessage(role="assistant", content=blocks))
        messages.append(t.SamplingMessage(role="user", content=results))
    raise ToolFailedError(f"the client's model still calls tools after {_MAX_ROUNDS} requests")


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _texts(blocks: list[Any]) -> str:
    return " ".join(getattr(block, "text", block.type) for block in blocks)


async def list_roots(call: Call) -> str:
    """List the client's roots."""
    _needs(call, "roots")
    roots = (await call.ctx.list_roots()).roots
    return "\n".join(f"{root.name}: {root.uri}" for root in roots) or "no roots"


async def elicit_name(call: Call) -> str:
    """Send a form elicitation."""
    _needs(call, "elicitation")
    has_multi_select = "MultiSelectEnumSchema" in dir(call.t)
    fields = {**_FORM, **({"topics": _TOPICS} if has_multi_select else {})}
    form = call.t.RequestedSchema.model_validate({"type": "object", "properties": fields, "required": ["name"]})
    if hasattr(call.t, "ElicitRequestFormParams"):
        params = call.t.ElicitRequestFormParams(mode="form", message="Who are you?", requested_schema=form)
        result = await call.ctx.elicit(params)
    else:
        result = await call.ctx.elicit(message="Who are you?", requested_schema=form)
    content: dict[str, Any] = result.content or {}
    filled = ", ".join(f"{name}={value}" for name, value in sorted(content.items()))
    return f"{result.action}: {filled}" if filled else str(result.action)


async def visit_page(call: Call) -> str:
    """Send a URL elicitation, and notify the client of its completion."""
    _needs(call, "elicitation", "url")
    result = await call.ctx.elicit(call.t.ElicitRequestURLParams.model_validate(PAGE_TO_VISIT))
    if result.action != "accept":
        return str(result.action)
    call.state.visited = True
    await call.ctx.notify_elicitation_complete(elicitation_id=PAGE_TO_VISIT["elicitationId"])
    return "thank you"


async def locked(call: Call) -> str:
    """Require the URL elicitation first."""
    if not call.state.visited:
        raise JSONRPCError(_URL_ELICITATION_REQUIRED, "the user has to agree first", {"elicitations": [PAGE_TO_VISIT]})
    return "open"


def _needs(call: Call, *path: str) -> None:
    """Raise ToolFailedError if the client has not declared a capability."""
    value: Any = call.ctx.capabilities
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        raise ToolFailedError(f"this client does not offer {'.'.join(path)}")


async def roots_changed(ctx: Any) -> None:
    """Store the client's new roots, and log them."""
    ctx.state.roots = [root.uri for root in (await ctx.list_roots()).roots]
    await ctx.log("info", f"roots: {', '.join(ctx.state.roots)}", "everything")
