"""Middleware that caches results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, Final, TypedDict

from pydantic_core import to_json

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError

from ..components.catalog import requested_version
from ..components.kinds import BY_HANDLER, BY_LIST_HANDLER
from .hooks import CallNext, Middleware, MiddlewareContext

_LIST_TTL: Final = 300.0
_ITEM_TTL: Final = 3600.0
_TTLS: Final = {**dict.fromkeys(BY_LIST_HANDLER, _LIST_TTL), **dict.fromkeys(BY_HANDLER, _ITEM_TTL)}
_RETRY_FIELDS: Final = ("input_responses", "request_state")


class CacheSettings(TypedDict, total=False):
    """How the results of one kind of request are cached: `ttl` in seconds, `enabled`, and for tool calls the names of
    the tools that are cached (`included_tools`) or not (`excluded_tools`)."""

    ttl: float
    enabled: bool
    included_tools: Collection[str]
    excluded_tools: Collection[str]


class ResponseCachingMiddleware(Middleware):
    """Cache the results of lists, tool calls, resources and prompts in memory.

    Results are cached by user, by all that the token of the user allows, by method and params; without authentication,
    all clients share them. Error results, requests that are part of a multi round-trip request, and those of sessions
    with `ctx.enable_components` or `ctx.disable_components` are not cached. A change of the app's tools, resources,
    prompts or their visibility empties the cache.

    Tool calls are cached as well: exclude tools whose result changes, or whose call has an effect.
    """

    def __init__(
        self,
        *,
        list_tools_settings: CacheSettings | None = None,
        list_resources_settings: CacheSettings | None = None,
        list_prompts_settings: CacheSettings | None = None,
        call_tool_settings: CacheSettings | None = None,
        read_resource_settings: CacheSettings | None = None,
        get_prompt_settings: CacheSettings | None = None,
        max_item_size: int = 1024 * 1024,
        max_items: int = 1000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Create a middleware. Raises LocalError for an unknown setting or a `ttl` that is not above 0.

        Args:
            list_tools_settings: By default 5 minutes.
            list_resources_settings: Those of resources and of resource templates; by default 5 minutes.
            list_prompts_settings: By default 5 minutes.
            call_tool_settings: By default all tools, for an hour.
            read_resource_settings: By default an hour.
            get_prompt_settings: By default an hour.
            max_item_size: The maximum size of a cached result as JSON, in bytes.
            max_items: The number of cached results; those that were not used for the longest time are dropped.
            clock: Returns the time in seconds.
        """
        self._settings: dict[str, CacheSettings] = {
            "list_tools": list_tools_settings or {},
            "list_resources": list_resources_settings or {},
            "list_resource_templates": list_resources_settings or {},
            "list_prompts": list_prompts_settings or {},
            "call_tool": call_tool_settings or {},
            "read_resource": read_resource_settings or {},
            "get_prompt": get_prompt_settings or {},
        }
        for name, settings in self._settings.items():
            _check(name, settings)
        self.max_item_size = max_item_size
        self.max_items = max_items
        self._clock = clock or clocks.monotonic
        self._results: OrderedDict[bytes, tuple[float, Any]] = OrderedDict()
        self._watched: dict[int, Any] = {}  # By their `id`, which no other app gets meanwhile.
        self.hits = 0
        """How many results came from the cache."""
        self.misses = 0
        """How many results were not in the cache."""

    async def on_request(self, context: MiddlewareContext, call_next: CallNext) -> Any:
        """Return the cached result, or cache that of the handler."""
        settings = self._settings.get(context.name)
        if settings is None or not _is_cacheable(context, settings):
            return await call_next(context)
        self._watch(context.app)
        key = _key(context)
        expires, result = self._results.get(key, (0.0, None))
        if result is not None and self._clock() < expires:
            self.hits += 1
            self._results.move_to_end(key)
            return result.model_copy(deep=True)
        self.misses += 1
        watched = self._results
        result = await call_next(context)
        is_final = getattr(result, "input_requests", None) is None and getattr(result, "is_error", None) is not True
        if is_final and watched is self._results and len(result.model_dump_json().encode()) <= self.max_item_size:
            expires = self._clock() + settings.get("ttl", _TTLS[context.name])
            self._results[key] = expires, result.model_copy(deep=True)
            while len(self._results) > self.max_items:
                self._results.popitem(last=False)
        return result

    def clear(self, *_: object) -> None:
        """Empty the cache. Results of handlers that run meanwhile are not cached."""
        self._results = OrderedDict()

    def _watch(self, app: Any) -> None:
        if app is not None and id(app) not in self._watched:
            self._watched[id(app)] = app
            app.on_change.append(self.clear)


def _check(name: str, settings: Mapping[str, Any]) -> None:
    allowed = {"ttl", "enabled"} | ({"included_tools", "excluded_tools"} if name == "call_tool" else set[str]())
    if unknown := sorted(settings.keys() - allowed):
        raise LocalError(f"{name}_settings has no {unknown[0]!r}; it has {', '.join(sorted(allowed))}")
    if not settings.get("ttl", 1) > 0:
        raise LocalError(f"{name}_settings: ttl={settings['ttl']!r} is not a number of seconds above 0")


def _is_cacheable(context: MiddlewareContext, settings: CacheSettings) -> bool:
    if settings.get("enabled") is False or context.ctx.connection_state.visibility is not None:
        return False  # The rules of a session change what it may list and call.
    if any(getattr(context.message, field, None) for field in _RETRY_FIELDS):
        return False
    tool = context.message.name if context.name == "call_tool" else None
    included = settings.get("included_tools")
    return tool is None or ((included is None or tool in included) and tool not in settings.get("excluded_tools", ()))


def _key(context: MiddlewareContext) -> bytes:
    """Return the key of a request: its app, what its token allows, its method, its params without `_meta`, and the
    version."""
    ctx = context.ctx
    rights = "" if ctx.user is None else ctx.user.rights_key
    params = context.message.model_dump()
    params.pop("_meta", None)
    return sha256(to_json([id(context.app), rights, context.name, params, requested_version(context.message)])).digest()
