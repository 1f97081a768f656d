"""One client for any server: functions answer it, and results are values of Python."""

from __future__ import annotations

import copy
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, Unpack, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from mcp_runtime.bindings.arguments import HTTP_RULES, STDIO_RULES
from mcp_runtime.bindings.client import BaseClient
from mcp_runtime.client.core import RULES
from mcp_runtime.endpoint.checks import check_root
from mcp_runtime.endpoint.context import LEVELS
from mcp_runtime.errors import (
    ConnectionClosedError,
    InvalidMessageError,
    LocalError,
    MCPError,
    ProtocolViolationError,
    RemoteJSONRPCError,
)
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_runtime.protocol.model_methods import ServerDetails
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import Notification, Request
from mcp_runtime.session.requests import RequestKeywords, RequestOptions
from mcp_runtime.usage.keywords import NoAttributeError, keywords_of, nearest, refuse_unknown
from mcp_runtime.usage.rules import COUNT, FLAG, SECONDS, TEXT, Rule, are_texts, check_values, instance, is_items, shown

from .handlers import (
    Functions,
    client_with,
    line_of_function,
    own_handler,
    progress_function,
    root_fields,
    takes,
    with_fewer_arguments,
)
from .multi_client import BaseMultiClient
from .outputs import ToolOutput, ToolOutputs, Turns, json_of_data
from .own_messages import as_json, check_name, json_of, read_result, type_adapter
from .targets import client_of, is_configuration, is_transport, revisions_of
from .tools import FileRoots

_log: Final = logging.getLogger("mcp_runtime.host.client")

OutputT = TypeVar("OutputT", default=Any)
ResultT = TypeVar("ResultT", default=dict[str, Any])
_NAMED: Final = {"get_prompt": "prompts", "read_resource": "resources"}
_OPTIONS: Final = instance(RequestOptions, "RequestOptions(…), whose keywords a call has too, such as timeout=5")
_REQUEST_KEYWORDS: Final = keywords_of(RequestKeywords)
_MAX_REMEDY: Final = 300  # Characters.


_ROOTS: Final = takes(2, "the request and the context, or of fewer")


def _is_roots(value: Any) -> bool:
    if isinstance(value, FileRoots) or _ROOTS.accepts(value):
        return True
    if not is_items(value) or isinstance(value, Iterator):  # The check would read the only time.
        return False
    try:
        for root in root_fields(value)["roots"]:
            if root["uri"].encode()[:5].lower() == b"file:":  # Others are left out, with a warning.
                check_root(root["uri"])
    except (LocalError, InvalidMessageError, ValueError):
        return False
    return True


def _is_token(value: Any) -> bool:
    """Return True for "oauth", and for a token, which is not another spelling of that word."""
    is_token = isinstance(value, str) and re.fullmatch(r"[!-~]+", value) is not None
    return is_token and (value == "oauth" or value.lower() != "oauth")


def _is_seconds(value: Any) -> bool:
    return SECONDS.accepts(value.total_seconds() if isinstance(value, timedelta) else value)


_SECONDS: Final = Rule(_is_seconds, "a number of seconds above 0, or a timedelta").or_none()
_LEVEL: Final = Rule(LEVELS.__contains__, "one of " + ", ".join(map(repr, LEVELS))).or_none()
CLIENT_RULES: Final[Mapping[str, Rule]] = {
    **RULES,
    **STDIO_RULES,
    **HTTP_RULES,
    **dict.fromkeys(("elicitation", "sampling"), takes(2, "the request and the context, or of fewer").or_none()),
    "on_log": takes(2, "the log message and the context, or of fewer").or_none(),
    "on_progress": takes(3, "a Progress, or of the number, the total and the text").or_none(),
    "on_change": takes(1, "the change").or_none(),
    "on_message": takes(1, "the notification, or the error").or_none(),
    **dict.fromkeys(("on_close", "on_error"), takes(1, "the error").or_none()),
    "roots": Rule(
        _is_roots, 'a list of paths or file:// URIs, such as ["/srv"], a function, or FileRoots(…)'
    ).or_none(),
    "log_level": _LEVEL,
    "auth": Rule(
        lambda value: _is_token(value) or hasattr(value, "async_auth_flow"),
        'a bearer token without "Bearer" and spaces, "oauth", or an httpx2.Auth such as OAuthClientProvider(…)',
        is_secret=True,
    ).or_none(),
    "name": TEXT.or_none(),
    "version": TEXT.or_none(),
    "timeout": _SECONDS,
    "connect_timeout": _SECONDS,
    "max_rounds": COUNT,
    "max_bytes": COUNT.or_none(),
    "resource_updated": Rule(are_texts, 'a list of URIs, such as ["note://today"]'),
    "strict": FLAG.or_none(),
}


