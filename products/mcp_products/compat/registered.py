"""What a server of the official SDK does with the things that it registers, where an App does otherwise."""

from __future__ import annotations

import functools
import inspect
import re
from base64 import b64decode
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Final, get_args, get_origin

from pydantic_core import ValidationError

from mcp_products.app.components.functions import docstring_of
from mcp_products.app.content import Audio, Image, json_text
from mcp_products.app.results import Output
from mcp_products.app.settings import ToolSettings
from mcp_products.app.tools import Tool
from mcp_runtime.errors import JSONRPCError, ToolError
from mcp_runtime.protocol.models import PreSerialized, is_list, is_model, is_object

from .components import FuncMetadata, func_metadata, validate_and_warn_tool_name
from .forms.form import FORM, field_of, official
from .names import ReadResourceContents
from .words import OFFICIAL, STANDALONE, Words, log

_WORDS: Final = re.compile("[_-]")
_WRAPPED_META: Final = {"fastmcp": {"wrap_result": True}}  # So clients of FastMCP know that a value is not an object.

# How FastMCP finds the sections of a docstring: headings of Google's style, underlined ones, and fields.
_HEADING: Final = re.compile(r"(\w[\s\w-]*):(?:\s+\S.*)?\s*")
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_FIELD: Final = re.compile(r":(?:param|arg|type|returns?|rtype|raises?|var|key|except)\w*\b[^:]*:")
_SECTIONS: Final = frozenset(
    "args arguments params parameters raises raise exceptions returns return yields yield receives examples example"
    " attributes functions methods classes modules warns warnings warning attention caution danger error hint important"
    " note notes references see-also tip todo keyword-args keyword-arguments other-args other-arguments other-params"
    " other-parameters".split()
)


class OfficialTool(Tool):
    """A tool whose schemas, results and errors are those of the official SDK.

    Its name may be one that the specification advises against: the log says so.
    """

    words: ClassVar[Words] = OFFICIAL

    def __init__(self, function: Any, name: str | None, *arguments: Any) -> None:
        """Create a tool from a function; the arguments are those of `Tool`."""
        super().__init__(function, name, *arguments)
        own_name = getattr(function, "__name__", self.name)
        self._title = self.words.title.format(name=self.name, function=own_name)
        if not self.words.is_official or self._parameters is not None:
            return
        skipped = inspect.signature(function).parameters.keys() - self._signature.parameters.keys()
        try:
            metadata = func_metadata(inspect.unwrap(function), skipped, None if self._output else False)
            self._properties["inputSchema"] = metadata.arg_model.model_json_schema()
        except Exception:  # A type that pydantic alone does not know: titles are all that is missing then.
            metadata = FuncMetadata(arg_model=None)
            self._properties["inputSchema"].pop("additionalProperties", None)
        if self._output is not None and "outputSchema" not in arguments[0]:
            self._properties["outputSchema"] = metadata.output_schema or self._output.schema
        self._properties["description"] = arguments[0].get("description") or function.__doc__ or ""
        vars(self).pop("definition", None)

    def show_input_schema(self, schema: dict[str, Any]) -> None:
        """Show clients another input schema; calls are read as before."""
        self._properties["inputSchema"] = schema
        vars(self).pop("definition", None)

    @staticmethod
    def checked_name(name: str) -> str:
        """Return the name of a tool; the log has a warning if it is not one of the specification."""
        validate_and_warn_tool_name(name)
        return name

    async def call(self, ctx: Any, arguments: Any, result_types: Any, shown_exceptions: Any) -> Any:
        """Return the result of a call, which says of a success that it is not an error."""
        result = await super().call(ctx, arguments, result_types, shown_exceptions)
        if isinstance(result, PreSerialized):
            result.value.setdefault("isError", False)
        elif isinstance(result, self._t.CallToolResult) and not result.is_error:
            result.is_error = False
        return result

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._parameters is not None:
            return super()._read(arguments)
        names = self._signature.parameters
        given = {name: arguments[name] for name in arguments if name in names or not self.words.is_official}
        try:
            return self._signature.read(given, self._coerce)
        except ValidationError as error:
            worded = self.words.argument_error(error, self._title, arguments)
            raise ToolError(self.words.told.format(name=self.name, error=worded)) from error


