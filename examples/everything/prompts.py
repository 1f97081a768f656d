"""Prompts, and the completion of their arguments and of those of resource templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from connection_state import INVALID_PARAMS, PNG, State, make, starting_with
from resources import NUMBERS, contents

from mcp_generated import JSONRPCError

MAX_VALUES: Final = 100  # Of one completion.

_CITIES: Final[Mapping[str, Sequence[str]]] = {
    "France": ("Lyon", "Paris", "Pau"),
    "Italy": ("Milan", "Padua", "Rome"),
}
_STYLES: Final = ("long", "loud", "short")

# The arguments of each prompt; True for required ones.
_PROMPTS: Final[Mapping[str, Mapping[str, bool]]] = {
    "simple": {},
    "describe": {"city": True, "country": False, "style": False},
    "with_resource": {"uri": True},
    "with_image": {},
    "summarize": {"text": True},
    "translate": {"text": True, "language": True},
}


def definitions(t: Any, state: State) -> list[Any]:
    """Return the definitions of all prompts."""
    prompts = {**_PROMPTS, **({"extra": {}} if state.extra else {})}
    return [
        make(
            t.Prompt,
            name=name,
            title=name.replace("_", " ").title(),
            description=f"The prompt called {name}.",
            arguments=[t.PromptArgument(name=argument, required=required) for argument, required in arguments.items()],
        )
        for name, arguments in prompts.items()
    ]


def render(t: Any, state: State, name: str, arguments: Mapping[str, str]) -> Any:
    """Return a prompt with its arguments. Raises JSONRPCError for an unknown prompt or a missing argument."""
    expected = {} if name == "extra" and state.extra else _PROMPTS.get(name)
    if expected is None:
        raise JSONRPCError(INVALID_PARAMS, f"no prompt is called {name!r}")
    missing = [argument for argument, required in expected.items() if required and argument not in arguments]
    if missing:
        raise JSONRPCError(INVALID_PARAMS, f"the prompt {name!r} needs {', '.join(missing)}")
    blocks = [t.TextContent(text=_text(name, arguments))]
    if name == "with_resource":
        blocks += [t.EmbeddedResource(resource=content) for content in contents(t, state, arguments["uri"])]
    if name == "with_image":
        blocks.append(t.ImageContent(data=PNG, mime_type="image/png"))
    messages = [t.PromptMessage(role="user", content=block) for block in blocks]
    return t.GetPromptResult(description=f"The prompt called {name}.", messages=messages)


def _text(name: str, arguments: Mapping[str, str]) -> str:
    match name:
        case "describe":
            place = ", ".join(arguments[name] for name in ("city", "country") if name in arguments)
            return f"Describe {place} in a {arguments.get('style', 'short')} text."
        case "with_resource":
            return "Say what this is."
        case "with_image":
            return "Which colour is this?"
        case "summarize":
            return f"Summarize: {arguments['text']}"
        case "translate":
            return f"Translate into {arguments['language']}: {arguments['text']}"
        case _:
            return "Say something nice."


def completion(t: Any, params: Any) -> Any:
    """Return at most 100 values of an argument, and their number. Raises JSONRPCError for an unknown argument."""
    matches = starting_with(_values(params), params.argument.value)
    completion = t.Completion(values=matches[:MAX_VALUES], total=len(matches), has_more=len(matches) > MAX_VALUES)
    return t.CompleteResult(completion=completion)


def _values(params: Any) -> Sequence[str]:
    """Return all values of an argument that fit the other arguments."""
    ref, argument = params.ref, params.argument.name
    name = ref.name if ref.type == "ref/prompt" else ref.uri
    others: dict[str, str] = getattr(getattr(params, "context", None), "arguments", None) or {}
    match name, argument:
        case "describe", "country":
            return list(_CITIES)
        case "describe", "city" if others.get("country") in _CITIES:
            return _CITIES[others["country"]]
        case "describe", "city":
            return [city for cities in _CITIES.values() for city in cities]
        case "describe", "style":
            return _STYLES
        case "demo://number/{n}", "n":
            return [str(n) for n in range(NUMBERS)]
        case "note://{name}", "name":
            return []
        case _ if argument in _PROMPTS.get(name, {}):
            return []  # Any text is allowed.
        case _:
            raise JSONRPCError(INVALID_PARAMS, f"nothing is known about the argument {argument!r} of {name!r}")
