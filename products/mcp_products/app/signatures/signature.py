"""Function signatures: the JSON Schema of the parameters, and calls with validated arguments."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import SchemaValidator, ValidationError, to_json

from mcp_products.common.awaiting import call_plain, run_plain
from mcp_products.fast.app_answers import scalars_schema, scalars_validator
from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import integral, is_list, is_object
from mcp_runtime.server.context import ServerContext

from ..components.functions import checked_signature, code_of
from ..dependencies.resolution import dependencies_of, is_context
from .descriptions import parse_docstring
from .forms import parsed_text, takes_text

if TYPE_CHECKING:
    from . import argument_models
else:  # Imported when they are used.
    argument_models = LazyModule("mcp_products.app.signatures.argument_models")

_MAX_ERRORS: Final = 1000  # Errors after which arguments are not read as JSON: each of them has cost time.
_PREFIX: Final = (
    1000  # Items beyond the first wrong one that a list has to have for its beginning to be validated alone.
)
_MAX_UNKNOWN: Final = 10  # Unknown arguments that an error counts.
_NO_FLOATS: Final = (str, int, bool, NoneType)  # Types of values that contain no floats.
_ONLY_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Signature:
    """The signature of a function. A parameter of type Context is injected; all others are arguments of requests."""

    def __init__(
        self, function: Callable[..., Any], description: str, thread: bool | None = None, *, reads: bool = True
    ) -> None:
        """Inspect a function. `thread` says whether a plain `def` runs in a worker thread, which is the default.

        With `reads=False` arguments are passed as they are: `read` and `schema` must not be called.

        Raises LocalError for positional-only or variadic parameters, for unsupported types, and for an `async def` with
        `thread=True`.
        """
        self.function = function
        self.description = description
        self.is_async = inspect.iscoroutinefunction(code_of(function))
        if self.is_async and thread:
            raise LocalError(
                f"{description}: an `async def` runs in the event loop: leave out `thread`, or write `def`"
            )
        self._in_thread = thread is not False
        signature = checked_signature(function, description)
        parameters = signature.parameters
        hints = {name: item.annotation for name, item in parameters.items() if item.annotation is not item.empty}
        self.returns: Any = NoneType if signature.return_annotation is None else signature.return_annotation
        docstring = parse_docstring(function)
        self.summary = docstring.text
        self.context: str | None = None
        self.parameters: dict[str, inspect.Parameter] = {}
        self._dependencies = dependencies_of(parameters, hints, description)
        self.runs_in_thread = self._in_thread and not self.is_async and self._dependencies is None
        for name, parameter in parameters.items():
            if self._dependencies is not None and name in self._dependencies.names:
                continue
            if is_context(hints.get(name)):
                if self.context is not None:
                    raise LocalError(f"{description} has two contexts, {self.context!r} and {name!r}: remove one")
                self.context = name
            elif parameter.kind in _ONLY_BY_NAME:
                self.parameters[name] = parameter
            else:
                raise LocalError(f"{description}: the parameter {parameter} must accept a keyword argument")
        self.annotations = {name: hints.get(name, Any) for name in self.parameters}
        self._descriptions = docstring.parameters
        self._keys = [(name, f"a{number}") for number, name in enumerate(self.parameters)]
        if not reads:
            return
        self._schema = scalars_schema(self.parameters, self.annotations, self._descriptions)
        if self._schema is None:
            validator = self._model_validator()
        else:
            validator = scalars_validator(dict(self._keys), self.parameters, self.annotations)
        self._validate = validator.validate_python
        self._validate_json = validator.validate_json
        self._validate_one = validator.validate_assignment

    def _model_validator(self) -> SchemaValidator:
        """Build the model of the arguments, and return its validator."""
        annotations = {
            name: argument_models.annotation(name, hint, self._descriptions.get(name))
            for name, hint in self.annotations.items()
        }
        self._model = model = argument_models.argument_model(
            dict(self._keys), self.parameters, annotations, self.description
        )
        argument_models.check_defaults(
            model, [(key, self.parameters[name]) for name, key in self._keys], self.description
        )
        return argument_models.untrusting_validator(model)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        if self._schema is None:
            self._schema = argument_models.model_schema(self._model, self.annotations, self.description)
        return self._schema

    def read(self, arguments: Mapping[str, Any], coerce: bool) -> dict[str, Any]:
        """Validate the arguments and convert them to the types of the hints. Raises ValidationError."""
        if len(arguments) > len(self._keys):
            arguments = self._with_few_unknown(arguments)
        try:
            checked = self._validate(arguments, strict=not coerce or None)
        except ValidationError as error:
            if error.error_count() > _MAX_ERRORS:
                raise
            self._check_first_wrong(arguments, error, coerce)
            checked = self._read_json(arguments, _refused(error), coerce)
        values = checked.__dict__
        return {name: values[key] for name, key in self._keys}

    def _check_first_wrong(self, arguments: Mapping[str, Any], error: ValidationError, coerce: bool) -> None:
        """Raise ValidationError if the first wrong item of a long list is wrong as JSON too.

        The list up to there is validated as JSON, because all of it would take as much memory again.
        """
        path = _first_path(error)
        items = arguments.get(str(path[0])) if path else None
        if len(path) > 1 and is_list(items) and isinstance(index := path[1], int) and len(items) > index + _PREFIX:
            try:
                beginning = {**arguments, str(path[0]): items[: index + 1]}
                self._read_json(beginning, _refused(error), coerce)
            except ValidationError as shorter:
                if _first_path(shorter)[:2] == path[:2]:  # Else the list is too short, or another item is wrong.
                    raise

    def _with_few_unknown(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments with few of the unknown ones: each of them is an error that is listed."""
        declared = {name: arguments[name] for name, _ in self._keys if name in arguments}
        unknown = islice((name for name in arguments if name not in declared), _MAX_UNKNOWN)
        return {**declared, **{name: arguments[name] for name in unknown}}

    def _read_json(self, arguments: Mapping[str, Any], refused: Collection[str], coerce: bool) -> Any:
        """Validate the arguments as JSON, where types without a JSON type, such as dates, are strings.

        Some clients send objects and arrays as strings of JSON text: they are parsed where a type takes no text. Only
        the refused arguments are read so; the others keep the value that they have as Python values.

        Args:
            arguments: The arguments.
            refused: The names of those that are not valid as Python values.
            coerce: Whether values are converted.
        """
        integral = {name: _integral_float(value) if name in refused else value for name, value in arguments.items()}
        try:
            checked = self._validate_json(to_json(integral), strict=not coerce or None)
        except ValidationError as error:
            parsed = {name: self._parsed(name, integral[name], coerce) for name in _refused(error) if name in integral}
            if all(value is integral[name] for name, value in parsed.items()):
                raise
            integral |= parsed
            checked = self._validate_json(to_json(_integral_float(integral)), strict=not coerce or None)
        for name, key in self._keys:  # A text that could be a date is one as JSON only.
            if name in arguments and name not in refused and _differs(getattr(checked, key), arguments[name]):
                checked = self._validate_one(checked, key, arguments[name], strict=not coerce or None)
        return checked

    def _parsed(self, name: str, value: Any, coerce: bool) -> Any:
        """Return the value that an argument has as JSON text, and the argument itself if its type takes text."""
        schema = self.schema()
        if not isinstance(value, str) or takes_text(schema["properties"].get(name, {}), schema):
            return value
        told = getattr(self.annotations.get(name), "__metadata__", ())
        parts = [part for item in told for part in (item, *getattr(item, "metadata", ()))]
        return parsed_text(value, coerce and not any(getattr(part, "strict", False) for part in parts))

    def call(self, ctx: ServerContext, arguments: dict[str, Any]) -> Awaitable[Any]:
        """Call the function, and return its awaitable result. An `async def` runs in the event loop, others in a
        thread, unless they are declared to run in the event loop too."""
        if self.context is not None:
            arguments[self.context] = ctx
        if self._dependencies is not None:
            return self._dependencies.call(self._invoke, ctx, arguments)
        result: Awaitable[Any] = self.function(**arguments) if self.is_async else self._call_plain(arguments)
        return result

    def _invoke(self, arguments: dict[str, Any]) -> Awaitable[Any]:
        result: Awaitable[Any] = self.function(**arguments) if self.is_async else self._call_plain(arguments)
        return result

    def _call_plain(self, arguments: dict[str, Any]) -> Awaitable[Any]:
        if self.context is not None or self._dependencies is not None:
            return call_plain(self.function, self.description, arguments, self._in_thread)
        # Arguments of requests are plain values.
        return run_plain(partial(self.function, **arguments), (), self.description, thread=self._in_thread)


def _first_path(error: ValidationError) -> tuple[int | str, ...]:
    return error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function; an empty string for a lambda and for other callables."""
    name: object = getattr(function, "__name__", "")
    return "" if name == "<lambda>" else str(name)


def _refused(error: ValidationError) -> set[str]:
    """Return the names of the arguments that have errors."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return {str(item["loc"][0]) for item in details if item["loc"]}


def _differs(checked: Any, value: Any) -> bool:
    """Return True unless a validated value is surely the one that was sent."""
    return type(checked) is not type(value) or type(value) not in _NO_FLOATS or checked != value


def _integral_float(value: Any) -> Any:
    """Return the value with integral floats as integers: in JSON Schema, 5.0 is an integer."""
    if is_object(value):
        return {name: item if type(item) in _NO_FLOATS else _integral_float(item) for name, item in value.items()}
    if is_list(value):
        return [item if type(item) in _NO_FLOATS else _integral_float(item) for item in value]
    return integral(value) if type(value) is float else value
