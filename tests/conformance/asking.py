"""Tools and a prompt that ask the client before they answer: for what the user types, for its model, for its roots."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from mcp_generated import Context
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.errors import Refusal

INVALID_PARAMS: Final = -32602
MISSING_CAPABILITY: Final = -32021

_KEY: Final = secrets.token_bytes(32)
_NAME: Final = {"name": {"type": "string", "title": "Your name"}}
_CHOICES: Final = ("option1", "option2", "option3")
_TITLED: Final = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]

Asking = str | t.InputRequiredResult


@dataclass(frozen=True)
class Round:
    """What the client sent along with a request that it was asked to send again."""

    answers: Mapping[str, Any]
    state: str | None


_ROUND: ContextVar[Round] = ContextVar("round")


async def remember(name: str, ctx: Context, params: Any, go: Callable[[Any, Any], Awaitable[Any]]) -> Any:
    """Keep what came along for the function that answers."""
    state = getattr(params, "request_state", None)
    _ROUND.set(Round(getattr(params, "input_responses", None) or {}, None if state is None else unsealed(state)))
    return await go(ctx, params)


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(_KEY, state.encode(), hashlib.sha256).hexdigest()}"


def unsealed(state: str) -> str:
    """The state that was sealed. Raises Refusal where it was not this server that did."""
    inner = state.rpartition(".")[0]
    if not hmac.compare_digest(sealed(inner), state):
        raise Refusal(INVALID_PARAMS, "the request state is none of this server's")
    return inner


def ask(state: str | None = None, **questions: Any) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests=questions, request_state=None if state is None else sealed(state))


def form(message: str, properties: Mapping[str, Any], *required: str) -> t.ElicitRequest:
    schema = t.RequestedSchema.model_validate({"type": "object", "properties": properties, "required": list(required)})
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))


def message(text: str) -> t.CreateMessageRequest:
    said = t.SamplingMessage(role="user", content=t.TextContent(text=text))
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[said], max_tokens=100))


def typed(key: str, name: str = "name") -> str | None:
    """What the user has typed into a field of a form; None where the form was not filled in like that."""
    answer = _ROUND.get().answers.get(key)
    value = (answer.content or {}).get(name) if isinstance(answer, t.ElicitResult) else None
    return value if isinstance(value, str) else None


# ---- of the model, the user and the roots ---------------------------------------------------------------------------


async def test_sampling(prompt: str) -> Asking:
    """Ask the client's model."""
    answer = _ROUND.get().answers.get("model")
    if not isinstance(answer, t.CreateMessageResult):
        return ask(model=message(prompt))
    return f"LLM response: {getattr(answer.content, 'text', '')}"


async def test_elicitation(message: str) -> Asking:
    """Ask the user for a name and an address."""
    return filled(message, {"username": {"type": "string"}, "email": {"type": "string"}}, "username", "email")


async def test_elicitation_sep1034_defaults() -> Asking:
    """Ask the user to fill in a form in which everything has a default."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return filled("Please check these.", fields)


async def test_elicitation_sep1330_enums() -> Asking:
    """Ask the user to choose, in every way there is."""
    fields = {
        "untitledSingle": {"type": "string", "enum": _CHOICES},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": _CHOICES, "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _CHOICES}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    }
    return filled("Please choose.", fields)


def filled(text: str, fields: Mapping[str, Any], *required: str) -> Asking:
    answer = _ROUND.get().answers.get("form")
    if not isinstance(answer, t.ElicitResult):
        return ask(form=form(text, fields, *required))
    return f"The user said {answer.action}: {answer.content}"


async def test_streaming_elicitation(ctx: Context) -> Asking:
    """Ask the user, having told how far this is."""
    await ctx.progress(1, total=2)
    return await test_input_required_result_elicitation()


async def test_missing_capability(ctx: Context) -> str:
    """Need a client that has a model."""
    if "sampling" not in ctx.capabilities:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise Refusal(MISSING_CAPABILITY, "this tool needs a client that has a model", data)
    return "This client has a model."


# ---- inside results -------------------------------------------------------------------------------------------------


async def test_input_required_result_elicitation() -> Asking:
    """Ask the user for a name."""
    name = typed("user_name")
    return f"Hello, {name}!" if name else ask(user_name=form("What is your name?", _NAME, "name"))


async def test_input_required_result_sampling() -> Asking:
    """Ask the client's model for a capital."""
    answer = _ROUND.get().answers.get("capital")
    if not isinstance(answer, t.CreateMessageResult):
        return ask(capital=message("What is the capital of France?"))
    return f"The model said: {getattr(answer.content, 'text', '')}"


async def test_input_required_result_list_roots() -> Asking:
    """Ask for the client's roots."""
    answer = _ROUND.get().answers.get("roots")
    if not isinstance(answer, t.ListRootsResult):
        return ask(roots=t.ListRootsRequest())
    return f"There are {len(answer.roots)} roots."


async def test_input_required_result_request_state() -> Asking:
    """Ask the user to confirm, and keep a state meanwhile."""
    if _ROUND.get().state != "confirm" or "confirm" not in _ROUND.get().answers:
        return ask("confirm", confirm=form("Is that right?", {"ok": {"type": "boolean"}}, "ok"))
    return "state-ok"


async def test_input_required_result_multiple_inputs() -> Asking:
    """Ask the user, the model and for the roots, at once."""
    questions = {
        "name": form("What is your name?", _NAME, "name"),
        "greeting": message("Say hello."),
        "roots": t.ListRootsRequest(),
    }
    return "Everything is there." if questions.keys() <= _ROUND.get().answers.keys() else ask("several", **questions)


async def test_input_required_result_multi_round() -> Asking:
    """Ask the user twice."""
    match _ROUND.get().state:
        case "colour" if colour := typed("colour", "color"):
            return f"Your colour is {colour}."
        case "name" | "colour" if typed("name") or _ROUND.get().state == "colour":
            return ask("colour", colour=form("Which colour?", {"color": {"type": "string"}}, "color"))
        case _:
            return ask("name", name=form("What is your name?", _NAME, "name"))


async def test_input_required_result_tampered_state() -> Asking:
    """Ask the user to confirm, and keep a state that nobody can change."""
    return await test_input_required_result_request_state()


async def test_input_required_result_capabilities(ctx: Context) -> Asking:
    """Ask whatever the client is able to answer."""
    has = ctx.capabilities
    if _ROUND.get().answers:
        return "Thank you."
    questions: dict[str, Any] = {"model": message("Say hello.")} if "sampling" in has else {}
    if "elicitation" in has:
        questions["name"] = form("What is your name?", _NAME, "name")
    if "roots" in has:
        questions["roots"] = t.ListRootsRequest()
    return ask(**questions) if questions else "There is nobody to ask."


async def ask_for_context() -> Asking:
    """A prompt that asks the user what it is to be about."""
    text = typed("user_context", "context")
    if text is None:
        return ask(user_context=form("What is it about?", {"context": {"type": "string"}}, "context"))
    return f"This is about {text}."


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
