"""A function goes in, a tool comes out: its definition for the list, and what calls it with checked arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from ..auth.resource_server.challenges import check_scopes
from ..errors import InvalidMessageError, JSONRPCError, LocalError, MCPError
from ..json_schema.validator import compile_schema
from ..protocol.models import format_validation_error
from ..server.context import ServerContext
from ..server.task_options import TaskOptions
from ..session.pending import log
from .content import to_content_blocks
from .results import Output, output_from_annotation, output_from_schema
from .settings import ToolSettings, to_wire
from .signature import Signature, function_name

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


ShownExceptions = tuple[type[Exception], ...]


class ToolError(MCPError):
    """Raise it in a tool: the model reads the message as the result, which is marked as an error."""


class Tool:
    """A tool of an app; `definition` is what the list shows."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, settings: ToolSettings, t: ModuleType, coerce: bool
    ) -> None:
        """Raises LocalError where it cannot be one."""
        self.name = name or function_name(function)
        if not _NAME.fullmatch(self.name):
            raise LocalError(f"{self.name!r} cannot name a tool: 1 to 128 letters, digits, '_', '-' and '.'")
        self._description = f"the tool {self.name!r}"
        self._t = t
        self._coerce = settings.get("coerce", coerce)
        self.scopes = check_scopes(settings.get("scopes", ()))
        self._signature = Signature(function, self._description)
        task = settings.get("task", False)
        self.task = task if isinstance(task, TaskOptions) else TaskOptions() if task else None
        own = settings.get("input_schema")
        self._parameters = None if own is None else compile_schema(own)
        if own is not None and len(self._signature.parameters) != 1:
            raise LocalError(
                f"{self._description}: with a schema of its own it has one parameter, a dict of the arguments"
            )
        self._output = self._declared_output(settings)
        self.definition: Any = t.Tool.model_validate(
            {
                "name": self.name,
                **to_wire(settings, self._signature.summary),
                "inputSchema": self._signature.schema() if own is None else dict(own),
                "outputSchema": None if self._output is None else self._output.schema,
                "annotations": settings.get("annotations"),
            }
        )

    async def call(
        self,
        ctx: ServerContext,
        arguments: Mapping[str, Any] | None,
        result_types: tuple[type, ...],
        shown_exceptions: ShownExceptions,
    ) -> Any:
        """The result. What is wrong with the arguments, and what the tool raises, is in a result marked as an error:
        the text of the exceptions of `told`, and of others that the tool has failed."""
        try:
            given = self._read(arguments or {})
            if self.task is not None:
                ctx._how = self.task  # pyright: ignore[reportPrivateUsage]
                if self.task.immediately:
                    await ctx.as_task()
            value = await self._signature.call(ctx, given)
            if isinstance(value, result_types):
                return value
            return self._result(value)
        except (JSONRPCError, InvalidMessageError):
            raise
        except Exception as fault:
            if isinstance(fault, shown_exceptions):
                return self._error_result(str(fault))
            log.exception("%s failed", self._description)
            return self._error_result(f"{self._description} failed")

    def _declared_output(self, settings: ToolSettings) -> Output | None:
        schema = settings.get("output_schema")
        if schema is not None:
            return output_from_schema(schema, self._description)
        return (
            output_from_annotation(self._signature.returns, self._description)
            if settings.get("structured", True)
            else None
        )

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._parameters is None:
            try:
                return self._signature.read(arguments, self._coerce)
            except ValidationError as fault:
                raise ToolError(f"{self._description}: invalid arguments: {format_validation_error(fault)}") from None
        try:
            wrong = self._parameters.first_error(dict(arguments))
        except InvalidMessageError as fault:
            wrong = str(fault)
        if wrong is not None:
            raise ToolError(f"{self._description}: invalid arguments: {wrong}")
        [name] = self._signature.parameters
        return {name: dict(arguments)}

    def _result(self, value: Any) -> Any:
        t = self._t
        if self._output is None:
            return t.CallToolResult(content=to_content_blocks(value, t))
        structured = self._output.structure(value)
        text = value if isinstance(value, str) else to_json(structured).decode()
        return t.CallToolResult(content=[t.TextContent(text=text)], structured_content=structured)

    def _error_result(self, message: str) -> Any:
        return self._t.CallToolResult(content=[self._t.TextContent(text=message)], is_error=True)
