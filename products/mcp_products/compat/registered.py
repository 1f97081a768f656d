"""What a server of the official SDK does with the things that it registers, where an App does otherwise."""

from __future__ import annotations

import functools
import inspect
import logging
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mcp_products.app.content import Audio, Image
from mcp_products.app.tools import Tool
from mcp_runtime.errors import JSONRPCError, ToolError
from mcp_runtime.protocol.models import is_list

from .forms.form import FORM, official
from .names import ReadResourceContents
from .tool_names import validate_and_warn_tool_name

log: Final = logging.getLogger("mcp_runtime.compat")


class AnyNameTool(Tool):
    """A tool whose name may be one that the specification advises against: the log says so."""

    @staticmethod
    def checked_name(name: str) -> str:
        """Return the name of a tool; the log has a warning if it is not one of the specification."""
        validate_and_warn_tool_name(name)
        return name


def reports_errors(function: Any, name: str | None, shows_exceptions: bool) -> Any:
    """Return a function whose exceptions become the text of an error result, as in the official SDK.

    The result has the text of `ToolError`, and that of other exceptions only if they are shown.
    """
    if not callable(function):
        return function

    def failed(error: Exception) -> ToolError:
        if shows_exceptions or isinstance(error, ToolError):
            return ToolError(f"Error executing tool {name}: {error}")
        log.exception("the tool %r failed", name)
        return ToolError(f"Error executing tool {name}")

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*arguments: Any, **keywords: Any) -> Any:
            try:
                return _with_read_files(await function(*arguments, **keywords))
            except JSONRPCError:
                raise
            except Exception as error:
                raise failed(error) from error

        return call_async

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return _with_read_files(function(*arguments, **keywords))
        except JSONRPCError:
            raise
        except Exception as error:
            raise failed(error) from error

    return call


def _with_read_files(value: Any) -> Any:
    """Return a value of a tool with the files of its images and sounds read, so that their errors are the tool's."""
    if isinstance(value, (Image, Audio)):
        if value.path is None:
            return value
        return type(value)(Path(value.path).read_bytes(), format=value.mime_type)
    if is_list(value):
        return [_with_read_files(item) for item in value]
    return value


def contents_with_meta(registry: Any) -> Callable[..., Any]:
    """Return a middleware that puts the `meta` of a resource into the contents that are read of it."""

    async def handle(name: str, ctx: Any, params: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        result = await call_next(ctx, params)
        if name == "read_resource" and (match := registry.resource_at(params.uri)) is not None:
            for content in getattr(result, "contents", ()):
                content.meta = content.meta or match[1].definition.meta
        return result

    return handle


# ---- what a server returns to its own program ------------------------------------------------------------------------


class ReadContents(list[ReadResourceContents]):
    """The contents of a resource, to iterate; FastMCP has them as `contents`."""

    @property
    def contents(self) -> list[ReadResourceContents]:
        """The contents."""
        return self


def read_contents(result: Any) -> ReadContents:
    """Return the contents of a `ReadResourceResult`."""
    read = official(result)
    kinds = FORM.types.TextResourceContents
    mime_type = "mimeType" if FORM.is_v1 else "mime_type"
    return ReadContents(
        ReadResourceContents(
            item.text if isinstance(item, kinds) else b64decode(item.blob), getattr(item, mime_type), item.meta or None
        )
        for item in read.contents
    )


def called(result: Any) -> Any:
    """Return a `CallToolResult` as `call_tool` of a server does: in 1.x its content, with the structured content."""
    read = official(result)
    if not FORM.is_v1:
        return read
    return read.content if read.structuredContent is None else (read.content, read.structuredContent)


RETURNED: Final[dict[str, Callable[[Any], Any]]] = {"call_tool": called, "read_resource": read_contents}
"""What a server returns to its own program, by the name of its method; for others a result as it is."""
