"""Tools, resources and prompts go in; the answers to requests for them come out, those of mounted apps among them."""

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

_MAX_COMPLETIONS: Final = 100  # Of one answer; the schema allows no more.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)


class Registry:
    """What one app offers, in the order in which it was added; each method of a request answers it."""

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
        """The answer to the request that the method of this name serves, through the middleware, to be awaited."""
        ctx.state = states.get(self)
        serve: Callable[..., Awaitable[Any]] = getattr(self, name)
        if not self.middleware:
            return serve(ctx, params, states)

        def last(ctx: ServerContext, params: Any) -> Awaitable[Any]:
            return serve(ctx, params, states)

        go: CallNext = last
        for each in reversed(self.middleware):
            go = partial(_call_middleware, each, name, go)
        return go(ctx, params)

    def required_scopes(self, name: str, params: Any) -> tuple[str, ...]:
        """The scopes that a request needs for what it is about, by the method that serves it."""
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
        own: Mapping[str, Tool | Prompt] = getattr(self, kind)
        if name in own:
            return own[name].scopes
        return next((inner._scopes(kind, rest) for inner, rest in self._in_mounted(name, kind)), ())

    def _scopes_at(self, uri: str) -> tuple[str, ...]:
        """Those of a resource, or of a template that is named by its own URI."""
        found = self._resource(uri)
        resource = self.resources.get(uri) if found is None else found[0]
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
        found = self._resource(params.uri)
        if found is not None:
            resource, values = found
            return await resource.read(ctx, params.uri, values, self._result_types["read_resource"])
        if self.skills is not None and (answer := await self.skills.read(params.uri)) is not None:
            return answer
        for prefix, inner in self.mounted.items():
            uri = _strip_prefix(prefix, params.uri)
            if uri is not None and inner.has_resource(uri):
                answer = await inner.handle("read_resource", ctx, params.model_copy(update={"uri": uri}), states)
                return _with_prefixed_uri(answer, uri, params.uri)
        raise JSONRPCError(INVALID_PARAMS, f"resource not found: {params.uri!r}", {"uri": params.uri})

    async def list_resources(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        skills = [] if self.skills is None else await self.skills.resources()
        more = [self._t.Resource.model_validate(each) for each in skills]
        resources, cursor = paginate([*self.all_resources(templates=False), *more], params.cursor, self.page_size)
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
        for each in self.all_completions():
            found = await each(params.ref, params.argument, params.context)
            if found is not None:
                return self._t.CompleteResult(completion=self._completion(found))
        return self._t.CompleteResult(completion=self._completion([]))

    def _check_registered(self, ref: Any) -> None:
        """Raise JSONRPCError (invalid params) for a prompt, a template or a resource that there is not."""
        name, uri = getattr(ref, "name", None), getattr(ref, "uri", None)
        prompts = (each.name for each in self.all("prompts"))
        templates = (each.uri_template for each in self.all_resources(templates=True))
        if name in prompts if uri is None else uri in templates or self.has_resource(uri):
            return
        raise JSONRPCError(INVALID_PARAMS, f"nothing to complete for: {name if uri is None else uri!r}")

    def _completion(self, found: Any) -> Any:
        if isinstance(found, self._t.Completion):
            return found
        values = [str(each) for each in found]
        few = values[:_MAX_COMPLETIONS]
        return self._t.Completion(values=few, total=len(values), has_more=len(few) < len(values))

    # ---- what there is ----------------------------------------------------------------------------------------------

    def has_any(self, kind: str) -> bool:
        """Whether there is anything of a kind here, but for mounted apps."""
        return bool(getattr(self, kind)) or (kind == "resources" and self.skills is not None)

    def all(self, kind: Literal["tools", "prompts"]) -> Iterator[Any]:
        """The definitions, each name once: those of this app first, then those of the mounted ones."""
        seen: set[str] = set()
        own: Mapping[str, Tool | Prompt] = getattr(self, kind)
        for definition in (each.definition for each in own.values()):
            seen.add(definition.name)
            yield definition
        for prefix, inner in self.mounted.items():
            for definition in inner.all(kind):
                name = f"{prefix}_{definition.name}"
                if name not in seen:
                    seen.add(name)
                    yield definition.model_copy(update={"name": name})

    def all_resources(self, *, templates: bool) -> Iterator[Any]:
        """The definitions of the resources, or those of the templates."""
        field = "uri_template" if templates else "uri"
        yield from (each.definition for each in self.resources.values() if each.is_template is templates)
        for prefix, inner in self.mounted.items():
            for definition in inner.all_resources(templates=templates):
                yield definition.model_copy(update={field: _add_prefix(prefix, getattr(definition, field))})

    def all_completions(self) -> Iterator[CompletionFunction]:
        yield from self.completions
        for inner in self.mounted.values():
            yield from inner.all_completions()

    def has_resource(self, uri: str) -> bool:
        """Whether a resource or a template has this URI."""
        inside = ((inner, _strip_prefix(prefix, uri)) for prefix, inner in self.mounted.items())
        return self._resource(uri) is not None or any(
            rest is not None and inner.has_resource(rest) for inner, rest in inside
        )

    def _resource(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        """The resource of a URI and the values of its variables: a URI that was given as it is comes first."""
        exact = self.resources.get(uri)
        if exact is not None and not exact.is_template:
            return exact, {}
        for each in self.resources.values():
            if each.is_template and (values := each.template.match(uri)) is not None:
                return each, values
        return None

    def _in_mounted(self, name: str, kind: Literal["tools", "prompts"]) -> Iterator[tuple[Registry, str]]:
        """The mounted app that has this, and its name there."""
        for prefix, inner in self.mounted.items():
            rest = name.removeprefix(f"{prefix}_")
            if rest != name and any(each.name == rest for each in inner.all(kind)):
                yield inner, rest


async def _call_middleware(
    middleware: Middleware, name: str, call_next: CallNext, ctx: ServerContext, params: Any
) -> Any:
    answer = middleware(name, ctx, params, call_next)
    return await answer if inspect.isawaitable(answer) else answer


def _add_prefix(prefix: str, uri: str) -> str:
    """`scheme://path` as `scheme://prefix/path`; an address on the web stays what it is."""
    found = None if is_https_url(uri) else _SCHEME.fullmatch(uri)
    return uri if found is None else f"{found[1]}{prefix}/{found[2]}"


def _strip_prefix(prefix: str, uri: str) -> str | None:
    if is_https_url(uri):
        return uri
    found = _SCHEME.fullmatch(uri)
    start = f"{prefix}/"
    return found[1] + found[2][len(start) :] if found is not None and found[2].startswith(start) else None


def _with_prefixed_uri(result: Any, uri: str, prefixed: str) -> Any:
    """The answer of a mounted app, with the URI that was asked for."""
    contents: list[Any] | None = getattr(result, "contents", None)
    if contents is None:
        return result
    renamed = [each.model_copy(update={"uri": prefixed}) if each.uri == uri else each for each in contents]
    return result.model_copy(update={"contents": renamed})
