"""Tools that ask the client: for a message of its model, for its roots, and for the user's input."""

from __future__ import annotations

from typing import Any, Final

from conversation import Call, Failed
from mcp_runtime.errors import RemoteJSONRPCError, JSONRPCError
from mcp_runtime.protocol.models import is_list, is_object

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
_VISIT_FIRST: Final = -32042
_MOST_ROUNDS: Final = 5


async def sample(call: Call) -> str:
    """Ask the client's model."""
    _needs(call, "sampling")
    t = call.t
    asked = t.SamplingMessage(role="user", content=t.TextContent(text=call.arguments["prompt"]))
    preferences = t.ModelPreferences(hints=[t.ModelHint(name="small")], speed_priority=0.9)
    try:
        answer = await call.ctx.create_message(
            messages=[asked],
            max_tokens=call.arguments.get("max_tokens", 100),
            model_preferences=preferences,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["END"],
            metadata={"why": "example"},
        )
    except RemoteJSONRPCError as refused:
        raise Failed(f"the client said no: {refused}") from None
    content: Any = answer.content
    said: list[Any] = content if is_list(content) else [content]
    return f"{answer.model} ({answer.stop_reason}): " + " ".join(getattr(each, "text", each.type) for each in said)


async def research(call: Call) -> str:
    """Ask the client's model, and let it use a tool; it hears what that gave until it uses none."""
    _needs(call, "sampling", "tools")
    t = call.t
    schema = t.ToolInputSchema.model_validate({"type": "object", "properties": {"word": {"type": "string"}}})
    tools = [t.Tool(name="count_letters", description="Count the letters of a word.", input_schema=schema)]
    said = [t.SamplingMessage(role="user", content=t.TextContent(text=call.arguments["question"]))]
    for _ in range(_MOST_ROUNDS):
        answer = await call.ctx.create_message(messages=said, max_tokens=100, tools=tools)
        blocks: list[Any] = answer.content if is_list(answer.content) else [answer.content]
        uses = [each for each in blocks if each.type == "tool_use"]
        if not uses:
            return " ".join(getattr(each, "text", each.type) for each in blocks)
        found = [t.TextContent(text=str(len(str(use.input.get("word"))))) for use in uses]
        results = [t.ToolResultContent(tool_use_id=use.id, content=[each]) for use, each in zip(uses, found)]
        said += [t.SamplingMessage(role="assistant", content=blocks), t.SamplingMessage(role="user", content=results)]
    raise Failed("the client's model does not come to an end")


async def list_roots(call: Call) -> str:
    _needs(call, "roots")
    found = (await call.ctx.list_roots()).roots
    return "\n".join(f"{root.name}: {root.uri}" for root in found) or "no roots"


async def ask_user(call: Call) -> str:
    """Ask for a form to be filled in."""
    _needs(call, "elicitation")
    several = "MultiSelectEnumSchema" in dir(call.t)
    fields = {**_FORM, **({"topics": _TOPICS} if several else {})}
    form = call.t.RequestedSchema.model_validate({"type": "object", "properties": fields, "required": ["name"]})
    if hasattr(call.t, "ElicitRequestFormParams"):
        params = call.t.ElicitRequestFormParams(mode="form", message="Who are you?", requested_schema=form)
        answer = await call.ctx.elicit(params)
    else:
        answer = await call.ctx.elicit(message="Who are you?", requested_schema=form)
    content: dict[str, Any] = answer.content or {}
    filled = ", ".join(f"{name}={value}" for name, value in sorted(content.items()))
    return f"{answer.action}: {filled}" if filled else str(answer.action)


async def visit_page(call: Call) -> str:
    """Ask the user to visit a page, and tell that this is done."""
    _needs(call, "elicitation", "url")
    answer = await call.ctx.elicit(call.t.ElicitRequestURLParams.model_validate(PAGE_TO_VISIT))
    if answer.action != "accept":
        return str(answer.action)
    call.state.visited = True
    await call.ctx.notify_elicitation_complete(elicitation_id=PAGE_TO_VISIT["elicitationId"])
    return "thank you"


async def locked(call: Call) -> str:
    """Refuse until the user has been at that page."""
    if not call.state.visited:
        raise JSONRPCError(_VISIT_FIRST, "the user has to agree first", {"elicitations": [PAGE_TO_VISIT]})
    return "open"


def _needs(call: Call, *path: str) -> None:
    """Raise where the client has not declared what the tool needs."""
    at: Any = call.ctx.capabilities
    for step in path:
        at = at.get(step) if is_object(at) else None
    if at is None:
        raise Failed(f"this client does not offer {'.'.join(path)}")


async def roots_changed(ctx: Any) -> None:
    """Remember the client's roots, now that they have changed, and say so."""
    ctx.state.roots = [root.uri for root in (await ctx.list_roots()).roots]
    await ctx.log("info", f"roots: {', '.join(ctx.state.roots)}", "everything")
