"""The decorators of the official SDK's low-level server, up to the last 1.x."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import BaseModel

from ..errors import InvalidMessageError, JSONRPCError
from ..json_schema.validator import compile_schema
from ..protocol.jsonrpc import INTERNAL_ERROR
from .mcp_errors import McpError

_BINARY: Final = (bytes, bytearray, memoryview)

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class Decorator(Protocol):
    """Registers an async function, and returns it."""

    def __call__(self, function: F, /) -> F: ...


Handler = Callable[[Any, Any], Awaitable[Any]]


class HandlerDecorators:
    """The part of a low-level server that registers handlers by decorators."""

    types: ClassVar[ModuleType]

    def __init__(self) -> None:
        """Create a server without handlers."""
        self._handlers: dict[str, Handler] = {}
        self._tools: dict[str, Any] = {}  # The tools of the last list, whose schemas validate arguments and results.

    def list_tools(self) -> Decorator:
        """Return a decorator that registers a function that returns the tools, or a `ListToolsResult`."""
        return self._list_decorator("list_tools", "tools", lambda items: self.types.ListToolsResult(tools=items))

    def list_resources(self) -> Decorator:
        """Return a decorator that registers a function that returns the resources, or a `ListResourcesResult`."""
        return self._list_decorator(
            "list_resources", "resources", lambda items: self.types.ListResourcesResult(resources=items)
        )

    def list_resource_templates(self) -> Decorator:
        """Return a decorator that registers a function that returns the resource templates."""
        return self._list_decorator(
            "list_resource_templates",
            "resource_templates",
            lambda items: self.types.ListResourceTemplatesResult(resource_templates=items),
        )

    def list_prompts(self) -> Decorator:
        """Return a decorator that registers a function that returns the prompts, or a `ListPromptsResult`."""
        return self._list_decorator(
            "list_prompts", "prompts", lambda items: self.types.ListPromptsResult(prompts=items)
        )

    def get_prompt(self) -> Decorator:
        """Return a decorator that registers a function of a name and arguments; it returns a `GetPromptResult`."""
        return self._decorator("get_prompt", lambda function, params: function(params.name, params.arguments))

    def read_resource(self) -> Decorator:
        """Return a decorator that registers a function of a URI; it returns text, bytes or `ReadResourceContents`."""

        async def read(function: Callable[..., Any], params: Any) -> Any:
            contents = await function(HandlerURI(params.uri))
            return self._resource_result(params.uri, contents)

        return self._decorator("read_resource", read)

    def call_tool(self, *, validate_input: bool = True) -> Decorator:
        """Return a decorator that registers a function of a name and arguments.

        It returns content blocks, a dict of structured content, both as a tuple, or a `CallToolResult`. Exceptions
        become results with `isError` and their text. `validate_input` validates the arguments against the tool's
        schema.
        """

        async def call(function: Callable[..., Any], params: Any) -> Any:
            arguments: dict[str, Any] = params.arguments or {}
            tool = await self._tool(params.name)
            if validate_input and tool is not None and (error := _schema_error(tool.input_schema, arguments)):
                return self._error_result(f"Input validation error: {error}")
            try:
                value = await function(params.name, arguments)
                return self._tool_result(value, tool)
            except JSONRPCError:
                raise
            except Exception as exception:
                return self._error_result(str(exception))

        return self._decorator("call_tool", call)

    def completion(self) -> Decorator:
        """Return a decorator that registers a function of a reference, an argument and a context."""

        async def complete(function: Callable[..., Any], params: Any) -> Any:
            t = self.types
            completion = await function(params.ref, params.argument, params.context)
            return t.CompleteResult(completion=t.Completion(values=[]) if completion is None else completion)

        return self._decorator("complete", complete)

    def set_logging_level(self) -> Decorator:
        """Return a decorator that registers a function of the level that a client has set."""
        return self._decorator("set_level", lambda function, params: self._emptied(function(params.level)))

    def subscribe_resource(self) -> Decorator:
        """Return a decorator that registers a function of the URI that a client has subscribed to."""
        return self._decorator("subscribe", lambda function, params: self._emptied(function(HandlerURI(params.uri))))

    def unsubscribe_resource(self) -> Decorator:
        """Return a decorator that registers a function of the URI that a client has unsubscribed from."""
        return self._decorator("unsubscribe", lambda function, params: self._emptied(function(HandlerURI(params.uri))))

    def progress_notification(self) -> Decorator:
        """Return a decorator that registers a function of a token, the progress, the total and a message."""
        return self._decorator(
            "on_progress",
            lambda function, params: function(params.progress_token, params.progress, params.total, params.message),
        )

    async def _emptied(self, result: Awaitable[Any]) -> Any:
        await result
        return self.types.EmptyResult()

    def _list_decorator(self, name: str, items: str, wrap: Callable[[list[Any]], Any]) -> Decorator:
        async def list_items(function: Callable[..., Any], params: Any) -> Any:
            result = await (function(_ListRequest(params)) if inspect.signature(function).parameters else function())
            if not isinstance(result, BaseModel):
                result = wrap(list(result))
            if items == "tools":
                self._tools = {tool.name: tool for tool in getattr(result, items)}
            return result

        return self._decorator(name, list_items)

    def _decorator(self, name: str, call: Callable[[Callable[..., Any], Any], Awaitable[Any]]) -> Decorator:
        def register(function: F) -> F:
            async def handle(ctx: Any, params: Any) -> Any:
                try:
                    return await call(function, params)
                except (JSONRPCError, McpError):
                    raise
                except Exception as error:
                    raise JSONRPCError(INTERNAL_ERROR, str(error)) from error

            self._handlers[name] = handle
            return function

        return register

    async def _tool(self, name: str) -> Any:
        """Return the definition of a tool; None if the server does not list it."""
        if name not in self._tools and (list_tools := self._handlers.get("list_tools")) is not None:
            await list_tools(None, None)
        return self._tools.get(name)

    def _tool_result(self, value: Any, tool: Any) -> Any:
        t = self.types
        structured: Any = None
        content: Any = value
        if isinstance(value, BaseModel):
            return value
        if isinstance(content, tuple) and len(content := list(cast(tuple[Any, ...], value))) == 2:
            content, structured = content
        elif isinstance(value, Mapping):
            structured = cast(Mapping[str, Any], value)
            content = [t.TextContent(text=json.dumps(structured, indent=2))]
        elif isinstance(value, str) or not isinstance(value, Iterable):
            return self._error_result(f"Unexpected return type from tool: {type(content).__name__}")
        if tool is not None and tool.output_schema is not None:
            if structured is None:
                return self._error_result(
                    "Output validation error: outputSchema defined but no structured output returned"
                )
            if error := _schema_error(tool.output_schema, structured):
                return self._error_result(f"Output validation error: {error}")
        return t.CallToolResult(content=list(content), structured_content=structured, is_error=False)

    def _error_result(self, message: str) -> Any:
        return self.types.CallToolResult(content=[self.types.TextContent(text=message)], is_error=True)

    def _resource_result(self, uri: str, value: Any) -> Any:
        t = self.types
        if isinstance(value, BaseModel):
            return value
        contents: list[Any] = []
        items: Iterable[Any] = [value] if isinstance(value, (str, *_BINARY)) else value
        for item in items:
            data = getattr(item, "content", item)
            meta: dict[str, Any] = {} if getattr(item, "meta", None) is None else {"_meta": item.meta}
            mime_type = getattr(item, "mime_type", None)
            if isinstance(data, _BINARY):
                blob = base64.b64encode(bytes(cast(Any, data))).decode()
                mime_type = mime_type or "application/octet-stream"
                contents.append(t.BlobResourceContents(uri=uri, blob=blob, mime_type=mime_type, **meta))
            else:
                mime_type = mime_type or "text/plain"
                contents.append(t.TextResourceContents(uri=uri, text=data, mime_type=mime_type, **meta))
        return t.ReadResourceResult(contents=contents)


class _ListRequest:
    """A request for a page of a list, for functions that take the request."""

    def __init__(self, params: Any) -> None:
        self.params = params


class HandlerURI(str):
    """A URI as handlers of the last 1.x get it: a text with the parts of a URL, equal to a URL of pydantic."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    __hash__ = str.__hash__

    @property
    def scheme(self) -> str:
        """The part before the colon."""
        return urlsplit(str(self)).scheme

    @property
    def host(self) -> str | None:
        """The part after the slashes."""
        return urlsplit(str(self)).netloc or None

    @property
    def path(self) -> str | None:
        """The part after the host."""
        return urlsplit(str(self)).path or None

    @property
    def query(self) -> str | None:
        """The part after the question mark."""
        return urlsplit(str(self)).query or None


def _schema_error(schema: Any, value: Any) -> str | None:
    fields: dict[str, Any] = schema.model_dump(mode="json", by_alias=True) if isinstance(schema, BaseModel) else schema
    try:
        return compile_schema(fields).first_error(dict(value))
    except InvalidMessageError as error:
        return str(error)
