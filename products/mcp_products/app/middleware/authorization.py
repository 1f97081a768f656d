"""Middleware that decides by the user of a request which tools, resources and prompts it may use."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp_runtime.errors import JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INVALID_REQUEST
from mcp_runtime.session.interfaces import AuthenticatedUser
from mcp_runtime.usage.texts import quoted

from ..components.catalog import named_kind
from ..components.kinds import BY_LIST_HANDLER, KINDS, RESOURCE, ComponentKind, Kind
from ..components.named_things import task_lists_of, things_named
from ..components.visibility import text_set
from ..providers.provider import listed_tags
from .hooks import CallNext, Middleware, MiddlewareContext


@dataclass(frozen=True)
class AccessRequest:
    """What an authorization check decides about.

    Attributes:
        user: The authenticated user; None for an anonymous client.
        kind: Whether it is a tool, a resource, a resource template or a prompt.
        name: The name of the tool or prompt, the URI of the resource or its URI template.
        tags: The tags of the component.
        ctx: The context of the request.
        scopes: The OAuth scopes that the component needs by itself.
    """

    user: AuthenticatedUser | None
    kind: ComponentKind
    name: str
    tags: frozenset[str]
    ctx: Any
    scopes: tuple[str, ...] = ()

    @property
    def token(self) -> AuthenticatedUser | None:
        """The user; FastMCP's name of `user`, which has the `scopes` and `claims` of the token."""
        return self.user

    @property
    def component(self) -> AccessRequest:
        """What the check decides about, with its `name` and `tags`; FastMCP's name."""
        return self


_LISTS: Final[Mapping[str, tuple[str, Kind]]] = {
    **{name: (kind.items, kind) for name, kind in BY_LIST_HANDLER.items()},
    "list_skills": ("skills", RESOURCE),
    "read_directory": ("resources", RESOURCE),
}
"""The property of a list result that has the items, and what these are, by the handler of the list."""

AuthorizationCheck = Callable[[AccessRequest], bool | Awaitable[bool]]


class ScopeCheck:
    """A check that the access token has OAuth scopes; with `tag`, for components with this tag."""

    def __init__(self, scopes: Sequence[str], tag: str | None = None) -> None:
        self.scopes = tuple(scopes)
        self.tag = tag

    def __call__(self, request: AccessRequest) -> bool:
        """Return True if the user has all scopes."""
        if self.tag is not None and self.tag not in request.tags:
            return True
        if request.user is None or not request.user.scopes.issuperset(self.scopes):
            return False
        request.ctx.require_scopes(*self.scopes)  # Has them noted for those who read the result later.
        return True


def require_scopes(*scopes: str) -> ScopeCheck:
    """Return a check that the access token has all of these OAuth scopes. Raises LocalError without scopes."""
    if not scopes:
        raise LocalError('require_scopes() needs a scope: write require_scopes("read")')
    return ScopeCheck(sorted(text_set("require_scopes()", "scopes", scopes)))


def own_scopes(request: AccessRequest) -> bool:
    """Return True if the user has the `scopes` of the component itself: a check by which lists leave out the others."""
    return not request.scopes or (request.user is not None and request.user.scopes.issuperset(request.scopes))


def restrict_tag(tag: str, *, scopes: Collection[str]) -> ScopeCheck:
    """Return a check that the access token has OAuth scopes for everything with a tag; the rest is allowed."""
    return ScopeCheck(sorted(text_set("restrict_tag()", "scopes", scopes)), tag)


class AuthMiddleware(Middleware):
    """List and serve only what all checks allow for the user of a request.

    Over stdio and in memory there are no users, and nothing is checked. A refused request gets an error; a missing
    OAuth scope is answered with an `insufficient_scope` challenge over HTTP.
    """

    def __init__(self, auth: AuthorizationCheck | Sequence[AuthorizationCheck]) -> None:
        """Create a middleware. Raises LocalError if a check is not callable.

        Args:
            auth: A check or several. A check gets an AccessRequest, and returns True to allow it; it can be an
                `async def`.
        """
        self._checks: list[AuthorizationCheck] = [auth] if callable(auth) else list(auth)
        if wrong := [check for check in self._checks if not callable(check)]:
            raise LocalError(f"AuthMiddleware(): {wrong[0]!r} is not a check: pass functions, or require_scopes(…)")

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Refuse a request that names a tool, a prompt or a resource that a check does not allow, and list none.

        That holds for each request that names it: to call or read it, to subscribe to it, to complete its arguments.
        """
        for thing in things_named(context.name, context.message, task_lists_of(context.ctx.revision)):
            if thing.kind != "task":  # A task belongs to the user who created it, with the scopes of its call.
                await self._require(context, thing.kind, thing.id)
        result = await call_next(context)
        if context.name not in _LISTS or _has_no_users(context):
            return result
        items, kind = _LISTS[context.name]
        allowed = [
            item
            for item in getattr(result, items)
            if not await self._refusals(context, kind.name, getattr(item, kind.key), item)
        ]
        return result.model_copy(update={items: allowed})

    async def _require(self, context: MiddlewareContext, kind: ComponentKind, name: str) -> None:
        refusals = [] if _has_no_users(context) else await self._refusals(context, kind, name, context.message)
        if not refusals:
            return
        scopes = [check.scopes for check in refusals if isinstance(check, ScopeCheck)]
        if len(scopes) == len(refusals):
            # The scopes of all refused checks, so that the client gets them with one new token.
            context.ctx.require_scopes(*(scope for names in scopes for scope in names))
        raise JSONRPCError(INVALID_REQUEST, f"the {kind} {quoted(name)} is not allowed for this user")

    async def _refusals(
        self, context: MiddlewareContext, kind: ComponentKind, name: str, item: Any
    ) -> list[AuthorizationCheck]:
        """Return the checks that refuse a component; `item` has the version: the params or a definition."""
        if kind in ("resource", "template"):
            name = context.app.registry.written_uri(name)
        component = selected_component(context, kind, name, item)
        tags = await _provided_tags(context, kind, name, item) if component is None else component.tags
        scopes = () if component is None else component.scopes
        return [check for check in self._checks if not await self.allows(check, context, kind, name, tags, scopes)]

    async def allows(
        self,
        check: AuthorizationCheck,
        context: MiddlewareContext,
        kind: ComponentKind,
        name: str,
        tags: frozenset[str],
        scopes: tuple[str, ...] = (),
    ) -> bool:
        """Return True if a check allows a component to the user of a request."""
        allowed = check(AccessRequest(context.ctx.user, kind, name, tags, context.ctx, scopes))
        return bool(await allowed if inspect.isawaitable(allowed) else allowed)


def _has_no_users(context: MiddlewareContext) -> bool:
    return context.ctx.channel.auth is None


async def _provided_tags(context: MiddlewareContext, kind: ComponentKind, name: str, item: Any) -> frozenset[str]:
    """Return the tags of what a provider has; for a request, those of all versions that it lists."""
    if item is not context.message:
        return listed_tags(item)
    registry = context.app.registry
    if not registry.has_providers:
        return frozenset()
    definitions = await registry.definitions_provided(KINDS[kind], name, context.ctx)
    return frozenset(tag for definition in definitions for tag in listed_tags(definition))


def selected_component(context: MiddlewareContext, kind: ComponentKind, name: str, item: Any) -> Any:
    """Return the component of an app in the version of a request or a definition; None if it does not exist."""
    catalog = context.app.registry
    return catalog.selected(named_kind(kind), name, item, catalog.rules_of(context.ctx))[1]
