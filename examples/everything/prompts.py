"""Prompts, and the completion of their arguments and of those of resource templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conversation import INVALID_PARAMS, PNG, State, make, starting_with
from mcp_runtime.errors import JSONRPCError
from resources import NUMBERS, contents

MOST: Final = 100  # Values that one completion may carry.

_CITIES: Final[Mapping[str, Sequence[str]]] = {
    "France": ("Lyon", "Paris", "Pau"),
    "Italy": ("Milan", "Padua", "Rome"),
}
_STYLES: Final = ("long", "loud", "short")

# The arguments of each prompt; those that must be given are True.
_PROMPTS: Final[Mapping[str, Mapping[str, bool]]] = {
    "simple": {},
    "describe": {"city": True, "country": False, "style": False},
    "with_resource": {"uri": True},
    "with_image": {},
    "summarize": {"text": True},
    "translate": {"text": True, "language": True},
}


def listed(t: Any, state: State) -> list[Any]:
    every = {**_PROMPTS, **({"extra": {}} if state.extra else {})}
    return [
        make(
            t.Prompt,
            name=name,
            title=name.replace("_", " ").title(),
            description=f"The prompt called {name}.",
            arguments=[t.PromptArgument(name=each, required=required) for each, required in arguments.items()],
        )
        for name, arguments in every.items()
    ]


def filled(t: Any, state: State, name: str, arguments: Mapping[str, str]) -> Any:
    """The prompt with its arguments filled in. Raises JSONRPCError where there is none, or an argument is missing."""
    taken = {} if name == "extra" and state.extra else _PROMPTS.get(name)
    if taken is None:
        raise JSONRPCError(INVALID_PARAMS, f"no prompt is called {name!r}")
    missing = [each for each, required in taken.items() if required and each not in arguments]
    if missing:
        raise JSONRPCError(INVALID_PARAMS, f"the prompt {name!r} needs {', '.join(missing)}")
    said = [t.TextContent(text=_text(name, arguments))]
    if name == "with_resource":
        said += [t.EmbeddedResource(resource=each) for each in contents(t, state, arguments["uri"])]
    if name == "with_image":
        said.append(t.ImageContent(data=PNG, mime_type="image/png"))
    messages = [t.PromptMessage(role="user", content=each) for each in said]
    return t.GetPromptResult(description=f"The prompt called {name}.", messages=messages)


def _text(name: str, arguments: Mapping[str, str]) -> str:
    match name:
        case "describe":
            where = ", ".join(arguments[each] for each in ("city", "country") if each in arguments)
            return f"Describe {where} in a {arguments.get('style', 'short')} text."
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
    """How an argument could go on: at most 100 values, and how many there are. Raises JSONRPCError for an unknown one."""
    fitting = starting_with(_values(params), params.argument.value)
    found = t.Completion(values=fitting[:MOST], total=len(fitting), has_more=len(fitting) > MOST)
    return t.CompleteResult(completion=found)


def _values(params: Any) -> Sequence[str]:
    """All values of an argument, as far as what is known already leaves them open."""
    ref, argument = params.ref, params.argument.name
    of = ref.name if ref.type == "ref/prompt" else ref.uri
    known: dict[str, str] = getattr(getattr(params, "context", None), "arguments", None) or {}
    match of, argument:
        case "describe", "country":
            return list(_CITIES)
        case "describe", "city" if known.get("country") in _CITIES:
            return _CITIES[known["country"]]
        case "describe", "city":
            return [city for cities in _CITIES.values() for city in cities]
        case "describe", "style":
            return _STYLES
        case "demo://number/{n}", "n":
            return [str(n) for n in range(NUMBERS)]
        case "note://{name}", "name":
            return []
        case _ if argument in _PROMPTS.get(of, {}):
            return []  # Anything may stand there.
        case _:
            raise JSONRPCError(INVALID_PARAMS, f"nothing is known about the argument {argument!r} of {of!r}")