class HostClient:
    """The base of `Client`: one class for any server, whatever protocol version it speaks.

    Attributes:
        generated: The generated client of the newest protocol version, with a method for each message; with a
            configuration of several servers, the `MultiClient` of them.
    """

    package: ClassVar[str]
    generated_class: ClassVar[type[BaseClient]]
    multi_class: ClassVar[type[BaseMultiClient[Any]]]

    def _set_up(self, target: Any, keywords: Mapping[str, Any]) -> None:
        """Make the generated client of a target; `keywords` are those of the constructor."""
        self._target = target
        self._keywords = keywords
        self._users = 0
        self._turns = Turns()
        given = dict(keywords)
        revisions = revisions_of(self.package, given.pop("revisions"))
        on_progress = given.pop("on_progress")
        self._on_progress = None if on_progress is None else progress_function(on_progress)
        self._outputs = ToolOutputs(partial(self._iterate, "tools", "tools", {}), given["strict"])
        client_class = client_with(self.generated_class, *_functions(given), self._outputs.forget)
        settings = _settings(given)
        self._file_roots: FileRoots | None = given.get("roots")
        if is_configuration(target):
            self._several: BaseMultiClient[Any] | None = self._multi(
                client_class, target, {"revisions": revisions, **settings}
            )
            self.generated: Any = self._several
        else:
            self._several = None
            self.generated = client_of(client_class, target, revisions, settings)

    def _multi(self, client_class: type[BaseClient], target: Any, settings: dict[str, Any]) -> BaseMultiClient[Any]:
        for keyword in ("env", "cwd", "stderr", "max_bytes", "http", "auth"):
            if settings.pop(keyword, None) is not None:
                raise TypeError(f"Client() with a configuration has no keyword argument {keyword!r}: write it there")
        multi_class = type("MultiClient", (self.multi_class,), {"client_class": client_class})
        for keyword in ("on_close", "on_error"):
            if (function := settings.pop(keyword, None)) is not None:
                settings[keyword] = partial(_without_name, function)
        configuration: Any = {**target} if is_object(target) else target
        return cast("type[BaseMultiClient[Any]]", multi_class).from_config(configuration, **settings)

    # ---- the connection ----------------------------------------------------------------------------------------------

    def new(self) -> Self:
        """Return another client of the same target with the same keywords, which has a connection of its own.

        Raises LocalError for a client of a transport, which is a connection itself.
        """
        if is_transport(self._target):
            raise LocalError("new(): this client was made of a transport: make Client(…) of another transport")
        other = copy.copy(self)
        other._set_up(self._target, self._keywords)
        return other

    async def __aenter__(self) -> Self:
        """Connect. Whoever enters a connected client, in any task, shares its connection: the last one closes it."""
        async with self._turns.lock:
            if self._users == 0:
                await self.generated.__aenter__()
            self._users += 1
        return self

    async def __aexit__(self, *exception: object) -> None:
        async with self._turns.lock:
            self._users = max(self._users - 1, 0)
            if self._users == 0:
                await self.close()

    async def close(self) -> None:
        """Close the connection, for all that have entered the client. May be called more than once."""
        self._users = 0
        await self.generated.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Raise AttributeError with what to write instead."""
            generated = vars(self).get("generated")
            remedy = ""
            if not name.startswith("_") and name != "generated" and hasattr(generated, name):
                remedy = f"its generated client {type(generated).__name__} has it: write .generated.{name}"
            raise NoAttributeError(self, name, remedy)

    @property
    def server(self) -> ServerDetails:
        """The result of `initialize` or of discovery: the name, version, title, instructions and capabilities of the
        server.

        Raises ConnectionClosedError before the client is connected, and LocalError for a configuration.
        """
        if self._several is not None:
            raise LocalError("server: this client has several; write .generated.clients[name].server")
        return cast("ServerDetails", self.generated.server)

    @property
    def protocol_version(self) -> str:
        """The protocol version that was negotiated.

        Raises ConnectionClosedError before the client is connected, and LocalError for a configuration.
        """
        client: BaseClient = self._sole("protocol_version")
        assert client.server
        return client.parts.negotiated.id

    async def ping(self, *, options: RequestOptions | None = None) -> None:
        """Ask whether the server responds: with a ping, or with discovery where there is no ping.

        Raises MCPError if it does not.
        """
        for client in self._clients():
            await client.request_sign_of_life(options)

    async def set_log_level(self, level: str | None) -> None:
        """Request the log messages of a severity and above, from the next request on.

        Args:
            level: The lowest severity; None requests none, in a stateless protocol version.

        Raises LocalError for another severity.
        """
        if not _LEVEL.accepts(level):
            raise LocalError(f"set_log_level(): level must be {_LEVEL.expected}; {shown(level)} is not")
        if not self._users:
            raise ConnectionClosedError("there is no connection; use `async with`, or log_level= of the client")
        for client in self._clients():
            await client.request_log_level(level)

    def set_roots(self, *paths: str | os.PathLike[str]) -> None:
        """Set the folders and files to work on, of a client whose `roots=` are paths. Servers with a handshake are
        notified of the change; others get these paths when they request the roots again.

        Raises LocalError for a client without such roots: it has not declared any.
        """
        if self._file_roots is None:
            raise LocalError("set_roots(): the roots of this client are not paths: pass roots=[…] to Client() first")
        self._file_roots.paths = FileRoots(*paths).paths

    def _clients(self) -> list[BaseClient]:
        return [self.generated] if self._several is None else [*self._several.clients.values()]

    # ---- messages that the protocol does not have -------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        result: type[ResultT] | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ResultT:
        """Send a request that the protocol does not have, in whatever protocol version, and return its result.

        Args:
            method: The method, with the name of its vendor: "acme/search".
            params: The params: a dict or a model.
            result: The type of the result, such as a model; by default it is a dict.
            options: The options of the request.
            keywords: The options of the request, as keywords.

        Raises LocalError for a method of the protocol, and InvalidResponseError for a result of another type.
        """
        client = self._sole("request")
        check_name("request()", method, self.package, "client_to_server", self._line)
        options = client.options_with("request", options, self._with_progress(options, keywords))
        sent = await client.request_own(method, json_of("request", params), options)
        return cast(ResultT, read_result(method, sent, result))

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification that the protocol does not have.

        Args:
            method: The method, with the name of its vendor: "acme/seen".
            params: The params: a dict or a model.

        Raises LocalError for a method of the protocol.
        """
        client = self._sole("notify")
        check_name("notify()", method, self.package, "client_to_server", self._line)
        await client.notify_own(method, json_of("notify", params))

    def on(self, method: str, function: Callable[..., Any]) -> None:
        """Call a function with the params of messages that the protocol does not have, and the context.

        It is plain or `async def`. What it returns, a dict or a model, is the result of a request.

        Args:
            method: The method, with the name of its vendor: "acme/changed".
            function: A function of the params, as a dict, and the context. If the type hint of its first parameter is
                a model, a dataclass or a TypedDict, it gets the params as one.

        Raises LocalError for a method of the protocol.
        """
        check_name("on()", method, self.package, "server_to_client", line_of_function)
        if not callable(function):
            raise LocalError(f'on() needs a function: client.on("acme/changed", f); {shown(function)} is not')
        handler = own_handler(function)
        for client in self._clients():
            client.parts.own |= {(method, Request): handler, (method, Notification): handler}

    def _sole(self, function: str) -> Any:
        if self._several is not None:
            raise LocalError(
                f"{function}(): this client has several servers: make a Client(…) of the one that is meant"
            )
        return self.generated

    def _listen(self, **choices: Any) -> Any:
        return self._sole("listen").listen(**choices)

    def _line(self, name: str) -> str:
        method = name if hasattr(self, name) else f"generated.{name}"
        if name.startswith("on_"):
            method = f"generated.notify_{name.removeprefix('on_')}"
        return f"write client.{method}(…)"

    # ---- tools, resources and prompts --------------------------------------------------------------------------------

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | BaseModel | None = None,
        *,
        output: type[OutputT] | None = None,
        raise_on_error: bool = True,
        strict: bool | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ToolOutput[OutputT]:
        """Call a tool, and return what it has returned; `data` is its value.

        Args:
            name: The name of the tool.
            arguments: The arguments of the tool, as a dict or a model.
            output: The type of `data`, such as a pydantic model; None for the types of the tool's output schema.
            raise_on_error: False to return the result of a tool that has failed.
            strict: False to take structured content that does not match the output schema; True to refuse its absence
                as well; None for the value of the constructor.
            options: The options of the request.
            keywords: The options of the request, as keywords.

        Raises ToolResultError if the tool has failed, and InvalidResponseError for structured content that does not
        match the output schema, or is not an `output`.
        """
        self._refuse("call_tool", keywords, "name", "arguments", "output", "raise_on_error", "strict")
        kind = None if output is None else (output, type_adapter("call_tool(): output", output))
        given = (
            None if arguments is None else as_json(f"call_tool(): the arguments of {name!r}", arguments, json_of_data)
        )
        try:
            result = await self.generated.call_tool(
                name, given, options=options, **self._with_progress(options, keywords)
            )
        except (RemoteJSONRPCError, ProtocolViolationError) as error:
            raise await self._with_names(error, "tools", name) from None
        return await self._outputs.output(name, result, kind, raise_on_error, strict)

    def _refuse(self, function: str, keywords: RequestKeywords, *own: str) -> None:
        """Raise TypeError for a keyword that a method of this class does not have."""
        if keywords and not keywords.keys() <= _REQUEST_KEYWORDS:
            refuse_unknown(function, keywords, _REQUEST_KEYWORDS.union(own))

    def _with_progress(self, options: RequestOptions | None, keywords: RequestKeywords) -> RequestKeywords:
        """Return the keywords of a request with the function that gets its progress."""
        if options is not None and not _OPTIONS.accepts(options):
            raise LocalError(f"options must be {_OPTIONS.expected}; {shown(options)} is not")
        own = keywords.get("on_progress")
        if own is not None:
            check_values("RequestOptions", {"on_progress": own}, CLIENT_RULES)
            return {**keywords, "on_progress": progress_function(own)}
        if self._on_progress is None or "on_progress" in keywords or (options is not None and options.on_progress):
            return keywords
        return {**keywords, "on_progress": self._on_progress}

    async def _get(self, method: str, *arguments: Any, options: RequestOptions | None, keywords: Any) -> Any:
        call = getattr(self.generated, method)
        texts = [str(value) if hasattr(value, "unicode_string") else value for value in arguments]  # URLs of pydantic.
        try:
            return await call(*texts, options=options, **self._with_progress(options, keywords))
        except (RemoteJSONRPCError, ProtocolViolationError) as error:
            if method not in _NAMED:
                raise
            raise await self._with_names(error, _NAMED[method], arguments[0]) from None

    async def _with_names(self, error: RemoteJSONRPCError | ProtocolViolationError, kind: str, name: str) -> MCPError:
        """Return an error of the server, with the nearest of the names that it has, if it does not have this one."""
        if isinstance(error, ProtocolViolationError):
            has_none = self._several is None and getattr(self.server.capabilities, kind, None) is None
            text = f"the server has no {kind.removesuffix('s')} {name!r}; it has none"
            return ProtocolViolationError(text) if has_none else error
        if error.code not in (INVALID_PARAMS, METHOD_NOT_FOUND):
            return error
        try:
            items = await self._list(kind, kind, {})
            if kind == "resources":
                items += await self._list("resource_templates", kind, {})
            remedy = _remedy(name, items, kind)
        except MCPError:
            return error
        return (
            error
            if remedy is None
            else RemoteJSONRPCError(error.code, f"{error.message}; {remedy}", error.data, error.status)
        )

    async def _named(self, kind: str, name: str) -> Any:
        """Return the item of a list with this name. Raises LocalError with what exists."""
        check_values(f"get_{kind.removesuffix('s')}", {"name": name}, {"name": TEXT})
        items = await self._list(kind, kind, {})
        if (remedy := _remedy(name, items, kind)) is not None:
            raise LocalError(f"the server has no {kind.removesuffix('s')} {name!r}; {remedy}")
        return next(item for item in items if item.name == name)

    async def _list(self, method: str, capability: str, keywords: RequestKeywords) -> list[Any]:
        """Return all items of a list; none if the server has no such list."""
        self._refuse(f"list_{method}", keywords)
        items = [item async for item in self._iterate(method, capability, keywords)]
        if method == "tools":
            self._outputs.learn(items)
        return items

    async def _iterate(self, method: str, capability: str, keywords: RequestKeywords) -> AsyncIterator[Any]:
        """Yield the items of a list, page by page; none if the server has no such list."""
        if self._several is not None:
            for item in await getattr(self._several, f"list_{method}")():
                yield item
            return
        items = getattr(self.generated, f"iter_{method}")(**keywords)
        if getattr(self.server.capabilities, capability, None) is not None:
            async for item in items:
                yield item


