"""The functions of a client's user as its handlers: plain or async, with the values that are natural in Python."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, Self, cast, get_type_hints

from pydantic import BaseModel, ValidationError

from mcp_runtime.aio.tasks import is_trio_task
from mcp_runtime.bindings.client import BaseClient, ClientContext
from mcp_runtime.endpoint.base import own_params, to_async
from mcp_runtime.errors import JSONRPCError, LocalError, MCPError
from mcp_runtime.protocol.models import PreSerialized, format_validation_error, is_model_type, validator
from mcp_runtime.protocol.revision import InputRequest, Notification, Request
from mcp_runtime.session.requests import Progress
from mcp_runtime.usage.rules import Rule, is_items, shown

from .own_messages import as_json, json_of, type_adapter

_log: Final = logging.getLogger("mcp_runtime.host.handlers")

_ACTIONS: Final = ("accept", "decline", "cancel")
_REFUSED: Final = -1  # The error code that the specification shows for a person who refuses.
_VARIADIC: Final = inspect.Parameter.VAR_POSITIONAL
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class UserFunction:
    """A function of the user, which gets as many of the offered arguments as it has parameters.

    A plain function runs in a worker thread.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._limit = parameter_count(function)
        self._in_asyncio = to_async(function)

    @property
    def limit(self) -> int | None:
        """How many arguments the function takes; None for any number."""
        return self._limit

    async def __call__(self, *offered: Any) -> Any:
        arguments = offered[: self._limit]
        if not is_trio_task():
            return await self._in_asyncio(*arguments)
        result = self._function(*arguments)
        return await result if inspect.isawaitable(result) else result


def parameter_count(function: Callable[..., Any]) -> int | None:
    """Return how many arguments a function takes without keywords; None for any number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Functions of C without a signature.
        return None
    if any(parameter.kind is _VARIADIC for parameter in parameters):
        return None
    return sum(parameter.kind in _POSITIONAL for parameter in parameters)


def takes(count: int, arguments: str) -> Rule:
    """Return the rule that a value is a function which can be called with so many arguments, or with fewer."""

    def accepts(function: Any) -> bool:
        if not callable(function):
            return False
        limit = parameter_count(function)
        offered = [None] * (count if limit is None else min(limit, count))
        try:
            inspect.signature(function).bind(*offered)
        except TypeError:
            return False
        except ValueError:  # A function of C without a signature.
            return True
        return True

    return Rule(accepts, f"a function of {arguments}")


def with_fewer_arguments(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a function that leaves out the arguments that this one does not take."""
    if function is None:
        return None
    limit = parameter_count(function)
    return lambda *offered: function(*offered[:limit])


def progress_function(function: Callable[..., Any]) -> Callable[[Progress], Awaitable[None]]:
    """Return a function of a `Progress` for one with up to three parameters: of one, that gets the `Progress`; of
    more, that gets the numbers and the message."""
    user_function = UserFunction(function)

    async def report(progress: Progress) -> None:
        if user_function.limit == 1:
            await user_function(progress)
        else:
            await user_function(progress.progress, progress.total, progress.message)

    return report


# What handlers return, as the results of the protocol.


