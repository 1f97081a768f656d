"""Changed copies of tools: `Tool.from_tool`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from mcp_products.fast.app_answers import ResultTypes
from mcp_runtime.errors import InvalidMessageError, JSONRPCError, LocalError, ToolError
from mcp_runtime.protocol.models import format_validation_error
from mcp_runtime.server.context import ServerContext

from .components.functions import checked_signature
from .context.context import with_encrypted_state
from .registry import LifespanStates, Registry
from .results import ShownExceptions, ToolFailures, output_from_annotation, output_from_schema
from .settings import Item, ToolSettings, to_wire
from .signatures.signature import Signature
from .tools import CURRENT, UNSET, ArgTransform, Tool, ToolTransform, check_name

_NO_CHANGE: Final = ArgTransform()


def transformed_tool(
    transform: ToolTransform, registry: Registry, t: ModuleType, coerce: bool, indent: int | None
) -> TransformedTool:
    """Return the changed copy of a tool.

    Args:
        transform: What to copy, and the changes.
        registry: The registry of the app that gets the copy.
        t: The types of the protocol version.
        coerce: Whether the arguments of a function that is not a tool yet are converted.
        indent: The spaces of indented JSON text, for such a function.

    Raises LocalError if there is no such tool, and for changes that do not fit it.
    """
    source = transform.source
    if isinstance(source, Tool):
        return TransformedTool(transform, source, _owner(registry, source) or registry, registry, t)
    if isinstance(source, str):
        owner, tool = registry.find_tool(source)
        return TransformedTool(transform, tool, owner, registry, t)
    if not callable(source):
        raise LocalError(f"from_tool(): {source!r} is not a tool: pass its name, its function or app.get_tool(name)")
    for owner in registry.all_registries():
        for tool in owner.tools.values():
            if tool.function == source:
                return TransformedTool(transform, tool, owner, registry, t)
    return TransformedTool(transform, Tool(source, None, {}, t, coerce, indent), registry, registry, t)


def _owner(registry: Registry, tool: Tool) -> Registry | None:
    return next((owner for owner in registry.all_registries() if tool in owner.tools.values()), None)


class TransformedTool(Tool):
    """A changed copy of a tool."""

    answers_as_json = False

    def __init__(
        self, transform: ToolTransform, parent: Tool, owner: Registry, registry: Registry, t: ModuleType
    ) -> None:
        """Create the copy of a tool; `owner` is the registry of the tool, `registry` that of the copy."""
        # `Tool.__init__` is not called: the copy has the function of a tool.
        changes, wire = transform.changes, parent.definition.model_dump()
        self.name = check_name(transform.name or parent.name)
        settings: Any = {"scopes": parent.scopes, "version": parent.version, "tags": changes.get("tags", parent.tags)}
        Item.__init__(self, f"the tool {self.name!r}", settings, t, parent.indent)
        self._parent = parent
        self._owner = None if owner is registry else owner
        self.function: Any = changes.get("transform_fn")
        self.task = parent.task
        self._arguments = _CopiedArguments(
            wire["inputSchema"], dict(changes.get("transform_args") or {}), self._description
        )
        self._signature_of_function: Signature | None = None
        self._has_variadic = False
        schema, function = self._arguments.schema, self.function
        if function is not None:
            schema = self._use_function(function)
        self.definition = t.Tool.model_validate(
            {
                **wire,
                **self._texts(transform, parent, wire),
                "name": self.name,
                "inputSchema": schema,
                "outputSchema": self._output_schema(changes, wire),
            }
        )

    async def call(
        self,
        ctx: ServerContext,
        arguments: Mapping[str, Any] | None,
        result_types: tuple[type, ...] | ResultTypes,
        shown_exceptions: ShownExceptions,
    ) -> Any:
        """Return the CallToolResult of the tool, or of the function around it; see `Tool.call`."""
        outer: ToolFailures | None = ctx.failures
        failures = outer or ToolFailures()
        ctx.failures = failures
        try:
            types = result_types if isinstance(result_types, tuple) else result_types["call_tool"]
            return await self._run(_ForwardedCall(self, ctx, types, shown_exceptions), dict(arguments or {}))
        except (JSONRPCError, InvalidMessageError):
            raise
        except Exception as error:
            if outer is not None:
                raise
            return self._error_result(failures.message(error, shown_exceptions, self._description))
        finally:
            ctx.failures = outer

    async def _run(self, forwarded: _ForwardedCall, arguments: dict[str, Any]) -> Any:
        if self._signature_of_function is None:
            return self._with_schema(await forwarded.forward(arguments))
        values = self._values(self._signature_of_function, arguments)
        token = CURRENT.set(forwarded)
        try:
            value = await self._signature_of_function.call(forwarded.ctx, values)
        finally:
            CURRENT.reset(token)
        try:
            value = self._own(value, forwarded.result_types)
            if isinstance(value, forwarded.result_types):
                return with_encrypted_state(forwarded.ctx, self._with_schema(value))
            return self._result(value)
        except InvalidMessageError as error:
            return self._error_result(str(error))

    def _values(self, signature: Signature, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function: those of its parameters validated, the others as they are."""
        allowed = self._arguments.names.keys() if self._has_variadic else set[str]()
        defaults = {
            name: value
            for name, value in self._arguments.defaults.items()
            if name in signature.parameters or name in allowed
        }
        arguments = {**defaults, **arguments}
        own = {name: value for name, value in arguments.items() if name in signature.parameters}
        rest = {name: value for name, value in arguments.items() if name not in own}
        if unknown := sorted(rest.keys() - allowed):
            raise ToolError(f"{self._description}: invalid arguments: {unknown[0]} is not an argument")
        try:
            return {**signature.read(own, False), **rest}
        except ValidationError as error:
            raise ToolError(f"{self._description}: invalid arguments: {format_validation_error(error)}") from None

    def _use_function(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Use a function around the tool, and return the schema of its arguments."""
        signature = checked_signature(function, self._description)
        variadic = [item for item in signature.parameters.values() if item.kind is item.VAR_KEYWORD]
        self._has_variadic = bool(variadic)
        self._signature_of_function = Signature(_without_variadic(function, signature), self._description)
        own = self._signature_of_function.schema()
        inherited = self._arguments.schema
        names = [name for name in inherited["properties"] if variadic or name in own["properties"]]
        merged = {name: item for name, item in own["properties"].items() if name not in names}
        merged |= {name: {**own["properties"].get(name, {}), **inherited["properties"][name]} for name in names}
        required = {*own.get("required", ()), *(name for name in inherited["required"] if name in names)}
        definitions = {**own.get("$defs", {}), **inherited.get("$defs", {})}
        schema = {**own, "properties": merged}
        schema["required"] = [name for name in merged if name in required and "default" not in merged[name]]
        return {**schema, "$defs": definitions} if definitions else schema

    def _texts(self, transform: ToolTransform, parent: Tool, wire: Mapping[str, Any]) -> dict[str, Any]:
        changes = transform.changes
        texts = {key: value for key, value in changes.items() if key in ("title", "description", "annotations")}
        meta: Mapping[str, Any] | None = changes.get("meta", wire.get("_meta"))
        settings: ToolSettings = {"meta": meta, "tags": self.tags, "version": self.version}
        return {**texts, "_meta": to_wire(settings, None)["_meta"] or None}

    def _output_schema(self, changes: Mapping[str, Any], wire: Mapping[str, Any]) -> Any:
        """Return the output schema, and set how values of the function become results."""
        self._output = None
        if "output_schema" in changes:
            schema = changes["output_schema"]
            self._output = None if schema is None else output_from_schema(schema, self._description)
            return schema
        signature = self._signature_of_function
        if signature is not None:
            self._output = output_from_annotation(signature.returns, self._description, self._t, None)
            if self._output is not None or not _is_result(signature.returns):
                return None if self._output is None else self._output.schema
        return wire.get("outputSchema")

    def _with_schema(self, result: Any) -> Any:
        """Return a result of the tool without structured content if the copy has no output schema."""
        if self.definition.output_schema is None and getattr(result, "content", None) is not None:
            return type(result)(content=result.content, is_error=result.is_error)
        return result


@dataclass
class _ForwardedCall:
    """A call of a changed tool, which calls the tool itself."""

    _tool: TransformedTool
    ctx: ServerContext
    result_types: tuple[type, ...]
    _shown: ShownExceptions

    async def forward(self, arguments: Mapping[str, Any]) -> Any:
        """Call the tool with arguments of the copy."""
        tool = self._tool
        return await self.forward_raw(tool._arguments.of_tool(arguments))  # pyright: ignore[reportPrivateUsage]

    async def forward_raw(self, arguments: Mapping[str, Any]) -> Any:
        """Call the tool with its own arguments."""
        parent, owner = self._tool._parent, self._tool._owner  # pyright: ignore[reportPrivateUsage]
        ctx, shown = self.ctx, self._shown
        if owner is not None:  # The tool of a mounted app gets the lifespan state of its app.
            ctx = copy(ctx)
            states: LifespanStates = ctx.connection_state.state or {}
            ctx.state = states.get(owner)
            shown = owner.shown_exceptions
        return await parent.call(ctx, arguments, self.result_types, shown)


class _CopiedArguments:
    """The arguments of a changed tool: their schema, and their values for the tool."""

    def __init__(self, schema: Mapping[str, Any], changes: dict[str, ArgTransform], description: str) -> None:
        self._description = description
        self.names: dict[str, str] = {}
        """The name in the tool, by name."""
        self.defaults: dict[str, Any] = {}
        """The new defaults, by name."""
        self._hidden: dict[str, ArgTransform] = {}
        self._adapters: dict[str, TypeAdapter[Any]] = {}
        properties: Mapping[str, Any] = schema.get("properties", {})
        if unknown := sorted(changes.keys() - properties.keys()):
            names = ", ".join(map(repr, properties)) or "none"
            raise LocalError(f"{description}: the tool has no argument {unknown[0]!r}; its arguments are {names}")
        self._required: set[str] = set()
        self._definitions: dict[str, Any] = deepcopy(schema.get("$defs", {}))
        self._properties: dict[str, Any] = {}
        for name, item in properties.items():
            self._add(name, deepcopy(item), changes.get(name, _NO_CHANGE), name in schema.get("required", ()))
        self.schema: dict[str, Any] = {
            **schema,
            "properties": self._properties,
            "required": [name for name in self._properties if name in self._required],
        }
        if self._definitions:
            self.schema["$defs"] = self._definitions

    def of_tool(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the tool. Raises ToolError for unknown, missing and invalid ones."""
        values = {**self.defaults, **arguments}
        if unknown := sorted(values.keys() - self.names.keys()):
            raise ToolError(f"{self._description}: invalid arguments: {unknown[0]} is not an argument")
        if missing := sorted(self._required - values.keys()):
            raise ToolError(f"{self._description}: invalid arguments: {missing[0]} is missing")
        for name, adapter in self._adapters.items():
            if name in values:
                try:
                    adapter.validate_json(to_json(values[name]), strict=True)
                except ValidationError as error:
                    text = format_validation_error(error)
                    raise ToolError(f"{self._description}: invalid arguments: {name}: {text}") from None
        hidden = {
            name: change.default if change.default_factory is UNSET else change.default_factory()
            for name, change in self._hidden.items()
        }
        return {**{self.names[name]: value for name, value in values.items()}, **hidden}

    def _add(self, name: str, schema: dict[str, Any], change: ArgTransform, is_required: bool) -> None:
        if change.hide:
            if change.default is not UNSET or change.default_factory is not UNSET:
                self._hidden[name] = change
            elif is_required:
                raise LocalError(f"{self._description}: the hidden argument {name!r} needs a value: set `default`")
            return
        new = name if change.name is UNSET else change.name
        if new in self.names:
            raise LocalError(f"{self._description}: two arguments have the name {new!r}: set another `name`")
        if change.description is None:
            schema.pop("description", None)
        elif change.description is not UNSET:
            schema["description"] = change.description
        if change.type is not UNSET:
            self._adapters[new] = adapter = TypeAdapter(change.type)
            texts: dict[str, Any] = {key: schema[key] for key in ("description", "default", "title") if key in schema}
            schema = {**adapter.json_schema(), **texts}
            self._definitions |= schema.pop("$defs", {})
        if change.examples is not UNSET:
            schema["examples"] = change.examples
        if change.required is True:
            schema.pop("default", None)
            is_required = True
        if change.default is not UNSET:
            schema["default"] = self.defaults[new] = change.default
            is_required = False
        self.names[new] = name
        self._properties[new] = schema
        if is_required:
            self._required.add(new)


def _is_result(annotation: Any) -> bool:
    return annotation in (None, Any, inspect.Signature.empty) or getattr(annotation, "__name__", "") == "CallToolResult"


def _without_variadic(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """Return the function with a signature without `**kwargs`; it accepts further arguments nevertheless."""
    parameters = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(**arguments: Any) -> Any:
            return await function(**arguments)

        wrapper: Callable[..., Any] = call_async
    else:

        @wraps(function)
        def call(**arguments: Any) -> Any:
            return function(**arguments)

        wrapper = call
    vars(wrapper)["__signature__"] = signature.replace(parameters=parameters)
    return wrapper
