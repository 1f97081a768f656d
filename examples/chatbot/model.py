"""The interface of a model: it gets the messages and the tools, and replies with text or tool calls.

To use a real model, write a class with the method of `Model` around the client of its vendor, and pass it to
`client.run`. No other part of the example changes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call. The name is unique in a chat."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a model; its result has the same id."""

    id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A message of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A message of the model: text, calls, or both. A reply without calls ends its turn."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one call; if `failed`, the text describes the error."""

    id: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Results:
    """The results of all calls of one reply, in their order."""

    results: tuple[Result, ...]


Message: TypeAlias = Question | Reply | Results


class Model(Protocol):
    """A language model."""

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        """Return the next reply; the last message is a Question or Results."""
        ...


_ALERTS: Final = re.compile(r"\balerts?\s+(?:in|for)\s+(\w+)", re.IGNORECASE)
_NUMBER: Final = r"([-+]?\d+(?:\.\d+)?)"
_FORECAST: Final = re.compile(rf"\bforecast\s+(?:for|at)\s+{_NUMBER}[\s,]+{_NUMBER}", re.IGNORECASE)


class Rules:
    """A stand-in for a model: it turns two kinds of questions into calls of the weather server's tools."""

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        match messages[-1]:
            case Question(text):
                return self._calls_for(text, tools)
            case Results(results):
                return Reply(
                    "\n".join(f"That failed: {result.text}" if result.failed else result.text for result in results)
                )
            case Reply() as reply:
                return reply

    def _calls_for(self, text: str, tools: Sequence[Tool]) -> Reply:
        if match := _ALERTS.search(text):
            return _call(tools, "get_alerts", {"state": match[1].upper()})
        if match := _FORECAST.search(text):
            return _call(tools, "get_forecast", {"latitude": float(match[1]), "longitude": float(match[2])})
        return Reply("I know two questions: 'alerts in CA' and 'forecast for 38.58 -121.49'.")


def _call(tools: Sequence[Tool], name: str, arguments: dict[str, Any]) -> Reply:
    """Return a call of every tool of this name: several servers may have one."""
    names = [tool.name for tool in tools if tool.name == name or tool.name.endswith(f"__{name}")]
    calls = tuple(Call(f"call-{number}", tool, arguments) for number, tool in enumerate(names, 1))
    return Reply(calls=calls) if calls else Reply(f"No server here has the tool {name!r}.")
