"""Messages of the client's model: from texts and types of Python, and to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypedDict, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.errors import PydanticUserError
from pydantic_core import to_json

from mcp_runtime.errors import InvalidResponseError, LocalError
from mcp_runtime.protocol.models import format_validation_error, is_list, is_object
from mcp_runtime.session.requests import RequestKeywords

from .elicitation import NO_TIMEOUT

# Functions as the tools of a sampling request: their definitions, and the results of the calls of the model.

_MAX_ROUNDS: Final = 25  # Messages of the model in a row that call tools.
T = TypeVar("T")
_ATTEMPTS: Final = 3
_FENCE: Final = re.compile(r"\s*```[a-zA-Z]*\n(.*?)\n?```\s*", re.DOTALL)


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
            tool = ctx.app.make_tool(item, coerce=True)
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


@dataclass(frozen=True)
class SampleResult(Generic[T]):
    """A message of the client's model.

    Attributes:
        text: The text of the message; None if it has none.
        result: The text, or the value of `result_type`.
        history: The messages of the conversation, the last one included, as JSON.
        message: The result of the request, as the client has sent it.
    """

    text: str | None
    result: T
    history: list[Any]
    message: Any

    @property
    def content(self) -> Any:
        """The content of the message."""
        return self.message.content

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.message.model)

    @property
    def role(self) -> str:
        """The role of the message."""
        return str(self.message.role)

    @property
    def stop_reason(self) -> str | None:
        """Why the message ends; None if the client does not say it."""
        reason: str | None = self.message.stop_reason
        return reason


class SampleSettings(TypedDict, total=False):
    """The keywords of a sampling request, as `ctx.sample` describes them."""

    system_prompt: str | None
    temperature: float | None
    model_preferences: Any
    include_context: str | None
    stop_sequences: Sequence[str] | None
    metadata: Mapping[str, Any] | None
    tools: Sequence[Any] | None
    tool_choice: Any


_WIRE_NAMES: Final = {name: to_camel(name) for name in SampleSettings.__annotations__}


class SampleKeywords(SampleSettings, RequestKeywords, total=False):
    """The keywords of `ctx.sample`: those of the sampling request, and the options of any request."""


async def sample(
    ctx: Any, messages: Any, max_tokens: int, result_type: Any, settings: dict[str, Any]
) -> SampleResult[Any]:
    """Request a message of the client's model; with a type, until a message has it."""
    options = settings.pop("options", None) or NO_TIMEOUT
    keywords = RequestKeywords(
        **{name: settings.pop(name) for name in RequestKeywords.__optional_keys__ if name in settings}  # type: ignore[typeddict-item]
    )
    params = wire_settings("sample", settings)
    adapter = None if result_type in (None, str) else _adapter(result_type)
    if adapter is not None:
        params["systemPrompt"] = _with_schema(params.get("systemPrompt"), adapter)
    tools = SamplingTools(ctx, params.get("tools", ()))
    if tools.definitions:
        params["tools"] = tools.definitions
    history = to_messages(messages)

    async def send(history: list[Any]) -> Any:
        request = {**params, "messages": list(history), "maxTokens": max_tokens}
        return await ctx.send_client_request("on_create_message", request, options, keywords)

    error = "there was no attempt"
    for _ in range(_ATTEMPTS):
        message: Any = await tools.converse(send, history)
        text = text_of(message.content)
        if adapter is None:
            return SampleResult(text, text or "", history, message)
        try:
            return SampleResult(text, adapter.validate_json(_json_text(text or "")), history, message)
        except ValidationError as exc:
            error = format_validation_error(exc)
        history.append(to_message(f"This is not valid: {error}. Answer with the JSON value only."))
    kind = getattr(result_type, "__name__", result_type)
    raise InvalidResponseError(f"the model's message is not a {kind} after {_ATTEMPTS} attempts: {error}")


def wire_settings(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a sampling request for the keywords of a method. Raises TypeError for an unknown one."""
    for name in settings:
        if name not in _WIRE_NAMES:
            raise TypeError(f"{method}() has no keyword argument {name!r}; the keywords are {', '.join(_WIRE_NAMES)}")
    params = {_WIRE_NAMES[name]: value for name, value in settings.items() if value is not None}
    if "modelPreferences" in params:
        params["modelPreferences"] = to_preferences(params["modelPreferences"])
    return params


def to_messages(messages: object) -> list[Any]:
    """Return the messages of a request for sampling: of a text, a message, or a list of these."""
    items = cast("list[Any]", messages) if isinstance(messages, list | tuple) else [messages]
    return [to_message(message) for message in items]


def to_message(message: Any) -> Any:
    """Return a text as a message of the user, and a message with content blocks. Raises TypeError for other values."""
    if isinstance(message, str):
        return {"role": "user", "content": {"type": "text", "text": message}}
    role = message.get("role") if is_object(message) else getattr(message, "role", None)
    content = message.get("content") if is_object(message) else getattr(message, "content", None)
    if not isinstance(role, str) or content is None:
        raise TypeError(
            f"sample() cannot send {type(message).__name__} as a message: use a str, a SamplingMessage, a UserMessage"
            " or an AssistantMessage"
        )
    blocks = [_block(block) for block in content] if is_list(content) else _block(content)
    return {"role": role, "content": blocks}


def _block(content: Any) -> Any:
    if isinstance(content, str):
        return {"type": "text", "text": content}
    if hasattr(content, "encoded"):  # An Image or Audio.
        return {"type": content.family, "data": content.encoded(), "mimeType": content.mime_type}
    return content


def to_preferences(preferences: Any) -> Any:
    """Return model preferences: the name of a model or a list of names becomes hints."""
    if isinstance(preferences, str):
        preferences = [preferences]
    if is_list(preferences):
        if not all(isinstance(name, str) for name in preferences):
            raise TypeError("sample() takes model_preferences as a str, a list of str or ModelPreferences")
        return {"hints": [{"name": name} for name in preferences]}
    if not isinstance(preferences, BaseModel) and not is_object(preferences):
        raise TypeError("sample() takes model_preferences as a str, a list of str or ModelPreferences")
    return preferences


def text_of(content: Any) -> str | None:
    """Return the text of content blocks; None if no block is text."""
    blocks = content if is_list(content) else [content]
    texts = [block.text for block in blocks if getattr(block, "type", None) == "text"]
    return "\n".join(texts) if texts else None


def _adapter(result_type: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(result_type)
    except PydanticUserError:
        raise TypeError(
            f"sample() cannot read {result_type!r} from JSON; use a pydantic model or a simple type"
        ) from None


def _with_schema(system_prompt: str | None, adapter: TypeAdapter[Any]) -> str:
    schema = to_json(adapter.json_schema()).decode()
    rule = f"Answer with one JSON value that matches this JSON Schema, and with nothing else: {schema}"
    return f"{system_prompt}\n\n{rule}" if system_prompt else rule


def _json_text(text: str) -> str:
    """Return the JSON in a message, which models often put into a Markdown code block."""
    match = _FENCE.fullmatch(text)
    return match[1] if match else text.strip()