def _remedy(name: str, items: Sequence[Any], kind: str) -> str | None:
    """Return a sentence with the nearest name, or URI, of a list; None if the list has this one, or a template that may
    have it."""
    names = [item.name for item in items if not hasattr(item, "uri_template")]
    names += [item.uri for item in items if hasattr(item, "uri")]
    templates = [item.uri_template for item in items if hasattr(item, "uri_template")]
    if name in names or any(name.startswith(template.partition("{")[0]) for template in templates):
        return None
    names += templates
    if not names:
        return "it has none"
    remedy = nearest(name, list(dict.fromkeys(names)), kind)
    return remedy if len(remedy) <= _MAX_REMEDY else f"it has {len(items)} others"


def _functions(given: dict[str, Any]) -> tuple[Functions, int]:
    """Take what the class of a client needs out of the keywords of its constructor."""
    roots: Any = given.pop("roots")
    function: Callable[..., Any] | None = None
    if callable(roots):
        function = roots
    elif roots is not None and not isinstance(roots, FileRoots):
        items = [*roots]
        if any(not hasattr(item, "__fspath__") and (not isinstance(item, str) or "://" in item) for item in items):
            function = partial(_return, items)
        else:
            given["roots"] = FileRoots(*items)
            for path in items:
                if not os.access(path, os.R_OK):
                    _log.warning("the root %r does not exist, or is not readable: servers do not get it", path)
    else:
        given["roots"] = roots
    names = ("elicitation", "sampling", "on_log", "on_change", "resource_updated", "on_message", "log_level")
    if given["resource_updated"] and given["on_change"] is None:
        raise LocalError("Client(): resource_updated=[…] needs on_change=…, the function that gets the changes")
    if given["on_message"] is not None:
        given["on_error"] = _both(given["on_error"], given["on_message"])
    return Functions(roots=function, **{name: given.pop(name) for name in names}), given.pop("max_rounds")


def _return(value: Any) -> Any:
    return value


def _both(on_error: Callable[..., Any] | None, on_message: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of an error that calls both."""
    first, second = with_fewer_arguments(on_error), with_fewer_arguments(on_message)

    async def report(error: Exception) -> None:
        for function in (first, second):
            if function is not None and hasattr(result := function(error), "__await__"):
                await result

    return report


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of a generated client."""
    settings = {name: value for name, value in given.items() if value is not None}
    for name in ("on_close", "on_error"):
        if name in settings:
            settings[name] = with_fewer_arguments(settings[name])
    settings["timeout"] = _seconds(given["timeout"])
    if (connect_timeout := settings.pop("connect_timeout", None)) is not None:
        settings["connect_options"] = RequestOptions(timeout=_seconds(connect_timeout))
    return settings


def _seconds(value: float | timedelta | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _without_name(function: Callable[..., Any], name: str, value: object) -> Any:
    """Call a function of a client with what happened to one server of several."""
    return function(value)
