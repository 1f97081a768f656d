"""What a tool has returned, as a value of Python: checked with the output schema of the tool, and made of its types."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast, get_origin
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from mcp_products.json_schema.cost import NOTHING, pointed
from mcp_products.json_schema.validator import CompiledSchema, compile_schema
from mcp_runtime.aio.tasks import is_trio_task
from mcp_runtime.errors import (
    InvalidMessageError,
    InvalidResponseError,
    InvalidSchemaError,
    LocalError,
    MCPError,
    ToolResultError,
)
from mcp_runtime.protocol.models import format_validation_error, integral, is_list, is_object
from mcp_runtime.usage.keywords import NamesOfAttributes, nearest

from .model_content import Endpoint, anthropic_result, blocks_of_result, gemini_result, openai_result

_log: Final = logging.getLogger("mcp_runtime.host.outputs")

T = TypeVar("T")
Read: TypeAlias = Callable[[Any], Any]
Output: TypeAlias = tuple[Any, TypeAdapter[Any]]  # A type, and what reads it.

WRAPPER: Final = "result"  # The only property of structured content whose value is not an object.
WRAPPED: Final = "x-fastmcp-wrap-result"  # FastMCP marks schemas with such a wrapper; the apps here do too.
_OF_FUNCTION: Final = re.compile(r"[a-z_]\w*Output")  # The title of such a schema of the official SDK.
_UNCHECKED: Final = "pass strict=False to Client() or to call_tool() to take it as it came"
_MAX_NODES: Final = 2000  # Of one schema; what is beyond stays as it came.
_MAX_REFERENCES: Final = 32  # That lead to one another.
_MAX_DEPTH: Final = 64
_NO_NAME: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ToolOutput(NamesOfAttributes, Generic[T]):
    """What a call of a tool has returned.

    Attributes:
        data: The value that the tool returned, by the output schema of the tool: objects with properties have
            attributes (`ToolData`), dates and times are those of Python, and the wrapper `{"result": …}` of a value
            that is not an object is taken off. The structured content as it came, if the tool has no output schema;
            None without structured content. With `output=`, a value of that type.
        content: The blocks of content, for a model or a person.
        structured_content: The structured content as it came; None if there is none.
        is_error: True if the tool has failed.
        text: The text of the blocks that have one, joined with line ends.
        meta: The `_meta` of the result, as JSON; empty if there is none.
        raw: The whole result, a model of the newest protocol version.
    """

    data: T
    content: Sequence[Any]
    structured_content: Any
    is_error: bool
    meta: dict[str, Any]
    raw: Any = field(repr=False)

    @property
    def text(self) -> str:
        """The text of the blocks that have one, joined with line ends."""
        return text_of(self.content)

    def to_openai(self, call_id: str, endpoint: Endpoint = "chat") -> list[dict[str, Any]]:
        """Return what tells OpenAI's model the result: the messages for `chat.completions.create`, which are one of the
        role `tool`, and one of the user if there are images, sounds or files; or the items for `responses.create`.

        What the API does not accept becomes a text that names it, here and in the other two methods.

        Args:
            call_id: The id of the model's call.
            endpoint: "chat" or "responses".

        Raises LocalError for another endpoint.
        """
        return openai_result(self._blocks(), self.is_error, call_id, endpoint)

    def to_anthropic(self, call_id: str) -> dict[str, Any]:
        """Return the block `tool_result` for a message of the user in Anthropic's Messages API.

        Args:
            call_id: The id of the model's `tool_use`.
        """
        return anthropic_result(self._blocks(), self.is_error, call_id)

    def to_gemini(self, name: str, call_id: str | None = None) -> list[dict[str, Any]]:
        """Return the parts for a content of the user in Google's Gen AI API: the `function_response`, and the data of
        images, sounds and files behind it.

        Args:
            name: The name of the function that the model has called.
            call_id: The id of the call, if it has one.
        """
        return gemini_result(self._blocks(), self.structured_content, self.is_error, name, call_id)

    def _blocks(self) -> list[dict[str, Any]]:
        return blocks_of_result([*self.content], self.structured_content, self.structured_content is not None)


def text_of(content: Sequence[Any]) -> str:
    """Return the text of the blocks of content that have one, joined with line ends."""
    texts = [getattr(block, "text", None) for block in content]
    return "\n".join(text for text in texts if isinstance(text, str))


# Values by an output schema. The schema is that of a stranger: what is made of it has limits, and no value is refused
# here, because the schema has been checked before.


class ToolData:
    """An object that a tool has returned: its properties are attributes, and items by their names in JSON.

    A property that the result lacks is its default in the schema, or else None.
    """

    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, name: str) -> Any:
        values = self.__dict__
        return values[name] if name in values else type(self)._defaults[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self.__dict__, *type(self)._defaults)))

    def __getattr__(self, name: str) -> Any:
        if name in (defaults := type(self)._defaults):
            return defaults[name]
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(text if name.startswith("__") else f"{text}; {nearest(name, [*self], 'properties')}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Return the properties that came, by their names in JSON; objects in them as dicts too."""
        return {name: _plain(value) for name, value in self.__dict__.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, ToolData):
        return ToolData.to_dict(value)
    if is_list(value):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if is_object(value) else value


