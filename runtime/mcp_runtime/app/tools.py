"""Tools of an app: the definition of a tool, and the call of its function with validated arguments."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from pydantic import ValidationError

from ..auth.resource_server.challenges import check_scopes
from ..errors import InvalidMessageError, JSONRPCError, LocalError
from ..errors import ToolError as ToolError
from ..json_schema.validator import compile_schema
from ..protocol.models import format_validation_error
from ..server.context import ServerContext
from ..server.task_options import TaskOptions
from .content import require_finite, to_content_blocks
from .results import WRAPPED_KEY, Output, output_from_annotation, output_from_schema
from .settings import ToolSettings, to_wire
from .signature import Signature, function_name

_log: Final = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


ShownExceptions = tuple[type[Exception], ...]


class Tool:
    """A tool of an app; `definition` is its item in the tools list."""

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
        self.name = name or function_name(function)
        if not _NAME.fullmatch(self.name):
            raise LocalError(f"{self.name!r} is not a tool name: use 1 to 128 letters, digits, '_', '-' and '.'")
        self._description = f"the tool {self.name!r}"
        self._t = t
        self._coerce = settings.get("coerce", coerce)
        self._indent = indent
        self.scopes = check_scopes(settings.get("scopes", ()))
        self._signature = Signature(function, self._description)
        task = settings.get("task", False)
        self.task = task if isinstance(task, TaskOptions) else TaskOptions() if task else None
        input_schema = settings.get("input_schema")
        self._parameters = None if input_schema is None else compile_schema(input_schema)
        if input_schema is not None and len(self._signature.parameters) != 1:
            raise LocalError(
                f"{self._description}: with `input_schema`, the function must have one parameter, a dict of arguments"
            )
        self._output = self._declared_output(settings)
        self.definition: Any = t.Tool.model_validate(
            {
                "name": self.name,
                **to_wire(settings, self._signature.summary),
                "inputSchema": self._signature.schema() if input_schema is None else dict(input_schema),
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
        """Return the CallToolResult.

        Invalid arguments and exceptions of the tool give a result with `isError`. It has the text of exceptions of
        `shown_exceptions`; other exceptions are logged, and the result says only that the tool failed.
        """
        try:
            values = self._read(arguments or {})
            if self.task is not None:
                ctx._task_options = self.task  # pyright: ignore[reportPrivateUsage]
                if self.task.immediately:
                    await ctx.as_task()
            value = await self._signature.call(ctx, values)
        except (JSONRPCError, InvalidMessageError):
            raise
        except Exception as error:
            if isinstance(error, shown_exceptions):
                return self._error_result(str(error))
            _log.exception("%s failed", self._description)
            return self._error_result(f"{self._description} failed")
        try:
            return self._checked(value) if isinstance(value, result_types) else self._result(value)
        except InvalidMessageError as error:
            _log.error("%s", error)
            return self._error_result(str(error))
        except Exception:
            _log.exception("%s: its result cannot be converted", self._description)
            return self._error_result(f"{self._description} failed: its result cannot be converted")

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

    def _result(self, value: Any) -> Any:
        t, output = self._t, self._output
        if output is not None and type(value) is output.scalar:  # Without a call, because most tools return these.
            content = [t.TextContent(text=value if type(value) is str else str(value))]
            return t.CallToolResult(content=content, structured_content={WRAPPED_KEY: value})
        try:
            content = to_content_blocks(value, t, self._indent)
        except InvalidMessageError as error:
            raise InvalidMessageError(f"{self._description} returned a value that cannot be sent: {error}") from None
        if output is None:
            return t.CallToolResult(content=content)
        return t.CallToolResult(content=content, structured_content=output.structure(value))

    def _checked(self, result: Any) -> Any:
        """Return a result that the function made itself. Raises InvalidMessageError if its structured content does not
        match the output schema."""
        if not isinstance(result, self._t.CallToolResult) or result.is_error:
            return result
        structured = result.model_dump(by_alias=True).get("structuredContent")
        try:
            require_finite(structured)
        except InvalidMessageError as error:
            raise InvalidMessageError(f"{self._description} returned a value that cannot be sent: {error}") from None
        if self._output is not None:
            self._output.structure(structured)
        return result

    def _error_result(self, message: str) -> Any:
        return self._t.CallToolResult(content=[self._t.TextContent(text=message)], is_error=True)
