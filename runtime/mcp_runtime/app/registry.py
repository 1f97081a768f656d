"""The registry of an app: its tools, resources and prompts, and the request handlers for them and for mounted apps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

from ..endpoint.subscription_filter import filter_of
from ..errors import JSONRPCError
from ..http.urls import is_https_url
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.models import is_list
from ..server.context import ServerContext
from ..server.lists import paginate
from .prompts import Prompt
from .resources import Resource
from .tools import ShownExceptions, Tool

if TYPE_CHECKING:
    from ..extensions.skills.server import SkillHandlers

CallNext = Callable[[ServerContext, Any], Awaitable[Any]]
Middleware = Callable[[str, ServerContext, Any, CallNext], Awaitable[Any]]
CompletionFunction = Callable[[Any, Any, Any], Awaitable[Any]]
LifespanStates = Mapping["Registry", Any]
ListKind = Literal["tools", "resources", "prompts"]

_MAX_COMPLETIONS: Final = 100  # The limit of the schema for one result.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)


class Registry:
    """The tools, resources and prompts of one app, in registration order, and the handlers of their requests."""

    def __init__(
        self,
        types: ModuleType,
        result_types: Mapping[str, tuple[type, ...]],
        shown_exceptions: ShownExceptions,
        page_size: int,
    ) -> None:
        self.tools: dict[str, Tool] = {}
        self.prompts: dict[str, Prompt] = {}
        self.resources: dict[str, Resource] = {}
        self.completions: list[CompletionFunction] = []
        self.middleware: list[Middleware] = []
        self.mounted: dict[str, Registry] = {}
        self.skills: SkillHandlers | None = None
        self._t = types
        self._result_types = result_types
        self._shown_exceptions = shown_exceptions
        self.page_size = page_size

    def handle(self, name: str, ctx: ServerContext, params: Any, states: LifespanStates) -> Awaitable[Any]:
        """Return the awaitable result of a request, through the middleware; `name` is the name of the handler."""
        ctx.state = states.get(self)
        serve: Callable[..., Awaitable[Any]] = getattr(self, name)
        if not self.middleware:
            return serve(ctx, params, states)

        def handler(ctx: ServerContext, params: Any) -> Awaitable[Any]:
            return serve(ctx, params, states)

        call_next: CallNext = handler
        for middleware in reversed(self.middleware):
            call_next = partial(_call_middleware, middleware, name, call_next)
        return call_next(ctx, params)

    def required_scopes(self, name: str, params: Any) -> tuple[str, ...]:
        """Return the OAuth scopes that a request needs; `name` is the name of the handler."""
        match name:
            case "call_tool":
                return self._scopes("tools", params.name)
            case "get_prompt":
                return self._scopes("prompts", params.name)
            case "read_resource":
                return self._scopes_at(params.uri)
            case "complete":
                uri: str | None = getattr(params.ref, "uri", None)
                return self._scopes("prompts", params.ref.name) if uri is None else self._scopes_at(uri)
            case "subscribe":
                return self._scopes_at(params.uri)
            case "subscriptions_listen":
                watched = (uri for uris in filter_of(params).values() if is_list(uris) for uri in uris)
                return tuple(scope for uri in watched for scope in self._scopes_at(uri))
            case _:
                return ()

    def _scopes(self, kind: Literal["tools", "prompts"], name: str) -> tuple[str, ...]:
        registered: Mapping[str, Tool | Prompt] = getattr(self, kind)
        if name in registered:
            return registered[name].scopes
        return next((inner._scopes(kind, rest) for inner, rest in self._in_mounted(name, kind)), ())

    def _scopes_at(self, uri: str) -> tuple[str, ...]:
        """Return the scopes of a resource, or of a resource template given by its URI template."""
        match = self._resource(uri)
        resource = self.resources.get(uri) if match is None else match[0]
        if resource is not None:
            return resource.scopes
        for prefix, inner in self.mounted.items():
            rest = _strip_prefix(prefix, uri)
            if rest is not None and (inner.has_resource(rest) or rest in inner.resources):
                return inner._scopes_at(rest)
        return ()

    # ---- tools ------------------------------------------------------------------------------------------------------

    async def call_tool(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        tool = self.tools.get(params.name)
        if tool is not None:
            return await tool.call(ctx, params.arguments, self._result_types["call_tool"], self._shown_exceptions)
        for inner, name in self._in_mounted(params.name, "tools"):
            return await inner.handle("call_tool", ctx, params.model_copy(update={"name": name}), states)
        raise JSONRPCError(INVALID_PARAMS, f"unknown tool: {params.name!r}")

    async def list_tools(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        tools, cursor = paginate([*self.all("tools")], params.cursor, self.page_size)
        return self._t.ListToolsResult(tools=tools, next_cursor=cursor)

    # ---- prompts ----------------------------------------------------------------------------------------------------

    async def get_prompt(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        prompt = self.prompts.get(params.name)
        if prompt is not None:
            return await prompt.get(ctx, params.arguments, self._result_types["get_prompt"])
        for inner, name in self._in_mounted(params.name, "prompts"):
            return await inner.handle("get_prompt", ctx, params.model_copy(update={"name": name}), states)
        raise JSONRPCError(INVALID_PARAMS, f"unknown prompt: {params.name!r}")

    async def list_prompts(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        prompts, cursor = paginate([*self.all("prompts")], params.cursor, self.page_size)
        return self._t.ListPromptsResult(prompts=prompts, next_cursor=cursor)

    # ---- resources --------------------------------------------------------------------------------------------------

    async def read_resource(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        match = self._resource(params.uri)
        if match is not None:
            resource, values = match
            return await resource.read(ctx, params.uri, values, self._result_types["read_resource"])
        if self.skills is not None and (result := await self.skills.read(params.uri)) is not None:
            return result
        for prefix, inner in self.mounted.items():
            uri = _strip_prefix(prefix, params.uri)
            if uri is not None and inner.has_resource(uri):
                result = await inner.handle("read_resource", ctx, params.model_copy(update={"uri": uri}), states)
                return _with_prefixed_uri(result, uri, params.uri)
        raise JSONRPCError(INVALID_PARAMS, f"resource not found: {params.uri!r}", {"uri": params.uri})

    async def list_resources(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        skills = [] if self.skills is None else await self.skills.resources()
        skill_resources = [self._t.Resource.model_validate(skill) for skill in skills]
        resources, cursor = paginate(
            [*self.all_resources(templates=False), *skill_resources], params.cursor, self.page_size
        )
        return self._t.ListResourcesResult(resources=resources, next_cursor=cursor)

    async def list_resource_templates(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        templates, cursor = paginate([*self.all_resources(templates=True)], params.cursor, self.page_size)
        return self._t.ListResourceTemplatesResult(resource_templates=templates, next_cursor=cursor)

    # ---- skills -----------------------------------------------------------------------------------------------------

    async def list_skills(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        return await self._skills().list_skills(params)

    async def get_skill(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        return await self._skills().get_skill(params)

    async def read_directory(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        return await self._skills().read_directory(params)

    def _skills(self) -> SkillHandlers:
        assert self.skills is not None, "only an app with skills has these handlers"
        return self.skills

    # ---- completion -------------------------------------------------------------------------------------------------

    async def complete(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        self._check_registered(params.ref)
        for function in self.all_completions():
            completion = await function(params.ref, params.argument, params.context)
            if completion is not None:
                return self._t.CompleteResult(completion=self._completion(completion))
        return self._t.CompleteResult(completion=self._completion([]))

    def _check_registered(self, ref: Any) -> None:
        """Raise JSONRPCError (invalid params) if the prompt, template or resource of a completion does not exist."""
        name, uri = getattr(ref, "name", None), getattr(ref, "uri", None)
        prompts = (definition.name for definition in self.all("prompts"))
        templates = (definition.uri_template for definition in self.all_resources(templates=True))
        if name in prompts if uri is None else uri in templates or self.has_resource(uri):
            return
        raise JSONRPCError(INVALID_PARAMS, f"unknown completion reference: {name if uri is None else uri!r}")

    def _completion(self, suggestion: Any) -> Any:
        if isinstance(suggestion, self._t.Completion):
            return suggestion
        values = [str(value) for value in suggestion]
        shown = values[:_MAX_COMPLETIONS]
        return self._t.Completion(values=shown, total=len(values), has_more=len(shown) < len(values))

    # ---- registered items -------------------------------------------------------------------------------------------

    def has_any(self, kind: str) -> bool:
        """Return True if this app, without mounted apps, has anything of a kind."""
        return bool(getattr(self, kind)) or (kind == "resources" and self.skills is not None)

    def all(self, kind: Literal["tools", "prompts"]) -> Iterator[Any]:
        """Yield the definitions of this app and of mounted apps; the first one if a name occurs twice."""
        seen: set[str] = set()
        registered: Mapping[str, Tool | Prompt] = getattr(self, kind)
        for definition in (item.definition for item in registered.values()):
            seen.add(definition.name)
            yield definition
        for prefix, inner in self.mounted.items():
            for definition in inner.all(kind):
                name = f"{prefix}_{definition.name}"
                if name not in seen:
                    seen.add(name)
                    yield definition.model_copy(update={"name": name})

    def all_resources(self, *, templates: bool) -> Iterator[Any]:
        """Yield the definitions of all resources, or of all resource templates."""
        field = "uri_template" if templates else "uri"
        yield from (resource.definition for resource in self.resources.values() if resource.is_template is templates)
        for prefix, inner in self.mounted.items():
            for definition in inner.all_resources(templates=templates):
                yield definition.model_copy(update={field: _add_prefix(prefix, getattr(definition, field))})

    def all_completions(self) -> Iterator[CompletionFunction]:
        """Yield the completion functions of this app and of mounted apps."""
        yield from self.completions
        for inner in self.mounted.values():
            yield from inner.all_completions()

    def has_resource(self, uri: str) -> bool:
        """Return True if a resource has this URI, or a resource template matches it."""
        inside = ((inner, _strip_prefix(prefix, uri)) for prefix, inner in self.mounted.items())
        return self._resource(uri) is not None or any(
            rest is not None and inner.has_resource(rest) for inner, rest in inside
        )

    def _resource(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        """Return the resource of a URI and the values of its variables; exact URIs take precedence over templates."""
        exact = self.resources.get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        for resource in self.resources.values():
            if resource.is_template and (values := resource.template.match(uri)) is not None:
                return resource, values
        return None

    def _in_mounted(self, name: str, kind: Literal["tools", "prompts"]) -> Iterator[tuple[Registry, str]]:
        """Yield the mounted app that has this item, and the name of the item in that app."""
        for prefix, inner in self.mounted.items():
            rest = name.removeprefix(f"{prefix}_")
            if rest != name and any(definition.name == rest for definition in inner.all(kind)):
                yield inner, rest


async def _call_middleware(
    middleware: Middleware, name: str, call_next: CallNext, ctx: ServerContext, params: Any
) -> Any:
    result = middleware(name, ctx, params, call_next)
    return await result if inspect.isawaitable(result) else result


def _add_prefix(prefix: str, uri: str) -> str:
    """Return `scheme://path` as `scheme://prefix/path`; https URLs are unchanged."""
    match = None if is_https_url(uri) else _SCHEME.fullmatch(uri)
    return uri if match is None else f"{match[1]}{prefix}/{match[2]}"


def _strip_prefix(prefix: str, uri: str) -> str | None:
    if is_https_url(uri):
        return uri
    match = _SCHEME.fullmatch(uri)
    start = f"{prefix}/"
    return match[1] + match[2][len(start) :] if match is not None and match[2].startswith(start) else None


def _with_prefixed_uri(result: Any, uri: str, prefixed: str) -> Any:
    """Return the result of a mounted app with the URI of the request."""
    contents: list[Any] | None = getattr(result, "contents", None)
    if contents is None:
        return result
    renamed = [content.model_copy(update={"uri": prefixed}) if content.uri == uri else content for content in contents]
    return result.model_copy(update={"contents": renamed})
