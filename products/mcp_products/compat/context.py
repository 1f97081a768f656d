"""The request and the session of functions and handlers, with the errors of the official SDK."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Generic, Self, cast

from pydantic.fields import FieldInfo

from mcp_products.app.context import current
from mcp_products.app.context.request_context import RequestContext
from mcp_products.app.context.request_views import ServerSession
from mcp_products.app.context.state_attribute import FirstT, RequestT, StateT
from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import LocalError
from mcp_runtime.server.context import ServerContext

from .auth import OfficialAccessToken, OfficialUser, access_token_of
from .forms.errors import received_errors
from .forms.form import official

starlette: Any = LazyModule("starlette.requests")  # It needs the extra `http`, as what serves such requests does.
CURRENT: Final[ContextVar[ServerContext]] = ContextVar("the context of the request that a low-level handler serves")


class OfficialSession(ServerSession):
    """The session of a client. Its requests raise McpError."""

    checks_tokens: ClassVar[bool] = False  # The token is always the client's.

    async def _request(self, name: str, params: dict[str, Any]) -> Any:
        with received_errors():
            return official(await super()._request(name, params))


class OfficialRequestContext(RequestContext[FirstT, StateT, RequestT], Generic[FirstT, StateT, RequestT]):
    """The request that a low-level handler or a middleware serves."""

    session_class: ClassVar[type[ServerSession]] = OfficialSession

    @property
    def context(self) -> Any:
        """The context of the runtime that this is a view of."""
        return self._ctx

    @property
    def request(self) -> Any:
        """The HTTP request, as Starlette has it; None over stdio and in memory."""
        return _of_starlette(super().request)


def _of_starlette(request: Any) -> Any:
    return request if request is None or find_spec("starlette") is None else starlette.Request(request.scope)


class RequestVariable:
    """The variable of the request that a low-level handler serves, `request_ctx` of 1.x; tests of programs set it."""

    set = CURRENT.set
    reset = CURRENT.reset

    def get(self, *default: Any) -> Any:
        """Return the request, or the default. Raises LookupError without both."""
        context: Any = CURRENT.get(*default)
        return OfficialRequestContext(context) if isinstance(context, ServerContext) else context


request_ctx: Final = RequestVariable()


class OfficialContextMixin:
    """The part of the context of an official app's functions that has the names and the errors of the other SDKs."""

    _request_context: Any = None
    _fastmcp: Any = None

    def __init__(
        self, *message: Any, request_context: Any = None, fastmcp: Any = None, mcp_server: Any = None, **fields: Any
    ) -> None:
        """Create the context of a message; programs create one of a request, or without one.

        Args:
            message: What the runtime creates it of.
            request_context: The request: that of a low-level server, or an object of a test that has its attributes.
            fastmcp: The app.
            mcp_server: The app, by its name in 2.x.
            fields: The values of attributes that a subclass declares.

        Raises TypeError for another keyword.
        """
        if message:
            cast(Any, super()).__init__(*message)
            return
        declared = {name for base in _subclasses_of(type(self)) for name in inspect.get_annotations(base)}
        if unknown := fields.keys() - declared:
            raise TypeError(f"{type(self).__name__}() has no keyword {min(unknown)!r}: a subclass may declare it")
        if isinstance(request_context, OfficialRequestContext):
            vars(self).update(cast("dict[str, Any]", vars(request_context.context)))
        vars(self).update(_defaults_of(type(self)) | fields)
        self._request_context = request_context
        self._fastmcp = fastmcp or mcp_server

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as that of a model: with other values of attributes, and with copies of all values."""
        copied = copy.deepcopy(self) if deep else copy.copy(self)
        vars(copied).update(update or {})
        return copied

    @property
    def fastmcp(self) -> Any:
        """The app. Raises ValueError for a context without one."""
        return self._fastmcp or cast(Any, self._of_message()).app

    mcp_server = fastmcp

    @property
    def lifespan_context(self) -> Any:
        """The value that the lifespan yielded."""
        return cast(Any, self).state

    async def notify_tools_changed(self) -> None:
        """Notify all clients that the list of tools has changed."""
        await cast(Any, self).notify_tool_list_changed()

    async def notify_resources_changed(self) -> None:
        """Notify all clients that the list of resources has changed."""
        await cast(Any, self).notify_resource_list_changed()

    async def notify_prompts_changed(self) -> None:
        """Notify all clients that the list of prompts has changed."""
        await cast(Any, self).notify_prompt_list_changed()

    @property
    def session(self) -> ServerSession:
        """The client's session. Its requests raise McpError. Raises ValueError outside of a request."""
        session: ServerSession = self.request_context.session
        return session

    @property
    def request_context(self) -> Any:
        """The request, as the official SDK shows it. Raises ValueError outside of a request."""
        if self._request_context is not None:
            return self._request_context
        return OfficialRequestContext(self._of_message())

    @property
    def request_id(self) -> Any:
        """The id of the request. Raises ValueError outside of a request."""
        return cast(Any, super()).request_id if self._request_context is None else self._request_context.request_id

    def _of_message(self) -> Self:
        if "received" in vars(self):
            return self
        raise ValueError("Context is not available outside of a request")


def _subclasses_of(kind: type) -> list[type]:
    """Return the classes of a context that are not the mixin's own bases."""
    return [base for base in kind.__mro__ if OfficialContextMixin in base.__mro__[1:]]


def _defaults_of(kind: type) -> dict[str, Any]:
    """Return the defaults of the attributes that subclasses declare as fields of a model, a copy for each context."""
    values = {name: value for base in reversed(_subclasses_of(kind)) for name, value in vars(base).items()}
    made = {
        name: value.get_default(call_default_factory=True) for name, value in values.items() if type(value) is FieldInfo
    }
    return made | {name: copy.copy(value) for name, value in values.items() if type(value) in (list, dict, set)}


# `get_access_token` of the official SDK: the token of the request that the running function serves.

auth_context_var: Final[ContextVar[OfficialUser | None]] = ContextVar("auth_context", default=None)
"""The user of the request; tests of programs set it."""


async def with_user(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
    """Serve a request whose user `get_access_token` returns: a middleware of an app."""
    access_token = access_token_of(ctx.user)
    token = auth_context_var.set(None if access_token is None else OfficialUser(access_token))
    try:
        return await call_next(ctx, params)
    finally:
        auth_context_var.reset(token)


def get_access_token() -> OfficialAccessToken | None:
    """Return the access token of the request that the running function serves; None without one."""
    ctx, user = CURRENT.get(None), auth_context_var.get()
    if ctx is not None:
        return access_token_of(ctx.user)
    return None if user is None else user.access_token


class NoRequestError(LocalError, RuntimeError, LookupError):
    """No request is handled here. FastMCP raises RuntimeError, and the official SDK LookupError, which programs
    catch."""


def _in_request(find: Callable[[], Any]) -> Any:
    try:
        return find()
    except LocalError as error:
        raise NoRequestError(str(error)) from None


def get_context() -> Any:
    """Return the context of the request that is handled now. Raises NoRequestError outside of a request."""
    return _in_request(current.get_context)


def get_http_request() -> Any:
    """Return the HTTP request that is handled now. Raises NoRequestError outside of HTTP."""
    return _of_starlette(_in_request(current.get_http_request))
