"""The registry of an app: its tools, resources and prompts, and the request handlers for them and for mounted apps."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import to_jsonable_python

from mcp_products.fast.app_answers import ResultTypes
from mcp_runtime.errors import InvalidMessageError, JSONRPCError, LocalError, UnwritableValueError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.protocol.records import records
from mcp_runtime.protocol.revision import Sent
from mcp_runtime.protocol.uris import find_uri
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.lists import paginate
from mcp_runtime.usage.rules import is_items
from mcp_runtime.usage.texts import quoted, shortened

from .components.catalog import requested_version, with_requested_version
from .components.kinds import PROMPT, RESOURCE, TEMPLATE, TOOL, Kind, ListKind
from .components.named_things import NamedThing, UnknownItemError, task_lists_of, things_named
from .components.uris import with_prefixed_uri
from .components.visibility import session_rules
from .middleware.hooks import Handler, MiddlewareAdapter, MiddlewareFunction, chain, in_own_task
from .prompts import Prompt
from .providers.provider import ProvidedItems
from .resources import Resource
from .results import ShownExceptions, ToolFailures
from .signatures.forms import fallback
from .signatures.generated_types import as_own
from .tools import Tool

if TYPE_CHECKING:
    from mcp_products.extensions.tasks.store import TaskOptions
    from mcp_products.skills.server import SkillHandlers

CompletionFunction = Callable[[Any, Any, Any], Awaitable[Any]]
LifespanStates = Mapping[Any, Any]  # By registry or provider.

_MAX_COMPLETIONS: Final = 100  # The limit of the schema for one result.


class OwnMethods(Mapping[tuple[str, "type[Sent]"], Callable[..., Awaitable[Any]]]):
    """The functions of an app and of those that are mounted in it, for methods that the protocol does not have."""

    def __init__(self, registry: Registry) -> None:
        """Create the mapping of an app, which may get further functions at any time."""
        self._registry = registry

    def _all(self) -> ChainMap[tuple[str, type[Sent]], Callable[..., Awaitable[Any]]]:
        return ChainMap(*(registry.methods for registry in self._registry.all_registries()))

    def __getitem__(self, key: tuple[str, type[Sent]]) -> Callable[..., Awaitable[Any]]:
        return self._all()[key]

    def __iter__(self) -> Iterator[tuple[str, type[Sent]]]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


class Registry(ProvidedItems):
    """The tools, resources and prompts of one app, in registration order, and the handlers of their requests.

    It is what middleware, providers and transforms take of an app.

    Attributes:
        declared: The lists to declare although they are empty.
        capabilities: Capabilities to merge into the declared ones, as JSON.
        lifespan: Called with the app; the value that its async context manager yields is the state of its functions.
        changed: Notifies the clients of the app that a list has changed.
        mount: Adds another app under any prefix, without the checks of `App.mount`.
    """

    def __init__(
        self,
        types: ModuleType,
        result_types: ResultTypes,
        shown_exceptions: ShownExceptions,
        page_size: int,
    ) -> None:
        super().__init__()
        self.tools: dict[str, Tool] = {}
        self.prompts: dict[str, Prompt] = {}
        self.resources: dict[str, Resource] = {}
        self.completions: list[CompletionFunction] = []
        self.middleware: list[MiddlewareFunction] = []
        self.methods: dict[tuple[str, type[Sent]], Callable[..., Awaitable[Any]]] = {}
        self.skills: SkillHandlers | None = None
        self._t = types
        self.results = result_types
        self.shown_exceptions = shown_exceptions
        self.answers_as_json = False
        self.declared: Collection[ListKind] = ()
        self.capabilities: Mapping[str, Any] | None = None
        self.lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None
        self.changed: Callable[[ListKind], None]
        self.mount: Callable[[Any, str], None]
        self.page_size = page_size

    def handle(self, name: str, ctx: ServerContext, params: Any, states: LifespanStates) -> Awaitable[Any]:
        """Return the awaitable result of a request, through the middleware; `name` is the name of the handler."""
        ctx.state = states.get(self)
        serve: Callable[..., Awaitable[Any]] = getattr(self, name)
        if not self.middleware and not self.transforms:
            return serve(ctx, params, states)

        def handler(ctx: ServerContext, params: Any) -> Awaitable[Any]:
            return serve(ctx, params, states)

        call_next = chain([*self.middleware, *self.transforms], name, handler)
        if name == "read_resource" and (written := self.written_uri(params.uri)) != params.uri:
            return self._read_as_written(call_next, ctx, params, written)
        if name != "call_tool":
            return call_next(ctx, params)
        return self._call_tool_through(call_next, ctx, params)

    async def _read_as_written(self, call_next: Handler, ctx: ServerContext, params: Any, written: str) -> Any:
        """Return the contents of a resource with the URI of the client; middleware sees the one of the app."""
        result = await call_next(ctx, params.model_copy(update={"uri": written}))
        return with_prefixed_uri(result, written, params.uri)

    def result_types(self, name: str) -> tuple[type, ...]:
        """Return the types of the results of a request; `name` is the name of its handler."""
        return self.results[name]

    def handle_lifecycle(self, name: str, ctx: ServerContext, params: Any, handler: Handler) -> Awaitable[Any]:
        """Return the awaitable result of a message that is not about tools, resources or prompts.

        It passes the middleware objects, not the functions, which get the requests for `handle` only.
        """
        if self.has_providers:
            handler = self.through_providers(name, handler)
        if self._has_rules(ctx) and (things := things_named(name, params, task_lists_of(ctx.revision))):
            handler = self._refusing_hidden(things, handler)
        objects = self._middleware_objects()
        if not objects:
            return handler(ctx, records().as_model(params) if self.has_providers else params)
        states: LifespanStates = ctx.state or {}
        ctx.state = states.get(self)
        if name == "subscriptions_listen":  # It may go on without a task; middleware may have a deadline for its own.
            handler = in_own_task(handler)

        async def handler_of_models(ctx: ServerContext, params: Any) -> Any:
            return records().as_model(await handler(ctx, params))

        return chain(objects, name, handler_of_models)(ctx, records().as_model(params))

    def _has_rules(self, ctx: ServerContext) -> bool:
        """Return True if a rule of this app, of a mounted one or of the session may disable something."""
        rules = (registry.visibility or registry.version_ranges for registry in self.all_registries())
        return bool(self.rules_of(ctx)) or any(rules)

    def _refusing_hidden(self, things: Sequence[NamedThing], handler: Handler) -> Handler:
        """Return a handler of a message that raises JSONRPCError if a rule disables one of the things that it names."""

        async def handle(ctx: ServerContext, params: Any) -> Any:
            for thing in things:
                if await self._is_hidden(thing, ctx, params):
                    raise JSONRPCError(INVALID_PARAMS, f"{thing.kind} not found: {quoted(thing.id)}", {"uri": thing.id})
            return await handler(ctx, params)

        return handle

    async def _is_hidden(self, thing: NamedThing, ctx: ServerContext, params: Any) -> bool:
        if self.hides(thing, params, self.rules_of(ctx)):
            return True
        if thing.kind != "resource" or not self.has_providers or self.has_resource(thing.id):
            return False
        return await self._allowed(RESOURCE, thing.id, ctx, params) is None

    def hides_change(self, owner: Any, channel: Any, uri: str) -> bool:
        """Return True if a client may not know that a resource has changed, by the rules of this app or its session."""
        rules = session_rules(owner, channel)
        if self.hides(NamedThing("resource", uri), None, rules):
            return True
        if not self.has_providers or self.has_resource(uri):
            return False
        return not self._enables(rules, RESOURCE, (uri,), ())  # What providers list is not asked for each change.

    def _middleware_objects(self) -> list[MiddlewareAdapter]:
        if not self.middleware:
            return []
        return [item for item in self.middleware if isinstance(item, MiddlewareAdapter)]

    async def _call_tool_through(self, call_next: Handler, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a tool call through the middleware, which gets what the tool raises as an exception."""
        outermost = ctx.failures is None
        if not outermost:
            return await call_next(ctx, params)
        failures = ToolFailures()
        ctx.failures = failures
        try:
            return await call_next(ctx, params)
        except (JSONRPCError, InvalidMessageError):
            raise
        except Exception as error:
            begins_again = ctx.raises_failures
            if begins_again and not isinstance(error, self.shown_exceptions):
                raise
            message = failures.message(error, self.shown_exceptions, f"the tool {params.name!r}")
            return self._t.CallToolResult(content=[self._t.TextContent(text=message)], is_error=True)
        finally:
            ctx.failures = None

    def _select(self, kind: Kind, name: str, ctx: ServerContext, params: Any) -> tuple[Any, Any]:
        """Return the params of a request, and the component of this app that serves it, in the version that it gets.

        Without such a component, the params name the version of a mounted app. Raises JSONRPCError (invalid params) if
        there is something with this name that the client cannot get.
        """
        exists, item = self.selected(kind, name, params, self.rules_of(ctx))
        if not exists:
            return params, None
        if item is None:
            requested = requested_version(params)
            raise UnknownItemError(kind.list, name, "" if requested is None else f" in the version {requested!r}")
        if item.version is None:
            return params, item
        ctx.require_scopes(*item.scopes)
        return with_requested_version(params, item.version), item

    async def _serve_elsewhere(self, kind: Kind, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        """Return the result of a request for something that this app itself does not have."""
        id: str = getattr(params, kind.key)
        for prefix, inner, rest in self.mounted_with(kind, id):
            ctx.is_mounted = True
            result = await inner.handle(kind.handler, ctx, params.model_copy(update={kind.key: rest}), states)
            return kind.result_outside(prefix, result, rest, id)
        if self.has_providers and (result := await self.serve_provided(kind, ctx, params, states)) is not None:
            return result
        raise UnknownItemError(kind.list, id)

    # ---- tools ------------------------------------------------------------------------------------------------------

    async def call_tool(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        tool = self.tools.get(params.name)
        if self.visibility or ctx.connection_state.visibility or self.versions or self.version_ranges:
            params, item = self._select(TOOL, params.name, ctx, params)
            tool = None if tool is None else item
        if tool is not None:
            return await tool.call(ctx, params.arguments, self.results["call_tool"], self.shown_exceptions)
        return await self._serve_elsewhere(TOOL, ctx, params, states)

    async def list_tools(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        return await self._page(TOOL, ctx, params)

    # ---- prompts ----------------------------------------------------------------------------------------------------

    async def get_prompt(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        prompt = self.prompts.get(params.name)
        if self.visibility or ctx.connection_state.visibility or self.versions or self.version_ranges:
            params, item = self._select(PROMPT, params.name, ctx, params)
            prompt = None if prompt is None else item
        if prompt is not None:
            return await prompt.get(ctx, params.arguments, self.results["get_prompt"])
        return await self._serve_elsewhere(PROMPT, ctx, params, states)

    async def list_prompts(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        return await self._page(PROMPT, ctx, params)

    # ---- resources --------------------------------------------------------------------------------------------------

    async def read_resource(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        match = self._resource(params.uri)
        if self.visibility or ctx.connection_state.visibility or self.versions or self.version_ranges:
            params, item = self._select(RESOURCE, params.uri, ctx, params)
            match = None if match is None else (item, match[1])
        if match is not None:
            resource, values = match
            return await resource.read(ctx, params.uri, values, self.results["read_resource"])
        if self.skills is not None and (result := await self.skills.read(params.uri)) is not None:
            return result
        return await self._serve_elsewhere(RESOURCE, ctx, params, states)

    async def list_resources(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        skills = [] if self.skills is None else await self.skills.resources()
        return await self._page(RESOURCE, ctx, params, map(self._t.Resource.model_validate, skills))

    async def list_resource_templates(self, ctx: ServerContext, params: Any, states: LifespanStates) -> Any:
        return await self._page(TEMPLATE, ctx, params)

    async def _page(self, kind: Kind, ctx: ServerContext, params: Any, further: Iterable[Any] = ()) -> Any:
        """Return the result of a list request: a page of what this app and mounted ones have, then providers."""
        items = [*self.all(kind, self.rules_of(ctx)), *further]
        if self.has_providers:
            if (provider := self.sole_forwarder(ctx)) is not None:
                return await provider.forward(f"list_{kind.items}", ctx, params)
            items = await self.provided(kind, ctx, items)
        items, cursor = paginate(items, params.cursor, self.page_size)
        result_type: Any = getattr(self._t, f"List{kind.items.title().replace('_', '')}Result")
        return result_type(**{kind.items: items}, next_cursor=cursor)

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
        if not self._is_registered(params.ref) or self._hides_reference(ctx, params):
            if self.has_providers and (result := await self.complete_provided(ctx, params, states)) is not None:
                return result
            reference = shortened(getattr(params.ref, "name", None) or repr(params.ref.uri))
            raise JSONRPCError(INVALID_PARAMS, f"unknown completion reference: {reference}")
        for function in self.all_completions():
            completion = await function(params.ref, params.argument, params.context)
            if completion is not None:
                return self._t.CompleteResult(completion=self._completion(completion))
        return self._t.CompleteResult(completion=self._completion([]))

    def _is_registered(self, ref: Any) -> bool:
        """Return True if the prompt, template or resource of a completion exists in this app or a mounted one."""
        name, uri = getattr(ref, "name", None), getattr(ref, "uri", None)
        prompts = (definition.name for definition in self.all(PROMPT))
        templates = (definition.uri_template for definition in self.all(TEMPLATE))
        return name in prompts if uri is None else find_uri(uri, templates) is not None or self.has_resource(uri)

    def _hides_reference(self, ctx: ServerContext, params: Any) -> bool:
        return self._has_rules(ctx) and any(
            self.hides(thing, params, self.rules_of(ctx)) for thing in things_named("complete", params)
        )

    def _completion(self, suggestion: Any) -> Any:
        suggestion = as_own(suggestion, self._t, (self._t.Completion,))
        if isinstance(suggestion, self._t.Completion):
            return suggestion
        if not is_items(suggestion):
            raise _unwritable_suggestion(suggestion)
        values = [_suggested_text(value) for value in cast("Iterable[object]", suggestion)]
        shown = values[:_MAX_COMPLETIONS]
        return self._t.Completion(values=shown, total=len(values), has_more=len(shown) < len(values))

    # ---- registered items -------------------------------------------------------------------------------------------

    def all_completions(self) -> Iterator[CompletionFunction]:
        """Yield the completion functions of this app and of mounted apps."""
        yield from self.completions
        for _, inner in self.mounted:
            yield from inner.all_completions()

    def find_tool(self, name: str, version: str | None = None) -> tuple[Registry, Tool]:
        """Return a tool of this app or of a mounted one, also a disabled one, with its registry. Raises LocalError."""
        if name in self.tools:
            return self, self.version_named("tools", name, version)
        for _, inner, rest in self.mounted_with(TOOL, name):
            return inner.find_tool(rest, version)
        names = ", ".join(repr(definition.name) for definition in self.all(TOOL)) or "none"
        raise LocalError(f"there is no tool {name!r}; the tools are {names}")

    def task_options(self) -> list[TaskOptions]:
        """Return the options of the tools of this app and of mounted ones whose calls become tasks."""
        tools = (tool for registry in self.all_registries() for tool in registry.all_versions("tools"))
        return [tool.task for tool in tools if tool.task is not None]

    def task_of(self, name: str) -> TaskOptions | None:
        """Return the options of a tool; None if its calls become no tasks, and if there is no such tool."""
        try:
            return self.find_tool(name)[1].task
        except LocalError:
            return None

    def all_versions(self, kind: ListKind) -> Iterator[Any]:
        """Yield all versions of what this app itself has in a list."""
        for name, item in getattr(self, kind).items():
            yield from self._versions_of(kind, name, item)

    def all_registries(self) -> Iterator[Registry]:
        """Yield this registry and those of all mounted apps."""
        yield self
        for _, inner in self.mounted:
            yield from inner.all_registries()

    def has_any(self, kind: str) -> bool:
        """Return True if this app, without mounted apps, has anything of a kind."""
        sources = (*self.providers, *self.transforms, *self._middleware_objects())
        provided = any(source.provides(kind) for source in sources)
        return provided or bool(getattr(self, kind)) or (kind == "resources" and self.skills is not None)

    def has_own_items(self) -> bool:
        """Return True if this app has tools, resources or prompts besides those of providers and mounted apps."""
        own = (self.tools, self.prompts, self.resources, self.completions, self.skills)
        return any(own)


def _suggested_text(value: object) -> str:
    """Return a suggestion of a completion as text. Raises UnwritableValueError for what is not a single value."""
    try:
        plain = value if isinstance(value, str) else to_jsonable_python(value, fallback=fallback)
    except ValueError:
        raise _unwritable_suggestion(value) from None
    if not isinstance(plain, (str, int, float)):
        raise _unwritable_suggestion(value)
    return str(value)


def _unwritable_suggestion(value: object) -> UnwritableValueError:
    return UnwritableValueError(f"a completion returned a value of the type {type(value).__name__!r}: return texts")
