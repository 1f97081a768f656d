"""The models of the arguments of functions, and their JSON Schemas."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, cast, get_args, get_origin

from pydantic import BaseModel, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticErrorMixin
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind, PydanticJsonSchemaWarning
from pydantic_core import CoreSchema, PydanticSerializationError, SchemaError, SchemaValidator, to_jsonable_python

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import untrusted_input_schema
from mcp_runtime.usage.rules import shown
from mcp_runtime.usage.texts import unwritable

from .descriptions import described
from .forms import with_own_names
from .type_hints import UNREADABLE, attributes_of, readable_hint

_NO_DEFAULT: Final = inspect.Parameter.empty


class JsonSchema(GenerateJsonSchema):
    """A generator of JSON Schemas without titles that repeat the property names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)  # Defaults without a JSON form are omitted.
            return super().generate(schema, mode)

    def model_schema(self, schema: Any) -> Any:
        with self._named_by(schema):
            return super().model_schema(schema)

    def dataclass_schema(self, schema: Any) -> Any:
        with self._named_by(schema):
            return super().dataclass_schema(schema)

    def typed_dict_schema(self, schema: Any) -> Any:
        with self._named_by(schema):
            return super().typed_dict_schema(schema)

    @contextmanager
    def _named_by(self, schema: Any) -> Generator[None]:
        """Name the properties of a type as its own configuration says, which pydantic applies to values only."""
        outer = self.by_alias
        key = "serialize_by_alias" if self.mode == "serialization" else "validate_by_alias"
        configuration: Mapping[str, Any] = schema.get("config") or {}
        self.by_alias = configuration.get(key) is not False
        try:
            yield
        finally:
            self.by_alias = outer

    def encode_default(self, dft: Any) -> Any:
        if not isinstance(dft, str) and (reason := unwritable(dft)) is not None:
            raise PydanticSerializationError(reason)
        try:
            return super().encode_default(with_own_names(dft) if self.mode == "serialization" else dft)
        except PydanticSerializationError:
            return to_jsonable_python(dft, by_alias=self.by_alias, fallback=_attributes)


class StrictJsonSchema(JsonSchema):
    """A generator that refuses a part without a JSON Schema, instead of leaving it out."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        raise ValueError(f"{kind}: {detail}")


class _Arguments(BaseModel):
    """The base of the models of arguments. It refuses unknown arguments, but not unknown properties of their values:
    a configuration would hold for these as well."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        schema = handler(source)
        fields: dict[str, Any] = cast(dict[str, Any], schema).get("schema", {})
        if fields.get("type") == "model-fields":
            fields["extra_behavior"] = "forbid"
        return schema


def argument_model(
    keys: Mapping[str, str],
    parameters: Mapping[str, inspect.Parameter],
    annotations: Mapping[str, Any],
    description: str,
) -> type[BaseModel]:
    """Return a model of the arguments of a function. Raises LocalError for an unsupported type.

    The parameter names are aliases, so that they cannot clash with model attributes.

    Args:
        keys: The fields of the model, by the names of the parameters.
        parameters: The parameters.
        annotations: Their type hints, with their descriptions.
        description: What the function is, for errors.
    """
    try:
        return _model(keys, parameters, annotations)
    except UNREADABLE:
        pass
    except SchemaError as error:  # Such as a Literal with half of a surrogate pair.
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise LocalError(f"{description}: a type of its parameters cannot be read: {reason}") from None
    try:
        readable = {name: readable_hint(hint) for name, hint in annotations.items()}
        return _model(keys, parameters, readable)
    except UNREADABLE as error:
        raise _unsupported(annotations, description, error) from None
    except LocalError as error:
        raise LocalError(f"{description}: {error}") from None


def _unsupported(annotations: Mapping[str, Any], description: str, error: PydanticErrorMixin) -> LocalError:
    """Return the error of the first parameter whose type pydantic cannot read, or cannot describe."""
    reason = " ".join(error.message.partition(". Set ")[0].split())
    first = next(iter(annotations))
    for name, hint in annotations.items():
        try:
            TypeAdapter[Any](readable_hint(hint)).json_schema(schema_generator=JsonSchema)
        except UNREADABLE:
            first = name
            break
    return LocalError(
        f"{description}: the parameter {first!r} has an unsupported type: {reason}: use a JSON type, a model or a "
        "dataclass"
    )


def _model(
    keys: Mapping[str, str], parameters: Mapping[str, inspect.Parameter], annotations: Mapping[str, Any]
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, key in keys.items():
        default: Any = parameters[name].default
        fields[key] = (annotations[name], ... if default is _NO_DEFAULT else default)
    make: Any = create_model
    model: type[BaseModel] = make("Arguments", __base__=_Arguments, **fields)
    return model


def model_schema(model: type[BaseModel], annotations: Mapping[str, Any], description: str) -> dict[str, Any]:
    """Return the JSON Schema of a model of arguments. Raises LocalError for a type that has none, such as Callable."""
    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=JsonSchema)
    except UNREADABLE as error:
        raise _unsupported(annotations, description, error) from None
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return {"type": "object", "additionalProperties": False, **schema}


def untrusting_validator(model: type[BaseModel]) -> SchemaValidator:
    """Return a validator of a model that stops at the first wrong item of a collection, also in its models."""
    schema = untrusted_input_schema(model.__pydantic_core_schema__)
    make: Any = SchemaValidator
    try:
        validator: SchemaValidator = make(schema, _use_prebuilt=False)  # Those of the models report all errors.
    except TypeError:  # pydantic without this keyword.
        validator = make(schema)
    return validator


def annotation(name: str, hint: Any, text: str | None) -> Any:
    """Return the hint with the name of its argument, and the description of the docstring, unless it has its own."""
    hint = described(hint)
    field = Field(alias=name) if text is None else Field(alias=name, description=text)
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        return Annotated[(inner, field, *metadata)]
    return Annotated[hint, field]


def _attributes(value: Any) -> dict[str, Any]:
    attributes = attributes_of(value)
    if attributes is None:
        raise PydanticSerializationError(f"{type(value).__name__} has no attributes with type hints")
    return attributes


def check_defaults(
    model: type[BaseModel], parameters: Iterable[tuple[str, inspect.Parameter]], description: str
) -> None:
    """Raise LocalError for the first default that does not fit the type of its parameter.

    None fits every type: `city: str = None` is common, although type checkers reject it.

    Args:
        model: The model of the arguments.
        parameters: The parameters of a function, by the names of their fields in the model.
        description: What the function becomes, for the message.
    """
    arguments = model.model_construct()
    for field, parameter in parameters:
        default = parameter.default
        if default is parameter.empty or default is None or isinstance(default, FieldInfo):
            continue
        if parameter.annotation is Any:
            continue
        if isinstance(parameter.annotation, type) and isinstance(default, parameter.annotation):
            continue  # The usual case, and that of classes that are read from JSON only.
        try:
            model.__pydantic_validator__.validate_assignment(arguments, field, default)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise LocalError(
                f"{description}: the default {shown(default)} of {parameter.name!r} does not fit its type: {reason}"
            ) from None
