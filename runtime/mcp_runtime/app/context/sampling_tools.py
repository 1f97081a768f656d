"""Functions as the tools of a sampling request: their definitions, and the results of the calls of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pydantic import BaseModel

from ...errors import InvalidResponseError, LocalError
from ...protocol.models import is_list

_MAX_ROUNDS: Final = 25  # Messages of the model in a row that call tools.


class SamplingTools:
    """The tools of one sampling request. Those that are functions are called when the model calls them."""

    def __init__(self, ctx: Any, tools: Sequence[Any]) -> None:
        """Make a tool of each function. Raises LocalError for a function that cannot be a tool, and a name twice."""
        if not is_list(tools) and not isinstance(tools, tuple):
            raise LocalError(f"sample(): tools must be a list of functions or definitions, not {type(tools).__name__}")
        self._ctx = ctx
        self._functions: dict[str, Any] = {}
        self._count = 0
        self.definitions: list[Any] = []
        for item in tools:
            if isinstance(item, BaseModel) or not callable(item):
                self.definitions.append(item)
                continue
            tool = ctx.app.unlisted_tool(item)
            if tool.name in self._functions:
                raise LocalError(f"sample(): two of the tools have the name {tool.name!r}: rename one")
            self._functions[tool.name] = tool
            fields = tool.definition.model_dump()
            fields.pop("outputSchema", None)
            self.definitions.append(tool.definition.model_validate(fields))

    async def converse(self, send: Callable[[list[Any]], Any], history: list[Any]) -> Any:
        """Return the first message of the model that calls no function; the messages are added to the history.

        Raises InvalidResponseError after 25 messages that call functions.
        """
        for _ in range(_MAX_ROUNDS):
            message = await send(history)
            history.append({"role": message.role, "content": message.content})
            blocks = message.content if is_list(message.content) else [message.content]
            calls = [block for block in blocks if getattr(block, "type", None) == "tool_use"]
            if not calls or any(call.name not in self._functions for call in calls):
                return message
            history.append({"role": "user", "content": [await self._result(call) for call in calls]})
        raise InvalidResponseError(f"sample(): the model has called tools in {_MAX_ROUNDS} messages in a row")

    async def _result(self, call: Any) -> dict[str, Any]:
        """Return the result of a call, which a function that runs again does not repeat."""
        ctx, tool = self._ctx, self._functions[call.name]

        async def run() -> dict[str, Any]:
            arguments = call.input.to_dict() if hasattr(call.input, "to_dict") else dict(call.input)
            kinds = (ctx.app.types.CallToolResult,)
            result: dict[str, Any] = (await tool.call(ctx, arguments, kinds, (Exception,))).model_dump()
            return result

        self._count += 1
        result: dict[str, Any] = await ctx.once(f"#sample_tool {self._count} {call.id}", run)
        fields = {"type": "tool_result", "toolUseId": call.id, "content": result["content"]}
        return {**fields, "isError": True} if result.get("isError") else fields
