"""How the official SDK calls functions, and what it checks before it asks a client for a sample."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, get_args, get_type_hints

from pydantic import ConfigDict, validate_call
from pydantic_core import to_json

from mcp_runtime._lazy import LazyModule

from .errors import McpError
from .form import FORM, field_of

to_thread: Any = LazyModule("anyio.to_thread")  # Without anyio, `streams` says what to install.
get_logger: Final = logging.getLogger
validated: Final = validate_call(config=ConfigDict(arbitrary_types_allowed=True))
"""Returns a function whose arguments are validated and converted."""

_PASSED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def is_async(function: Any) -> bool:
    """Return True for an async function, a partial of one, and an object that is called as one."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return what a function returns; in 2.x a plain function runs in a worker thread."""
    if is_async(function) or FORM.is_v1:
        value = function(**arguments)
        return await value if inspect.isawaitable(value) else value
    return await to_thread.run_sync(functools.partial(function, **arguments))


def content_of(value: Any) -> str | bytes:
    """Return the content of a resource: text and bytes as they are, other values as JSON."""
    return value if isinstance(value, (str, bytes)) else to_json(value, fallback=str, indent=2).decode()


def described(fn: Callable[..., Any], name: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords with the name and the description of a function. Raises ValueError for a lambda without one."""
    name = name or fn.__name__
    if name == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")
    given = {key: value for key, value in settings.items() if value is not None}
    return {**given, "name": name, "description": given.get("description") or fn.__doc__ or ""}


def find_context_parameter(fn: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that gets the context; None without one."""
    try:
        hints = get_type_hints(fn if inspect.isroutine(fn) else type(fn).__call__)
    except Exception:  # A hint that cannot be read says nothing of a context.
        return None
    hints.pop("return", None)
    return next((name for name, hint in hints.items() if any(map(_is_context, (hint, *get_args(hint))))), None)


def _is_context(hint: Any) -> bool:
    kind = getattr(hint, "__origin__", hint)
    return isinstance(kind, type) and "Context" in (base.__name__ for base in kind.__mro__)


def inject_context(
    fn: Callable[..., Any], kwargs: dict[str, Any], context: Any, context_kwarg: str | None
) -> dict[str, Any]:
    """Return arguments with the context among them, if the function takes one."""
    return kwargs if context_kwarg is None or context is None else {**kwargs, context_kwarg: context}


def create_call_wrapper(func: Callable[..., Any], request_type: type) -> Callable[[Any], Any]:
    """Return a function of a request that passes it to `func`, if a parameter of this type has no default."""
    try:
        hints = get_type_hints(func)
        parameters = inspect.signature(func).parameters.values()
    except (ValueError, TypeError, NameError):
        return lambda request: func()
    found = [item for item in parameters if hints.get(item.name) == request_type]
    if not found or found[0].default is not inspect.Parameter.empty:
        return lambda request: func()
    name = found[0].name
    return (lambda request: func(**{name: request})) if found[0].kind in _PASSED else func


def check_sampling_tools_capability(client_caps: Any) -> bool:
    """Return True if a client can sample with tools."""
    return getattr(getattr(client_caps, "sampling", None), "tools", None) is not None


def wants_sampling_tools(tools: Any, tool_choice: Any) -> bool:
    """Return True if a request to sample needs a client that can sample with tools."""
    return tools is not None or tool_choice is not None


def validate_sampling_tools(client_caps: Any, tools: Any, tool_choice: Any) -> None:
    """Raise McpError if a request has tools, and the client cannot sample with them."""
    if wants_sampling_tools(tools, tool_choice) and not check_sampling_tools_capability(client_caps):
        raise McpError(FORM.types.INVALID_PARAMS, "Client does not support sampling tools capability")


def validate_tool_use_result_messages(messages: Sequence[Any]) -> None:
    """Raise ValueError unless the results of tools in the last message answer the uses of tools before it
    (https://modelcontextprotocol.io/specification/draft/client/sampling#tool-result-messages)."""
    last, before = ([*messages[-1:]], [*messages[-2:-1]])
    results = [block for message in last for block in message.content_as_list]
    uses = [block for message in before for block in message.content_as_list if block.type == "tool_use"]
    answers = [block for block in results if block.type == "tool_result"]
    if answers and len(answers) != len(results):
        raise ValueError("The last message must contain only tool_result content if any is present")
    if answers and not before:
        raise ValueError("tool_result requires a previous message containing tool_use")
    if answers and not uses:
        raise ValueError("tool_result blocks do not match any tool_use in the previous message")
    if uses and {block.id for block in uses} != {field_of(block, "tool_use_id") for block in answers}:
        raise ValueError("ids of tool_result blocks and tool_use blocks from previous message do not match")
