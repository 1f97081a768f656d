"""What a chat asks of a model: the conversation and the tools go in, text or calls of tools come out.

To put a real model here, write one class with the method of `Model` around the client of its maker, and give it to
`client.run`: no other part of the example changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call. The name is the chat's: no two tools of one chat share it."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A model's wish to call a tool; its result comes back under the same id."""

    id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What the person says."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: text, calls, or both. Without calls it is the model's turn no longer."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one call; `failed` says that the text is about what went wrong."""

    id: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Results:
    """What came of all calls of one reply, in their order."""

    results: tuple[Result, ...]


Message: TypeAlias = Question | Reply | Results


class Model(Protocol):
    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        """What the model says next; the last message is a Question or Results."""
        ...


_ALERTS: Final = re.compile(r"\balerts?\s+(?:in|for)\s+(\w+)", re.IGNORECASE)
_NUMBER: Final = r"([-+]?\d+(?:\.\d+)?)"
_FORECAST: Final = re.compile(rf"\bforecast\s+(?:for|at)\s+{_NUMBER}[\s,]+{_NUMBER}", re.IGNORECASE)


class Rules:
    """No model at all: knows two questions, and turns them into calls of the weather server's tools."""

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        match messages[-1]:
            case Question(text):
                return self._called(text, tools)
            case Results(results):
                return Reply("\n".join(f"That failed: {each.text}" if each.failed else each.text for each in results))
            case Reply() as said:
                return said

    def _called(self, text: str, tools: Sequence[Tool]) -> Reply:
        if found := _ALERTS.search(text):
            return _call(tools, "get_alerts", {"state": found[1].upper()})
        if found := _FORECAST.search(text):
            return _call(tools, "get_forecast", {"latitude": float(found[1]), "longitude": float(found[2])})
        return Reply("I know two questions: 'alerts in CA' and 'forecast for 38.58 -121.49'.")


def _call(tools: Sequence[Tool], name: str, arguments: dict[str, Any]) -> Reply:
    """A call of every tool of this name: there are several where servers share it."""
    fitting = [tool.name for tool in tools if tool.name == name or tool.name.endswith(f"__{name}")]
    calls = tuple(Call(f"call-{number}", tool, arguments) for number, tool in enumerate(fitting, 1))
    return Reply(calls=calls) if calls else Reply(f"No server here has the tool {name!r}.")