class StandaloneTool(OfficialTool):
    """A tool with the results and errors of the distribution `fastmcp`."""

    words: ClassVar[Words] = STANDALONE

    def __init__(self, function: Any, name: str | None, *arguments: Any) -> None:
        """Create a tool from a function; its title is that of its annotations, or its name in words."""
        super().__init__(function, name, *arguments)
        annotations = self._properties["annotations"]
        shown = annotations.get("title") if is_object(annotations) else getattr(annotations, "title", None)
        self._properties["title"] = self._properties.get("title") or shown or words_of(self.name)
        if not arguments[0].get("description"):
            self._properties["description"] = text_before_sections(docstring_of(function) or "") or None
        self._properties["_meta"] = with_tags(self._properties.get("_meta"), self.tags)
        vars(self).pop("definition", None)

    def _declared_output(self, settings: ToolSettings) -> Output | None:
        returns = self._signature.returns
        if get_origin(returns) is dict or returns is dict:  # An object, also as `typing.Dict` and without types.
            self._signature.returns = dict[get_args(returns) or (str, Any)]  # type: ignore[misc]
        return None if returns is NoneType else super()._declared_output(settings)

    def _json_result(self, value: Any, constants: Any) -> PreSerialized | None:
        written = super()._json_result(value, constants)
        if written is not None and "structuredContent" in written.value:
            written.value["_meta"] = dict(_WRAPPED_META)
        return written

    def _result(self, value: Any) -> Any:
        result = super()._result(value)
        if self._output is not None and self._output.schema.get("x-fastmcp-wrap-result"):
            result.meta = self._t.CallToolResult(content=[], meta=_WRAPPED_META).meta
        if is_list(value) and value and all(isinstance(block, self._t.TextContent) for block in result.content):
            if not any(is_model(item) and isinstance(getattr(item, "type", None), str) for item in value):
                result.content = [self._t.TextContent(text=json_text(value, None))]  # One block of all items.
        return result


def with_tags(meta: Mapping[str, Any] | None, tags: Iterable[str]) -> dict[str, Any]:
    """Return the `meta` of a component with its tags, which FastMCP writes also if there are none."""
    return {**(meta or {}), "fastmcp": {**(meta or {}).get("fastmcp", {}), "tags": sorted(tags)}}


def words_of(name: str) -> str:
    """Return a name in words, as a title."""
    return _WORDS.sub(" ", name).title()


def text_before_sections(doc: str) -> str:
    """Return the text of a docstring before its first section, as FastMCP does; all of it without sections."""
    lines = doc.splitlines()
    headings: dict[int, str] = {}
    underlined: list[int] = []
    is_code = False
    for index, line in enumerate(lines):
        above = lines[index - 1].strip() if index else ""
        below = lines[index + 1] if index + 1 < len(lines) else ""
        is_code ^= line.lstrip(" ").startswith("```")
        if is_code or above:
            continue
        if (match := _HEADING.fullmatch(line)) and below.strip() and below.startswith(" "):
            headings[index] = match[1].lower().replace(" ", "-")
        if _UNDERLINE.fullmatch(below) and line.strip().lower().replace(" ", "-") in _SECTIONS:
            underlined.append(index)
    fields = [index for index, line in enumerate(lines) if _FIELD.match(line)]
    found = list(headings) if not _SECTIONS.isdisjoint(headings.values()) else underlined or fields
    return "\n".join(lines[: found[0]] if found else lines).strip()