def _fields_of(value: object) -> dict[str, Any] | None:
    """Return the fields of a dict, a model or a dataclass by their wire names; None for something else."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    has_fields = issubclass(type(value), Mapping) or dataclasses.is_dataclass(type(value))
    return as_json("what the function returns", value) if has_fields else None


def elicitation_fields(answer: object) -> dict[str, Any]:
    """Return the result of an elicitation: of the values of a form, of an action, or of None for a refusal."""
    if answer is None or isinstance(answer, bool):
        return {"action": "accept" if answer else "decline"}
    if isinstance(answer, str):
        if answer not in _ACTIONS:
            raise LocalError(
                f'elicitation: return the values of the form, "accept", "decline" or "cancel"; {shown(answer)} is not'
            )
        return {"action": answer}
    fields = _fields_of(answer)
    if fields is None:
        raise LocalError(f"elicitation: return a dict with the values of the form, or None; {shown(answer)} is not")
    if fields.get("action") in _ACTIONS and fields.keys() <= {"action", "content", "_meta"}:
        return {name: value for name, value in fields.items() if value is not None}
    return {"action": "accept", "content": {name: value for name, value in fields.items() if value is not None}}


def sampling_fields(answer: object) -> dict[str, Any]:
    """Return the sampled message: of a text, of a block of content, or of a message whose other properties may lack."""
    if answer is None:
        raise JSONRPCError(_REFUSED, "the user has refused to sample a message")
    fields: dict[str, Any] | None = {"content": answer} if isinstance(answer, str) else _fields_of(answer)
    if fields is None:
        raise LocalError(f"sampling: return a text, a message or a block of content; {shown(answer)} is not")
    if "content" not in fields:
        fields = {"content": fields}
    if isinstance(fields["content"], str):
        fields["content"] = {"type": "text", "text": fields["content"]}
    return {"role": "assistant", "model": "unknown", "stopReason": "endTurn", **fields}


def root_fields(roots: object) -> dict[str, Any]:
    """Return the list of roots: of paths, of `file://` URIs, of dicts or of models."""
    fields = _fields_of(roots)
    if fields is not None and "roots" in fields:
        return fields
    if roots is None:
        return {"roots": []}
    if not is_items(roots):
        raise LocalError(f'roots: return a list of paths or URIs, such as ["/srv"]; {shown(roots)} is not')
    return {"roots": [_root(root) for root in cast("Iterable[object]", roots)]}


def _root(root: object) -> dict[str, Any]:
    if isinstance(root, (str, os.PathLike)):
        text = os.fspath(cast("str | os.PathLike[str]", root))
        if "://" in text:
            return {"uri": text}
        path = Path(text).absolute()
        name = path.name.encode(errors="replace").decode()  # It may have bytes that are not UTF-8.
        return {"uri": path.as_uri(), "name": name} if name else {"uri": path.as_uri()}
    fields = _fields_of(root)
    if fields is None or "uri" not in fields:
        raise LocalError(f'roots: a root is a path or a URI, such as "/srv"; {shown(root)} is not')
    return {name: value for name, value in fields.items() if value is not None}


# The class of a client with these functions.

_REQUESTS: Final[Mapping[str, tuple[str, Callable[[object], dict[str, Any]]]]] = {
    "elicitation": ("on_elicit", elicitation_fields),
    "sampling": ("on_create_message", sampling_fields),
    "roots": ("on_list_roots", root_fields),
}
_LOG: Final = "on_logging_message"
_TOOLS: Final = "on_tool_list_changed"
_LIST_CHANGED: Final = "_list_changed"


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a client, and what they need."""

    elicitation: Callable[..., Any] | None = None
    sampling: Callable[..., Any] | None = None
    roots: Callable[..., Any] | None = None
    on_log: Callable[..., Any] | None = None
    on_change: Callable[..., Any] | None = None
    resource_updated: Sequence[str] = ()
    on_message: Callable[..., Any] | None = None
    log_level: str | None = None


class FunctionClient(BaseClient):
    """The base of a generated client whose handlers are functions of its user."""

    functions: ClassVar[Functions]

    @property
    def given(self) -> list[str]:
        """The keywords of `Client` with which its user handles messages of the server."""
        names = [field.name for field in dataclasses.fields(Functions)]
        given = [name for name in names if getattr(self.functions, name) not in (None, ())]
        return given if self._file_roots is None else [*given, "roots"]

    async def __aenter__(self) -> Self:
        if is_trio_task():
            return await super().__aenter__()  # It calls this method again, in an event loop of asyncio.
        self._log_level = self.functions.log_level
        await super().__aenter__()
        try:
            if self.functions.log_level is not None:
                await self.request_log_level(self.functions.log_level)
            if self.functions.on_change is not None:
                await self._watch(UserFunction(self.functions.on_change))
        except BaseException:
            await self.close()
            raise
        return self

    async def _watch(self, on_change: UserFunction) -> None:
        """Subscribe to what the server offers, and call the function with each change."""
        client: Any = self
        lists = [name for name in inspect.signature(client.listen).parameters if name.endswith(_LIST_CHANGED)]
        uris = {"resource_updated": [*self.functions.resource_updated]} if self.functions.resource_updated else {}
        subscription = client.listen(**uris, **(dict.fromkeys(lists, True) if uris else {}))
        try:
            await subscription.__aenter__()
        except MCPError as error:
            _log.debug("the server offers no changes: %s", error)
            return

        async def report() -> None:
            try:
                async for change in subscription:
                    try:
                        await on_change(change)
                    except Exception as error:
                        self.report_error(error)
            except MCPError as error:
                _log.debug("the subscription to changes has ended: %s", error)
            finally:
                await subscription.close()

        self._background.append(asyncio.create_task(report()))

    def report_error(self, error: Exception) -> None:
        """Tell an error of a function that no call raises."""
        if self._observer is not None:
            self._observer.report(error)
        else:
            _log.error("a function of the client failed", exc_info=error)


