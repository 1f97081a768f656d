"""Tools of an app: the definition of a tool, and the call of its function with validated arguments."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, cast

from pydantic_core import ValidationError

from mcp_products.fast.app_answers import ResultTypes
from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import InvalidMessageError, JSONRPCError, LocalError, ToolError
from mcp_runtime.protocol.models import PreSerialized, format_validation_error
from mcp_runtime.server.context import ServerContext
from mcp_runtime.usage.texts import escaped, is_unicode

from .content import require_finite, to_content_blocks
from .context.context import with_encrypted_state
from .results import (
    WRAPPED_KEY,
    Output,
    ShownExceptions,
    compile_declared,
    failure_message,
    output_from_annotation,
    output_from_schema,
    with_timeout,
)
from .settings import Item, ToolSettings, check_definition, to_definition, to_wire
from .signatures.generated_types import as_own
from .signatures.signature import Signature, function_name

if TYPE_CHECKING:
    from mcp_products.extensions.tasks import store as task_store
else:
    task_store = LazyModule("mcp_products.extensions.tasks.store")

CURRENT: Final[ContextVar[Any]] = ContextVar("mcp_changed_tool")
_log: Final = logging.getLogger("mcp_runtime.app.tools")
# The keywords whose values the type of the definition checks. Without them it is created when the list is read.
_CHECKED: Final = frozenset({"icons", "annotations", "meta", "input_schema", "output_schema"})
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

# Changes of tools: new names and texts, hidden and fixed arguments, and functions around the call.


class _Unset:
    """The value of a change that is not made."""

    def __repr__(self) -> str:
        return "unset"


UNSET: Final[Any] = _Unset()


@dataclass(frozen=True, kw_only=True)
class ArgTransform:
    """The changes of one argument of a tool.

    Args:
        name: Its new name.
        description: Its new description; None removes it.
        default: The value of the argument if the client passes none; the argument is optional then.
        default_factory: Returns such a value for each call, for a hidden argument.
        type: A type hint instead of that of the argument; its values must fit the tool as well.
        hide: True removes the argument from the schema; its value is that of `default` or `default_factory`, else the
            default of the tool.
        required: True makes an optional argument required.
        examples: Examples of values, for the schema.

    Raises LocalError for changes that contradict each other.
    """

    name: str = UNSET
    description: str | None = UNSET
    default: Any = UNSET
    default_factory: Callable[[], Any] = UNSET
    type: Any = UNSET
    hide: bool = False
    required: Literal[True] = UNSET
    examples: Any = UNSET

    def __post_init__(self) -> None:
        has_default, has_factory = self.default is not UNSET, self.default_factory is not UNSET
        if has_default and has_factory:
            raise LocalError("ArgTransform() takes `default` or `default_factory`, not both")
        if has_factory and not self.hide:
            raise LocalError("ArgTransform(): `default_factory` needs hide=True: a schema has a fixed default")
        if self.required is not UNSET:
            if self.required is not True:
                raise LocalError("ArgTransform(): required=False makes nothing optional: set `default` instead")
            if has_default or has_factory or self.hide:
                raise LocalError("ArgTransform(): a required argument has no default and is not hidden")
        if self.hide and self.name is not UNSET:
            raise LocalError(f"ArgTransform(): a hidden argument has no name: remove name={self.name!r} or hide=True")
        name: Any = self.name
        if name is not UNSET and not (isinstance(name, str) and name):
            raise LocalError(f"ArgTransform(): name={self.name!r} is not the name of an argument")


class ToolChanges(TypedDict, total=False):
    """The keywords of `Tool.from_tool`; what is absent is that of the tool.

    `title`, `description`, `tags`, `annotations` and `meta` replace those of the tool. `transform_args` are the changes
    of its arguments, by name. `transform_fn` is a function that is called instead of the tool: it calls it with
    `forward(…)`, and its parameters are the arguments of the new tool; with `**kwargs` it gets all others of the tool.
    `output_schema=None` removes the output schema, and with it the structured content.
    """

    title: str | None
    description: str | None
    tags: Collection[str]
    annotations: Any
    meta: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    transform_fn: Callable[..., Any] | None
    transform_args: Mapping[str, ArgTransform] | None


class ToolTransform:
    """A changed copy of a tool, before it is added to an app."""

    def __init__(self, source: Any, name: str | None, changes: ToolChanges) -> None:
        """Describe a copy. Raises TypeError for an unknown keyword and for changes of the wrong type."""
        unknown = sorted(changes.keys() - ToolChanges.__optional_keys__)
        if unknown:
            names = ", ".join(sorted(ToolChanges.__optional_keys__))
            raise TypeError(f"from_tool() has no keyword argument {unknown[0]!r}; the keywords are {names}")
        argument_changes: Mapping[str, Any] = changes.get("transform_args") or {}
        for argument, change in argument_changes.items():
            if not isinstance(change, ArgTransform):
                raise TypeError(f"from_tool(): transform_args[{argument!r}] must be ArgTransform(…), not {change!r}")
        self.source = source
        self.name = name
        self.changes = changes


async def forward(**arguments: Any) -> Any:
    """Call the tool that a `transform_fn` changes, with the arguments of the changed tool; return its CallToolResult.

    Raises what the tool raises, ToolError for arguments that it does not have, and LocalError outside of a
    `transform_fn`.
    """
    return await _current("forward").forward(arguments)


async def forward_raw(**arguments: Any) -> Any:
    """Call the tool that a `transform_fn` changes, with the tool's own arguments; return its CallToolResult.

    Hidden arguments get no value. Raises what the tool raises, and LocalError outside of a `transform_fn`.
    """
    return await _current("forward_raw").forward_raw(arguments)


def _current(function: str) -> Any:
    current = CURRENT.get(None)
    if current is None:
        raise LocalError(f"{function}() can only be called in the `transform_fn` of Tool.from_tool()")
    return current


class Tool(Item):
    """A tool of an app. `answers_as_json` is False if its calls must have models as results. `view` is the URI of
    the view that was added with it."""

    answers_as_json = True
    view: str | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None,
        settings: ToolSettings,
        t: ModuleType,
        coerce: bool,
        indent: int | None,
    ) -> None:
        """Create a tool from a function. Raises LocalError for an invalid name or unsupported parameters."""
        self.name = self.checked_name(name or function_name(function))
        self.function: Any = function
        super().__init__(f"the tool {self.name!r}", settings, t, indent)
        self._coerce = settings.get("coerce", coerce)
        input_schema = settings.get("input_schema")
        self._signature = Signature(function, self._description, settings.get("thread"), reads=input_schema is None)
        timeout = settings.get("timeout")
        self._call = (
            self._signature.call if timeout is None else with_timeout(self._signature.call, timeout, self._description)
        )
        # Whether its call does nothing but to run a plain function in a worker thread.
        self.runs_in_thread = self._signature.runs_in_thread and timeout is None and not settings.get("task", False)
        task = settings.get("task", False)
        self.task = (task_store.TaskOptions() if task is True else task) or None
        self._parameters = (
            None if input_schema is None else compile_declared("input_schema", input_schema, self._description)
        )
        if input_schema is not None and len(self._signature.parameters) != 1:
            raise LocalError(
                f"{self._description}: with `input_schema`, the function must have one parameter, a dict of arguments"
            )
        self._output = self._declared_output(settings)
        self._properties: dict[str, Any] = {
            "name": self.name,
            **to_wire(settings, self._signature.summary),
            "inputSchema": self._signature.schema() if input_schema is None else dict(input_schema),
            "outputSchema": None if self._output is None else self._output.schema,
            "annotations": settings.get("annotations"),
        }
        check_definition(self._properties, self._description)
        if not _CHECKED.isdisjoint(settings):
            _ = self.definition

    @staticmethod
    def checked_name(name: str) -> str:
        """Return the name of a tool. Raises LocalError if it is invalid."""
        return check_name(name)

    @cached_property
    def definition(self) -> Any:
        """The item of the tool in the tools list. Raises LocalError for a property that does not fit."""
        return to_definition(self._t.Tool, self._properties, self._description)

    def as_json(self) -> dict[str, Any]:
        """Return the item of the tool in the tools list, as JSON."""
        if "definition" in vars(self):
            plain: dict[str, Any] = self.definition.to_dict()
            return plain
        return {name: value for name, value in self._properties.items() if value is not None}

    async def call(
        self,
        ctx: ServerContext,
        arguments: Mapping[str, Any] | None,
        result_types: tuple[type, ...] | ResultTypes,
        shown_exceptions: ShownExceptions,
    ) -> Any:
        """Return the CallToolResult; JSON instead if `result_types` allows it, and it needs no model.

        Invalid arguments and exceptions of the tool give a result with `isError`. It has the text of exceptions of
        `shown_exceptions`; other exceptions are logged, and the result says only that the tool failed.
        """
        constants = None if isinstance(result_types, tuple) else result_types.of_calls
        try:
            values = self._read(arguments or {})
            if self.task is not None:
                ctx.task_options = self.task
                if self.task.immediately:
                    await ctx.as_task()
            value = await self._call(ctx, values)
        except (JSONRPCError, InvalidMessageError):
            raise
        except Exception as error:
            return self._failed(ctx, error, shown_exceptions, constants)
        try:
            if constants is not None and (written := self._json_result(value, constants)) is not None:
                return written
            if not isinstance(result_types, tuple):
                result_types = result_types["call_tool"]
            value = self._own(value, result_types)
            return self._checked(ctx, value) if isinstance(value, result_types) else self._result(value)
        except InvalidMessageError as error:
            _log.error("%s", error)
            return self._error_result(str(error), constants)
        except Exception as error:
            if isinstance(error, shown_exceptions):
                return self._error_result(str(error), constants)
            _log.exception("%s: its result cannot be converted", self._description)
            return self._error_result(f"{self._description} failed: its result cannot be converted", constants)

    def _json_result(self, value: Any, constants: Mapping[str, Any]) -> PreSerialized | None:
        """Return the result as JSON for a value that needs no conversion; None for another one."""
        output = self._output
        if type(value) is str and not (value.isascii() or is_unicode(value)):
            return None  # It cannot be sent.
        if output is not None and type(value) is output.scalar:
            text = {"type": "text", "text": value if type(value) is str else str(value)}
            return PreSerialized({**constants, "content": [text], "structuredContent": {WRAPPED_KEY: value}})
        if output is None and type(value) is str:
            return PreSerialized({**constants, "content": [{"type": "text", "text": value}]})
        return PreSerialized({**constants, "content": []}) if output is None and value is None else None

    def _failed(
        self,
        ctx: ServerContext,
        error: Exception,
        shown_exceptions: ShownExceptions,
        constants: Mapping[str, Any] | None,
    ) -> Any:
        """Return the result of a call that has raised an exception; raise it again if middleware gets it, and if the
        call begins again."""
        if ctx.raises_failures and not isinstance(error, shown_exceptions):
            raise error
        failures = ctx.failures
        if failures is not None:
            failures.add(error, shown_exceptions, self._description)
            raise error
        return self._error_result(failure_message(error, shown_exceptions, self._description), constants)

    @classmethod
    def from_tool(
        cls,
        tool: Tool | Callable[..., Any] | str,
        name: str | None = None,
        **changes: Unpack[ToolChanges],
    ) -> ToolTransform:
        """Return a changed copy of a tool, for `app.add_tool`.

        Args:
            tool: A tool of the app or of an app that is mounted in it: its name, the function with the decorator, or
                what `app.get_tool(name)` returns; also another function.
            name: The name of the copy; by default that of the tool.
            changes: The keywords of `ToolChanges`: texts, `transform_args` and `transform_fn`.
        """
        return ToolTransform(tool, name, changes)

    def _declared_output(self, settings: ToolSettings) -> Output | None:
        schema = settings.get("output_schema")
        if schema is not None:
            return output_from_schema(schema, self._description)
        structured_output = settings.get("structured_output")
        return output_from_annotation(self._signature.returns, self._description, self._t, structured_output)

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._parameters is None:
            try:
                return self._signature.read(arguments, self._coerce)
            except ValidationError as exc:
                raise ToolError(f"{self._description}: invalid arguments: {format_validation_error(exc)}") from None
        try:
            error = self._parameters.first_error(dict(arguments))
        except InvalidMessageError as exc:
            error = str(exc)
        if error is not None:
            raise ToolError(f"{self._description}: invalid arguments: {error}")
        [name] = self._signature.parameters
        return {name: dict(arguments)}

    def _own(self, value: Any, result_types: tuple[type, ...]) -> Any:
        """Return a result of another version as one of these types, and other values as they are."""
        try:
            return as_own(value, self._t, result_types)
        except InvalidMessageError as error:
            raise self._unsendable(error) from None

    def _result(self, value: Any) -> Any:
        t, output = self._t, self._output
        is_scalar = output is not None and type(value) is output.scalar
        if is_scalar and (type(value) is not str or is_unicode(value)):  # Without a call: most tools return these.
            text = {"type": "text", "text": value if type(value) is str else str(value)}  # Cheaper than two models.
            return t.CallToolResult(content=[text], structured_content={WRAPPED_KEY: value})
        if isinstance(value, Iterator):
            value = list(cast(Any, value))  # It is read twice, for the content and for the structure.
        try:
            content = to_content_blocks(value, t, self.indent)
        except InvalidMessageError as error:
            raise self._unsendable(error) from None
        if output is None:
            return t.CallToolResult(content=content)
        return t.CallToolResult(content=content, structured_content=output.structure(value))

    def _checked(self, ctx: ServerContext, result: Any) -> Any:
        """Return a result that the function made itself. Raises InvalidMessageError if its structured content does not
        match the output schema."""
        if not isinstance(result, self._t.CallToolResult) or result.is_error:
            return with_encrypted_state(ctx, result)
        structured = result.model_dump(by_alias=True).get("structuredContent")
        try:
            require_finite(structured, result)
        except InvalidMessageError as error:
            raise self._unsendable(error) from None
        if self._output is not None:
            self._output.structure(structured)
        return result

    def _error_result(self, message: str, constants: Mapping[str, Any] | None = None) -> Any:
        message = escaped(message)
        if constants is not None:
            return PreSerialized({**constants, "content": [{"type": "text", "text": message}], "isError": True})
        return self._t.CallToolResult(content=[self._t.TextContent(text=message)], is_error=True)


def check_name(name: str) -> str:
    """Return the name of a tool. Raises LocalError if it is invalid."""
    if not _NAME.fullmatch(name):
        raise LocalError(f"tool(): {name!r} is not a tool name: use 1 to 128 letters, digits, '_', '-' and '.'")
    return name