def json_of_data(value: object) -> Any:
    """Return the properties of a `ToolData`, for a serializer. Raises PydanticSerializationError for anything else."""
    if isinstance(value, ToolData):
        return vars(value)
    raise PydanticSerializationError(f"a value of type {type(value).__name__} has no form in JSON")


def _pointed(root: Any, reference: str) -> Any:
    """Return the part of a schema that a reference inside of it names (RFC 6901, section 6); None if there is none."""
    if not reference.startswith("#"):
        return None
    part = pointed(root, reference)
    return None if part is NOTHING else part


def _is_integer(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _duration(text: str) -> timedelta:
    return TypeAdapter(timedelta).validate_python(text)


_FORMATS: Final[Mapping[str, Callable[[str], object]]] = {
    "date-time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": _duration,
    "uuid": UUID,
}
_KINDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": is_object,
    "array": is_list,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": _is_integer,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


class _Values:
    """The functions that make values of Python, for the parts of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._reads: dict[int, Read | None] = {}
        self._open: set[int] = set()

    def read(self, part: object, hint: str) -> Read | None:
        """Return the function that makes the values of a part; None if they stay as they came."""
        for _ in range(_MAX_REFERENCES):  # The types of two references to one part are the same.
            if not is_object(part) or part.keys() != {"$ref"} or not isinstance(part["$ref"], str):
                break
            part = _pointed(self._root, part["$ref"])
        if not is_object(part):
            return None
        key = id(part)
        if key not in self._reads and (len(self._reads) >= _MAX_NODES or len(self._open) >= _MAX_DEPTH):
            return None
        if key in self._open:  # A part that contains itself.
            return lambda value: self._later(key, value)
        if key not in self._reads:
            self._open.add(key)
            self._reads[key] = self._new(part, hint)
            self._open.discard(key)
        return self._reads[key]

    def _later(self, key: int, value: Any) -> Any:
        read = self._reads[key]
        return value if read is None else read(value)

    def _new(self, part: dict[str, Any], hint: str) -> Read | None:
        parts = self._merged(part)
        arms = next((arms for one in parts for key in ("anyOf", "oneOf") if is_list(arms := one.get(key))), None)
        if arms is not None and not any(is_object(one.get("properties")) for one in parts):
            return self._union([arm for arm in arms if is_object(arm)], hint)
        by_kind: dict[type, Read | None] = {
            dict: self._object(parts, hint),
            list: self._list(parts, hint),
            str: self._text(parts),
            float: integral if any(one.get("type") == "integer" for one in parts) else None,
        }
        reads = {kind: read for kind, read in by_kind.items() if read is not None}

        def read_value(value: Any) -> Any:
            read = reads.get(value.__class__)
            return value if read is None else read(value)

        return read_value if reads else None

    def _merged(self, part: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a part, what it refers to, and what all its values match."""
        found, waiting = list[dict[str, Any]](), [part]
        while waiting and len(found) < _MAX_REFERENCES:
            one = waiting.pop(0)
            if any(one is other for other in found):
                continue
            found.append(one)
            reference = one.get("$ref")
            others = [_pointed(self._root, reference)] if isinstance(reference, str) else []
            for other in (*others, *(one["allOf"] if is_list(one.get("allOf")) else ())):
                if is_object(other):
                    waiting.append(other)
        return found

    def _union(self, arms: list[dict[str, Any]], hint: str) -> Read | None:
        choices = [(self._merged(arm), self.read(arm, hint)) for arm in arms]
        if all(read is None for _, read in choices):
            return None

        def read_one(value: Any) -> Any:
            read = next((read for parts, read in choices if _fits(parts, value)), None)
            return value if read is None else read(value)

        return read_one

    def _object(self, parts: list[dict[str, Any]], hint: str) -> Read | None:
        properties: dict[str, Any] = {}
        for one in parts:
            if is_object(declared := one.get("properties")):
                properties |= declared
        others = next(
            (self.read(one["additionalProperties"], hint) for one in parts if "additionalProperties" in one), None
        )
        title = next((one["title"] for one in parts if isinstance(one.get("title"), str)), hint)
        reads = {name: self.read(item, name) for name, item in properties.items()}

        def values_of(value: dict[str, Any]) -> dict[str, Any]:
            read_of = {name: reads.get(name, others) for name in value}
            return {name: item if (read := read_of[name]) is None else read(item) for name, item in value.items()}

        if not properties:
            return None if others is None else values_of
        defaults = {name: item.get("default") if is_object(item) else None for name, item in properties.items()}
        kind = cast("type[ToolData]", type(_class_name(title), (ToolData,), {"_defaults": defaults}))
        return lambda value: kind(values_of(value))

    def _list(self, parts: list[dict[str, Any]], hint: str) -> Read | None:
        merged = {name: value for one in reversed(parts) for name, value in one.items()}
        first = merged.get("prefixItems")
        places = [self.read(item, hint) for item in first] if is_list(first) else []
        read = self.read(merged.get("items"), hint)
        kind = tuple if places and merged.get("maxItems") == len(places) else list

        def values_of(value: list[Any]) -> Any:
            reads = (*places, *([read] * (len(value) - len(places))))
            return cast("type[Any]", kind)(
                item if own is None else own(item) for own, item in zip(reads, value, strict=False)
            )

        def as_set(value: list[Any]) -> Any:
            try:
                return set(values_of(value))
            except TypeError:  # Objects have no hash.
                return values_of(value)

        if merged.get("uniqueItems") is True:
            return as_set
        return values_of if read is not None or kind is tuple or any(places) else None

    def _text(self, parts: list[dict[str, Any]]) -> Read | None:
        convert = next(
            (_FORMATS[name] for one in parts for name in _texts(one.get("format")) if name in _FORMATS), None
        )
        if convert is None:
            return None

        def read(text: str) -> object:
            with suppress(ValueError):  # A format is an annotation: a text that has none stays one.
                return convert(text)
            return text

        return read


def _fits(parts: list[dict[str, Any]], value: Any) -> bool:
    """Return True if a value may be one of these parts: by its type, its constants and its required properties."""
    for one in parts:
        checks = [_KINDS[kind] for kind in _texts(one.get("type")) if kind in _KINDS]
        if checks and not any(check(value) for check in checks):
            return False
        if ("const" in one and one["const"] != value) or (is_list(one.get("enum")) and value not in one["enum"]):
            return False
        if is_object(value) and not _has(one, value):
            return False
    return True


def _texts(value: object) -> list[str]:
    """Return the texts of a keyword whose value is one, or a list of them."""
    return [item for item in (value if is_list(value) else [value]) if isinstance(item, str)]


def _has(one: dict[str, Any], value: dict[str, Any]) -> bool:
    required, properties = one.get("required"), one.get("properties")
    if any(name not in value for name in _texts(required)):
        return False
    items = properties.items() if is_object(properties) else ()
    return all(
        value[name] == item["const"] for name, item in items if is_object(item) and "const" in item and name in value
    )


def _class_name(title: str) -> str:
    name = "".join(word[:1].upper() + word[1:] for word in _NO_NAME.split(title))[:60]
    return name if name.isidentifier() else "Data"


class OutputType:
    """What one tool returns, by its output schema.

    Attributes:
        schema: The schema.
    """

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self._tool = tool
        self.schema = schema
        properties, title = schema.get("properties"), schema.get("title")
        is_wrapper = is_object(properties) and properties.keys() == {WRAPPER} and schema.get("required") == [WRAPPER]
        is_of_function = title is None or (isinstance(title, str) and _OF_FUNCTION.fullmatch(title) is not None)
        self.wraps = schema.get(WRAPPED) is True or (is_wrapper and is_of_function)
        """True if the value of the tool is not an object, and has a wrapper."""

    @cached_property
    def _compiled(self) -> CompiledSchema:
        return compile_schema(self.schema)

    @cached_property
    def _read(self) -> Read | None:
        root: Any = dict(self.schema)
        part = root["properties"].get(WRAPPER) if self.wraps and is_object(root.get("properties")) else root
        return _Values(root).read(part, self._tool)

    def mismatch(self, structured: object) -> str | None:
        """Return the place and the reason why structured content does not match the schema; None if it does.

        It is also a reason that the schema cannot be used, or is too costly for this content.
        """
        try:
            return self._compiled.first_error(structured)
        except (InvalidSchemaError, InvalidMessageError) as error:
            return str(error)

    def value(self, structured: Any) -> Any:
        """Return the value of structured content."""
        value = unwrapped(structured) if self.wraps else structured
        return value if self._read is None else self._read(value)


def unwrapped(structured: Any) -> Any:
    """Return structured content without the wrapper of a value that is not an object."""
    return structured[WRAPPER] if is_object(structured) and structured.keys() == {WRAPPER} else structured


def output_schema(tool: BaseModel) -> Mapping[str, Any] | None:
    """Return the output schema of a tool of a list as JSON."""
    schema: Mapping[str, Any] | None = tool.model_dump().get("outputSchema")
    return schema


class Turns:
    """A lock for a client, which may be connected again in another event loop, of asyncio or trio: a lock has one."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: Any = None

    @property
    def lock(self) -> Any:
        """The lock of the event loop of whoever asks."""
        loop = None if is_trio_task() else asyncio.get_running_loop()
        if self._lock is None or loop is not self._loop:
            self._loop = loop
            self._lock = (asyncio if loop is not None else sys.modules["trio"]).Lock()
        return self._lock


class ToolOutputs:
    """The outputs of the tools of one client. Its tools are listed when the first structured content arrives, and again
    for a tool that is not listed, for content that does not match, and when the server says that they have changed."""

    def __init__(self, tools: Callable[[], AsyncIterator[Any]], is_strict: bool | None) -> None:
        """Create the outputs of a client.

        Args:
            tools: Returns an iterator over the tools of the server.
            is_strict: False to check no structured content; True to refuse a result without it, where a tool has an
                output schema, and a schema that cannot be used here.
        """
        self._tools = tools
        self._is_strict = is_strict
        self._listed: dict[str, BaseModel] = {}
        self._types: dict[str, OutputType | None] = {}
        self._turns = Turns()
        self._has_told = False

    def forget(self) -> None:
        """Forget the tools: the server has others."""
        self._listed.clear()
        self._types.clear()

    def learn(self, tools: Iterable[Any]) -> None:
        """Take the tools of a list that was read anyway."""
        self.forget()
        self._listed = {tool.name: tool for tool in tools}

    async def output(
        self, name: str, result: BaseModel, output: Output | None, raise_on_error: bool, strict: bool | None
    ) -> ToolOutput[Any]:
        """Return the output of a tool's result.

        Args:
            name: The name of the tool.
            result: The result of the call.
            output: The type of `data` and what reads it; None for that of the output schema.
            raise_on_error: Whether a result with `isError` raises ToolResultError.
            strict: As `is_strict` of the constructor, for this call; None for that one.

        Raises InvalidResponseError for structured content that does not match the schema, and for a value that is not
        an `output`.
        """
        fields = result.model_dump(warnings=False)  # It may have content of an unknown type.
        content: Sequence[Any] = getattr(result, "content", ())
        meta: dict[str, Any] = fields.get("_meta") or {}
        is_error = fields.get("isError") is True
        if is_error and raise_on_error:
            raise ToolResultError(text_of(content) or f"the tool {name!r} failed without a message", result)
        structured, is_structured = fields.get("structuredContent"), "structuredContent" in fields
        data, is_strict = structured, self._is_strict if strict is None else strict
        if not is_error and (is_structured or is_strict):
            declared = await self._checked(name, structured, is_structured, is_strict)
            if output is None and is_structured:
                data = _value(declared, structured, meta)
        if output is not None and not is_error:
            data = _validated(name, output, structured, content, is_structured)
        return ToolOutput(data, content, structured, is_error, meta, result)

    async def _checked(
        self, name: str, structured: Any, is_structured: bool, is_strict: bool | None
    ) -> OutputType | None:
        """Return the type of a tool's output, None if it has none, after the check of its content."""
        declared = await self._type(name)
        if declared is None or is_strict is False:
            return declared
        if not is_structured:
            raise InvalidResponseError(
                f"the tool {name!r} has an output schema, but its result has no structured content; {_UNCHECKED}"
            )
        try:
            mismatch = declared.mismatch(structured)
            if mismatch is not None and (newer := await self._changed(name, declared)) is not None:
                declared = newer
                mismatch = declared.mismatch(structured)
        except LocalError as error:  # jsonschema-rs is not installed.
            if is_strict:
                raise
            if not self._has_told:
                self._has_told = True
                _log.warning("structured content is not checked: %s", error)
            return declared
        if mismatch is not None:
            raise InvalidResponseError(
                f"the structured content of the tool {name!r} does not match its output schema: {mismatch}; "
                f"{_UNCHECKED}"
            )
        return declared

    async def _changed(self, name: str, declared: OutputType) -> OutputType | None:
        """List the tools again, and return the type of a tool if its schema is another one now; else None."""
        self.forget()
        newer = await self._type(name)
        return None if newer is None or newer.schema == declared.schema else newer

    async def _type(self, name: str) -> OutputType | None:
        if name not in self._types:
            async with self._turns.lock:
                if name not in self._listed and name not in self._types:
                    try:
                        self.learn([tool async for tool in self._tools()])
                    except MCPError as error:
                        _log.warning(
                            "the output of %r is not checked, because the tools cannot be listed: %s", name, error
                        )
                        self._types[name] = None  # Until the server says that its tools have changed.
            if name not in self._types:
                schema = output_schema(self._listed[name]) if name in self._listed else None
                self._types[name] = None if schema is None else OutputType(name, schema)
        return self._types[name]


def _value(declared: OutputType | None, structured: Any, meta: Mapping[str, Any]) -> Any:
    if declared is not None:
        return declared.value(structured)
    marks = meta.get("fastmcp")
    return unwrapped(structured) if is_object(marks) and marks.get("wrap_result") is True else structured


def _validated(name: str, output: Output, structured: Any, content: Sequence[Any], is_structured: bool) -> Any:
    """Return structured content as this type: without its wrapper, or else with it. Without any, the text is the value,
    as JSON or as it is; or each text is an item, and none is None."""
    kind, adapter = output
    reads: list[tuple[Callable[[Any], Any], Any]]
    reads = [(adapter.validate_python, unwrapped(structured)), (adapter.validate_python, structured)]
    if not is_structured:
        text, texts = text_of(content), [item for block in content if (item := text_of([block]))]
        reads = [(adapter.validate_json, text), (adapter.validate_python, text)]
        reads += [(adapter.validate_json, f"[{','.join(texts)}]"), (adapter.validate_python, texts or None)]
    errors: list[ValidationError] = []
    for read, value in reads:
        try:
            return read(value)
        except ValidationError as error:
            errors.append(error)
    what = getattr(kind, "__name__", kind) if get_origin(kind) is None else kind
    raise InvalidResponseError(f"the tool {name!r} has not returned {what}: {format_validation_error(errors[1])}")