def client_with(
    base: type[BaseClient], functions: Functions, max_rounds: int, forget_tools: Callable[[], None]
) -> type[BaseClient]:
    """Return a subclass of a generated client whose `on_…` methods call these functions.

    Args:
        base: The generated client.
        functions: The functions of its user.
        max_rounds: How often a request is sent again with the answers of these functions.
        forget_tools: Is called when the tools of the server have changed.
    """
    methods: dict[str, Any] = {"functions": functions, "_max_rounds": max_rounds, "__module__": __name__}
    rows = {row.name: row for row in base.revision.rows if row.direction == "server_to_client"}
    for keyword, (name, to_fields) in _REQUESTS.items():
        function, row = getattr(functions, keyword), rows.get(name)
        if function is not None and isinstance(row, (Request, InputRequest)):
            methods[name] = _answering(function, keyword, row.result, to_fields)

    async def tools_changed() -> None:
        forget_tools()

    for name, row in rows.items():
        on_params = {_LOG: functions.on_log, _TOOLS: tools_changed}.get(name)
        if isinstance(row, Notification) and hasattr(base, name) and (on_params or functions.on_message):
            methods[name] = _telling(on_params, functions.on_message, partial(_notification_type, base, name))
    return cast("type[BaseClient]", type("Client", (FunctionClient, base), methods))


def _answering(
    function: Callable[..., Any], keyword: str, result: Any, to_fields: Callable[[object], dict[str, Any]]
) -> Callable[..., Awaitable[Any]]:
    """Return the handler of a request that calls this function with the params and the context."""
    user_function = UserFunction(function)

    async def answer(self: Any, ctx: ClientContext, params: Any) -> Any:
        value = await user_function(params, ctx)
        if isinstance(value, result):
            return value
        try:
            return validator(result)(to_fields(value))
        except ValidationError as error:
            raise LocalError(f"{keyword}: {shown(value)} is not an answer: {format_validation_error(error)}") from None

    return answer


# Messages that the protocol does not have.

_LINES: Final[Mapping[str, str]] = {
    "on_elicit": "elicitation=…",
    "on_create_message": "sampling=…",
    "on_list_roots": "roots=…",
    _LOG: "on_log=…",
    "on_progress": "on_progress=…",
}


def line_of_function(name: str) -> str:
    """Return the keyword of `Client` for a message of the protocol, by the name of its handler."""
    changes = "on_change=…" if name.endswith(("list_changed", "resource_updated")) else "on_message=…"
    return f"write Client(target, {_LINES.get(name, changes)})"


def own_handler(function: Callable[..., Any]) -> Callable[..., Awaitable[PreSerialized]]:
    """Return the handler of messages that the protocol does not have, which calls a function of the user."""
    user_function, read = UserFunction(function), _params_reader(function)

    async def handle(ctx: ClientContext, params: Any) -> PreSerialized:
        value = await user_function(read(own_params(params)), ctx)
        return PreSerialized(json_of("on", value))

    return handle


def _params_reader(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """Return what makes the first parameter of a function of the params: a model if its type hint is one."""
    try:
        hints = get_type_hints(function)
        first = next(iter(inspect.signature(function).parameters), "")
    except (NameError, TypeError, ValueError, AttributeError):  # As of a function that is written in C.
        return _unchanged
    hint: Any = hints.get(first)
    return type_adapter("on(): the type of the params", hint).validate_python if _has_fields(hint) else _unchanged


def _has_fields(hint: Any) -> bool:
    """Return True for a model, a dataclass and a TypedDict."""
    return inspect.isclass(hint) and (
        is_model_type(hint) or hasattr(hint, "__total__") or dataclasses.is_dataclass(hint)
    )


def _unchanged(params: dict[str, Any]) -> dict[str, Any]:
    return params


def _notification_type(base: type[BaseClient], name: str) -> Any:
    """Return the type of the notification that a handler such as `on_tool_list_changed` handles."""
    words = name.removeprefix("on_").split("_")
    types = import_module(f"{base.__module__.rpartition('.')[0]}.types")
    return getattr(types, "".join(word.capitalize() for word in words) + "Notification")


def _telling(
    on_params: Callable[..., Any] | None, on_message: Callable[..., Any] | None, notification_type: Callable[[], Any]
) -> Callable[..., Awaitable[None]]:
    """Return the handler of a notification that calls one function with its params, and then another with all of it."""
    with_params = None if on_params is None else UserFunction(on_params)
    with_message = None if on_message is None else UserFunction(on_message)

    async def tell(self: Any, ctx: ClientContext, params: Any) -> None:
        if with_params is not None:
            await with_params(params, ctx)
        if with_message is not None:
            await with_message(notification_type()(params=params))

    return tell