def reports_errors(function: Any, name: str | None, shows_exceptions: bool, words: Words = OFFICIAL) -> Any:
    """Return a function whose exceptions become the text of an error result, as in an original.

    The result has the text of `ToolError`, and that of other exceptions only if they are shown.
    """
    if not callable(function):
        return function

    def failed(error: Exception) -> ToolError:
        if isinstance(error, ToolError):
            return ToolError(words.told.format(name=name, error=error))
        if shows_exceptions:
            return ToolError(words.failed.format(name=name, error=error))
        log.exception("the tool %r failed", name)
        return ToolError(words.hidden.format(name=name))

    @contextmanager
    def reported() -> Generator[None]:
        try:
            yield
        except JSONRPCError:
            raise
        except Exception as error:
            raise failed(error) from error

    async def call_async(*arguments: Any, **keywords: Any) -> Any:
        with reported():
            result: Any = function(*arguments, **keywords)
            return _with_read_files(await result)

    def call(*arguments: Any, **keywords: Any) -> Any:
        with reported():
            return _with_read_files(function(*arguments, **keywords))

    return functools.wraps(function)(call_async if inspect.iscoroutinefunction(function) else call)


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
            meta: Mapping[str, Any] = match[1].definition.meta or {}
            own = {key: value for key, value in meta.items() if key != "fastmcp"}
            for content in getattr(result, "contents", ()):
                content.meta = content.meta or own or None
        return result

    return handle


# ---- what a program adds to a server ---------------------------------------------------------------------------------

MARK: Final = "__fastmcp__"  # Where a decorator of FastMCP without a server puts its keywords.
_RENAMED: Final = {"run_in_thread": "thread"}
_AS_HERE: Final = {"thread": True, "task": False, "enabled": True}  # Values that say what holds without them.


def described(item: Any, name: Any, settings: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the name or the URI, the function and the keywords with which a component is added to a server.

    Args:
        item: A component, a function that a decorator has marked, or another function.
        name: The name that is given besides; None without.
        settings: The keywords that are given besides.
    """
    own: dict[str, Any] = {}
    if hasattr(item, "registered"):
        *uri, item, own = item.registered() if name is None else (name, *item.registered()[-2:])
        name = uri[0] if uri else own.pop("name", None)
    elif (mark := getattr(item, MARK, None)) is not None:
        own = mark.given()
        name = name or own.pop("name", None)
    keywords: dict[str, Any] = {_RENAMED.get(key, key): value for key, value in {**own, **settings}.items()}
    kept = {key: value for key, value in keywords.items() if value is None or _AS_HERE.get(key) is not value}
    return name, item, kept


# ---- what a server returns to its own program ------------------------------------------------------------------------


class ReadContents(list[ReadResourceContents]):
    """The contents of a resource, to iterate; FastMCP has them as `contents`."""

    @property
    def contents(self) -> list[ReadResourceContents]:
        """The contents."""
        return self


def read_contents(result: Any) -> ReadContents:
    """Return the contents of a `ReadResourceResult`."""
    return ReadContents(
        ReadResourceContents(
            b64decode(item.blob) if hasattr(item, "blob") else item.text, field_of(item, "mime_type"), item.meta or None
        )
        for item in official(result).contents
    )


def called(result: Any) -> Any:
    """Return a `CallToolResult` as `call_tool` of a server does: in 1.x its content, with the structured content."""
    read = official(result)
    if not FORM.is_v1:
        return read
    return read.content if read.structuredContent is None else (read.content, read.structuredContent)


def returned_values(result: Any) -> Any:
    """Return what `call_tool` of a server has returned in 1.x: the content, and the structured content if there is one.

    Raises ToolError for the result of a call that has failed.
    """
    if result.is_error:
        raise ToolError("".join(getattr(block, "text", "") for block in result.content))
    structured = result.structured_content
    return result.content if structured is None else (result.content, structured)


RETURNED: Final[dict[str, Callable[[Any], Any]]] = {"call_tool": called, "read_resource": read_contents}
"""What a server returns to its own program, by the name of its method; for others a result as it is."""
