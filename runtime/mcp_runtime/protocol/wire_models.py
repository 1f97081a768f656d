"""The base class and the field types of all generated models: how Python attributes map to JSON properties.

* A required property must be present, constants included; a constructor fills in constants.
* An optional property is `None` in Python if it is absent in JSON, and is not serialized if it is `None`.
* An optional property of type any is `None` in Python if it is absent in JSON, and if it is null there. What was null
  or was passed to the constructor as `None` is serialized as null.
* Properties that the schema does not define are preserved.
"""

import warnings
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import is_
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, TypeVar, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, SchemaValidator, from_json

from .. import products
from .models import ESSENTIAL, OPTIONAL_ANY, check_integer, fields_of, is_object, untrusted_input_schema

# Without `from __future__ import annotations`: pydantic would evaluate the strings again for every generated class.


if TYPE_CHECKING:
    from pydantic.experimental.missing_sentinel import MISSING
else:
    try:
        from pydantic import MISSING
    except ImportError:  # It was experimental before pydantic 2.14.
        from pydantic.experimental.missing_sentinel import MISSING

T = TypeVar("T")


Opt = Annotated[T | None, Field(exclude_if=partial(is_, None))]
# An optional property without which its object would mean something else, so that a wrong one is not left out.
Essential = Annotated[T | None, Field(exclude_if=partial(is_, None)), ESSENTIAL]
# An optional property of type any. Models keep pydantic's MISSING for an absent one, which is not serialized.
if TYPE_CHECKING:
    OptAny: TypeAlias = Any
else:
    OptAny = Annotated[Any, OPTIONAL_ANY]
# Texts in a format, which is an annotation in the JSON Schema: it is not validated.
EncodedBytes = Annotated[str, WithJsonSchema({"type": "string", "format": "byte"})]
Uri = Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]
UriTemplate = Annotated[str, WithJsonSchema({"type": "string", "format": "uri-template"})]
_BASE64 = get_args(EncodedBytes)[1]
Int = Annotated[int, BeforeValidator(check_integer)]
Number = int | float

if TYPE_CHECKING:

    def const(value: T) -> T:
        """Declare a constant of the schema: required in JSON, filled in by the constructor."""
        ...

    def default_to(value: T) -> T:
        """Declare the default of a property: required in JSON, filled in by the constructor."""
        ...

else:

    def const(value):  # noqa: D103
        return ...  # The Literal type has the value; a FieldInfo for each constant would slow down every import.

    def default_to(value):  # noqa: D103
        return Field(json_schema_extra={"fill": value})


if TYPE_CHECKING:
    from typing_extensions import deprecated as deprecated
else:

    def deprecated(message):
        """Mark a type as deprecated: its constructor warns, validation of received JSON does not."""

        def mark(cls):
            cls.__deprecated__ = message
            return cls

        return mark


