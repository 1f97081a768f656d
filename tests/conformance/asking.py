"""Tools and a prompt that ask the client before they answer: for what the user types, for its model, for its roots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from mcp_generated import Context
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.errors import InvalidResponseError

_NAME: Final = {"name": {"type": "string", "title": "Your name"}}
_CHOICES: Final = ("option1", "option2", "option3")
_TITLED: Final = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]


def form(message: str, properties: Mapping[str, Any], *required: str) -> t.ElicitRequestFormParams:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return t.ElicitRequestFormParams.model_validate({"message": message, "requestedSchema": schema})


async def sampled(ctx: Context, text: str) -> str:
    """What the client's model says to a text."""
    message = t.SamplingMessage(role="user", content=t.TextContent(text=text))
    answer = await ctx.sample(messages=[message], max_tokens=100)
    return answer.content.text if isinstance(answer.content, t.TextContent) else ""


async def filled(ctx: Context, message: str, properties: Mapping[str, Any], *required: str) -> str:
    """What the user does with a form."""
    answer = await ctx.elicit(form(message, properties, *required))
    return f"{answer.action}: {answer.content}"


# ---- of the model, the user and the roots ---------------------------------------------------------------------------


async def test_sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return f"LLM response: {await sampled(ctx, prompt)}"


async def test_elicitation(message: str, ctx: Context) -> str:
    """Ask the user for a name and an address."""
    fields = {"username": {"type": "string"}, "email": {"type": "string"}}
    return await filled(ctx, message, fields, "username", "email")


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user to fill in a form in which everything has a default."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await filled(ctx, "Please check these.", fields)


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose, in every way there is."""
    fields = {
        "untitledSingle": {"type": "string", "enum": _CHOICES},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": _CHOICES, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _CHOICES}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    }
    try:
        return await filled(ctx, "Please choose.", fields)
    except InvalidResponseError as error:  # The suite chooses what is not there to choose from.
        return f"The client answered, but {error}"


async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask the user, having told how far this is."""
    await ctx.progress(1, total=2)
    return await filled(ctx, "What is your name?", _NAME, "name")


async def test_missing_capability(ctx: Context) -> str:
    """Need a client that has a model."""
    return await sampled(ctx, "Say hello.")


# ---- inside results -------------------------------------------------------------------------------------------------


async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model for a capital."""
    return f"The model said: {await sampled(ctx, 'What is the capital of France?')}"


async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    return f"There are {len((await ctx.list_roots()).roots)} roots."


async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask the user to confirm, and keep a state meanwhile."""
    await filled(ctx, "Is that right?", {"ok": {"type": "boolean"}}, "ok")
    return "state-ok"


async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and for the roots, at once."""
    name = filled(ctx, "What is your name?", _NAME, "name")
    await asyncio.gather(name, sampled(ctx, "Say hello."), ctx.list_roots())
    return "Everything is there."


async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask the user twice."""
    name = await filled(ctx, "What is your name?", _NAME, "name")
    colour = await filled(ctx, "Which colour?", {"color": {"type": "string"}}, "color")
    return f"{name}, {colour}"


async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask the user to confirm, and keep a state that nobody can change."""
    return await test_input_required_result_request_state(ctx)


async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask whatever the client is able to answer."""
    questions: dict[str, Callable[[], Awaitable[object]]] = {
        "sampling": lambda: sampled(ctx, "Say hello."),
        "elicitation": lambda: filled(ctx, "What is your name?", _NAME, "name"),
        "roots": ctx.list_roots,
    }
    answers = await asyncio.gather(*(question() for name, question in questions.items() if name in ctx.capabilities))
    return f"There were {len(answers)} to ask."


# ---- by hand: the suite wants to choose the keys of these -----------------------------------------------------------

_ANSWERS: ContextVar[Mapping[str, Any]] = ContextVar("answers")


async def remember(name: str, ctx: Context, params: Any, go: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    """Keep what came along for the function that answers."""
    _ANSWERS.set(getattr(params, "input_responses", None) or {})
    return await go(ctx, params)


def typed(key: str, message: str, name: str) -> str | t.InputRequiredResult:
    """What the user has typed into the one field of a form; or the question, where it was not filled in like that."""
    answer = _ANSWERS.get().get(key)
    value = (answer.content or {}).get(name) if isinstance(answer, t.ElicitResult) else None
    if isinstance(value, str):
        return value
    question = t.ElicitRequest(params=form(message, {name: {"type": "string"}}, name))
    return t.InputRequiredResult(input_requests={key: question})


async def test_input_required_result_elicitation() -> str | t.InputRequiredResult:
    """Ask the user for a name."""
    name = typed("user_name", "What is your name?", "name")
    return f"Hello, {name}!" if isinstance(name, str) else name


async def context_request() -> str | t.InputRequiredResult:
    """A prompt that asks the user what it is to be about."""
    text = typed("user_context", "What is it about?", "context")
    return f"This is about {text}." if isinstance(text, str) else text


QUESTIONS: Final = (
    test_sampling,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_streaming_elicitation,
    test_missing_capability,
    test_input_required_result_elicitation,
    test_input_required_result_sampling,
    test_input_required_result_list_roots,
    test_input_required_result_request_state,
    test_input_required_result_multiple_inputs,
    test_input_required_result_multi_round,
    test_input_required_result_tampered_state,
    test_input_required_result_capabilities,
)