class _OptionalAny:
    """The attribute of an optional property of type any: None if the property is absent."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, model: BaseModel | None, owner: type[BaseModel]) -> Any:
        if model is None:
            raise AttributeError(self._name)  # As that of any field of a model.
        value = vars(model)[self._name]
        return None if value is MISSING else value

    def __set__(self, model: BaseModel, value: object) -> None:
        vars(model)[self._name] = value


class WireModel(BaseModel):
    """A JSON object of the protocol."""

    model_config = ConfigDict(
        allow_inf_nan=False,
        defer_build=True,
        extra="allow",
        protected_namespaces=(),
        ser_json_inf_nan="constants",  # `serialize` refuses them; null would lose a number in silence.
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    def __init__(self, /, **data: Any) -> None:
        default_fields = _DEFAULT_FIELDS[type(self)]
        if default_fields is None:
            values, defaulted = data, None
        else:
            values, defaulted, deprecated = default_fields
            if deprecated:
                warnings.warn(deprecated, DeprecationWarning, stacklevel=2)
            if not defaulted.keys().isdisjoint(data):  # One name for each, or there would be two values.
                data = {defaulted.get(name, name): value for name, value in data.items()}
            values = {**values, **data}
        try:
            _VALIDATORS[type(self)](values, self_instance=self)
        except ValidationError:
            texts = {name: _as_text(type(self), name, value) for name, value in values.items()}
            if texts == values:
                raise
            self.__pydantic_validator__.validate_python(texts, self_instance=self)
        # `model_fields_set` must not contain properties that the constructor has filled in.
        if defaulted:
            self.__pydantic_fields_set__.difference_update(defaulted.keys() - data.keys())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        schema = handler(source)
        model: dict[str, Any] = cast(Any, handler.resolve_ref_schema(schema))
        model["schema"] = untrusted_input_schema(model["schema"], cast(Any, handler.resolve_ref_schema))
        inner = model["schema"]
        while "fields" not in inner and "schema" in inner:  # Below a validator of the type, or a reference to itself.
            inner = inner["schema"]
        for name, field in fields_of(cls).items():
            if OPTIONAL_ANY in field.metadata:
                inner["fields"][name]["schema"]["default"] = MISSING
                setattr(cls, name, _OptionalAny(name))
        return schema

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /) -> dict[str, Any]:

        schema = handler(core_schema)
        if (details := _for_people()) is not None:
            details.exported_schema(cls, handler.resolve_ref_schema(schema))
        return schema

    @classmethod
    def parse(
        cls, value: Any, *, strict: bool = True, null: Literal["absent", "refused"] = "absent", unknown: bool = False
    ) -> Self:
        """Return the object of a JSON text, or of parsed JSON, by the names of the schema alone.

        Args:
            value: The text as str or bytes, or the parsed object.
            strict: False to convert what pydantic converts: `"5"` to a number.
            null: "refused" to refuse null where a property may only be absent; "absent" to read it as that.
            unknown: True to keep content of a `type` that the schema does not have, as `UnknownContent`.

        Raises ValueError for a text that is not JSON, and ValidationError, which is one too.
        """
        if isinstance(value, str | bytes | bytearray):
            value = from_json(value, allow_inf_nan=False)
        if (details := _for_people()) is None:
            raise TypeError(f"{cls.__name__}.parse() needs a generated package; import it first")
        return cast("Self", details.parse(cls, value, strict=strict, null=null, unknown=unknown))

    def to_dict(self) -> dict[str, Any]:
        """Return the object as JSON for `json.dumps`: by the names of the schema, without absent properties."""
        return self.model_dump(mode="json")

    if not TYPE_CHECKING:

        @classmethod
        def model_validate(cls, obj, **options):
            """Validate a value, by the names of the schema unless `by_name=True`: attributes are not properties."""
            return super().model_validate(obj, **{"by_name": False, **options})

        @classmethod
        def model_validate_json(cls, json_data, **options):
            """Validate a JSON text, by the names of the schema unless `by_name=True`."""
            return super().model_validate_json(json_data, **{"by_name": False, **options})

        def __getattr__(self, name):
            """Return the value of a property by its JSON name; only called for names that are not attributes."""
            attribute = _attributes(type(self)).get(name)
            if attribute is not None:
                return getattr(self, attribute)
            if name in ("data", "text") and (details := _for_people()) is not None:
                if remedy := details.attribute_remedy(type(self), name):
                    raise AttributeError(remedy)
            return super().__getattr__(name)

        def __iter__(self):
            """Iterate over fields and values, as every model does; a result with pages would be taken for its list."""
            if (details := _for_people()) is not None:
                details.refuse_iteration(type(self))
            return ((name, None if value is MISSING else value) for name, value in super().__iter__())

        def __repr_args__(self):
            """Return what `repr` shows, without absent properties of type any."""
            return ((name, value) for name, value in super().__repr_args__() if value is not MISSING)

        def __getitem__(self, key):
            """Raise TypeError with what to write instead."""
            details = _for_people()
            raise TypeError(details and details.item_remedy(type(self), key, _attributes(type(self))))

    # pydantic must not call __init__ during validation: only direct construction fills in constants.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def _for_people() -> Any:
    """Return what has the descriptions and remedies of models; None where it is not there."""
    return products.find("models")


def _as_text(cls: type[BaseModel], name: str, value: object) -> object:
    """Return the text of a URL of pydantic, and of bytes for a property in base64; any other value is unchanged."""
    if isinstance(value, bytes | bytearray):
        fields = cls.__pydantic_fields__
        field = fields.get(name) or fields.get(_attributes(cls).get(name, ""))
        return b64encode(value).decode() if field is not None and _BASE64 in field.metadata else value
    return str(value) if type(value).__module__ == "pydantic.networks" else value


if not TYPE_CHECKING:

    class _ModelFields:
        """The fields of a model for programs; the runtime reads them without their descriptions."""

        def __get__(self, instance, owner):
            details = _for_people()
            return owner.__pydantic_fields__ if details is None else details.described_fields(owner)

        def __set__(self, instance, value):
            raise AttributeError("model_fields cannot be set")

    WireModel.model_fields = _ModelFields()


DefaultFields = tuple[dict[str, Any], dict[str, str], str]


class _DefaultFieldsByType(dict[type[BaseModel], DefaultFields | None]):
    """The values that a model's constructor fills in, by class.

    Each value is a tuple: constants and defaults by attribute; the attributes with defaults, by each accepted name; and
    the text of the deprecation warning. It is None if the constructor has nothing to fill in and no warning to issue.
    """

    def __missing__(self, cls: type[BaseModel]) -> DefaultFields | None:
        values: dict[str, Any] = {}
        defaulted: dict[str, str] = {}
        for name, field in cls.__pydantic_fields__.items():
            if is_object(field.json_schema_extra):
                values[name] = field.json_schema_extra["fill"]
                defaulted |= {name: name, field.alias or name: name}
            elif field.is_required() and get_origin(field.annotation) is Literal:
                if len(get_args(field.annotation)) == 1:
                    values[name] = get_args(field.annotation)[0]
        deprecated = vars(cls).get("__deprecated__", "")
        self[cls] = fields = (values, defaulted, deprecated) if values or deprecated else None
        return fields


_DEFAULT_FIELDS = _DefaultFieldsByType()


class _ValidatorsByType(dict[type[BaseModel], Callable[..., Any]]):
    """What validates the fields of a model: a look-up here costs less than one in a model, which has `__getattr__`."""

    def __missing__(self, cls: type[BaseModel]) -> Callable[..., Any]:
        validator = cls.__pydantic_validator__
        validate: Callable[..., Any] = validator.validate_python
        if type(validator) is SchemaValidator:  # Others are replaced when they are used first.
            self[cls] = validate
        return validate


_VALIDATORS = _ValidatorsByType()


@cache
def _attributes(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return the attribute of each property whose JSON name is another one."""
    return {field.alias: name for name, field in cls.__pydantic_fields__.items() if field.alias not in (None, name)}


class AnyObject(WireModel):
    """The params or the result of a message that the protocol does not have."""

    meta: Annotated[Opt[dict[str, Any]], Field(alias="_meta")] = None
