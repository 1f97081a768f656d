"""Requests for input of the user, with forms and URLs, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast, get_type_hints, is_typeddict

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError

from mcp_runtime.errors import InvalidResponseError
from mcp_runtime.protocol.models import format_validation_error, is_list, is_object
from mcp_runtime.session.requests import RequestKeywords, RequestOptions

# Forms: the JSON Schema of a Python type as clients can show it, and values of the type from what the user fills in.
#
# A form is a flat object of texts, numbers, booleans and choices. See
# https://modelcontextprotocol.io/specification/draft/client/elicitation#requested-schema

_VALUE: Final = "value"  # The field of a form for a single value.
_SHAPES: Final = (
    "a form has text, numbers, booleans, dates and choices: use str, int, float, bool, date, datetime, a Literal or an"
    " Enum of strings, or a list of such a Literal or Enum"
)
_LABELS: Final = ("title", "description", "default")
_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format", "enum", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
}
_FORMATS: Final = ("email", "uri", "date", "date-time")
T = TypeVar("T")
# People take their time: there is no time-out unless the caller sets one.
NO_TIMEOUT: Final = RequestOptions(timeout=None)


class Form:
    """A form for a Python type.

    Attributes:
        schema: The JSON Schema of the form.
    """

    def __init__(self, shape: Any, title: str | None = None, description: str | None = None) -> None:
        """Create the form of a type; `title` and `description` are those of the field of a simple type.

        Raises TypeError if the type does not fit into a form.
        """
        self._name = getattr(shape, "__name__", None) or repr(shape)
        self._titles: Mapping[str, str] = {}
        self._read: Callable[[Any], Any]
        self.schema: dict[str, Any]
        if shape is None or shape is NoneType:
            raise TypeError("elicit() needs the type of the data: elicit(message, bool) lets the user confirm")
        if _is_json_schema(shape):
            self._require_plain(title, description)
            self.schema = dict(shape)
            self._read = dict
            return
        try:
            model = self._adapter(shape, title, description)
            self.schema = self._schema_of(model)
        except PydanticUserError:
            raise TypeError(f"elicit() cannot show {self._name} in a form; {_SHAPES}") from None
        if self._titles:
            _use_titles(self.schema["properties"][_VALUE], self._titles)

    def read(self, content: Mapping[str, Any]) -> Any:
        """Return the data of a form that the user has filled in. Raises InvalidResponseError."""
        try:
            return self._read(content)
        except ValidationError as error:
            raise InvalidResponseError(
                f"the form for {self._name} has invalid values: {format_validation_error(error)}"
            ) from None

    def _require_plain(self, title: str | None, description: str | None) -> None:
        if title is not None or description is not None:
            raise TypeError(
                f"elicit() takes response_title and response_description for simple types only; {self._name} has its"
                " own: Field(title=…)"
            )

    def _adapter(self, shape: Any, title: str | None, description: str | None) -> TypeAdapter[Any]:
        """Return the adapter of a type, and set the function that reads its values."""
        if not _is_record(shape):
            shape, titles = _with_titles(shape)
            self._titles = titles
            fields: dict[str, Any] = {_VALUE: (shape, Field(title=title, description=description))}
            model = TypeAdapter(create_model("Form", **fields))
            self._read = lambda content: getattr(model.validate_python(content), _VALUE)
            return model
        self._require_plain(title, description)
        if not is_typeddict(shape):
            adapter: TypeAdapter[Any] = TypeAdapter(shape)
            self._read = adapter.validate_python
            return adapter
        # A model, because pydantic reads the TypedDict of typing only since Python 3.12.
        hints = get_type_hints(shape).items()
        fields = {name: (hint, ... if name in shape.__required_keys__ else None) for name, hint in hints}
        model = TypeAdapter(create_model("Form", **fields))
        self._read = lambda content: model.validate_python(content).model_dump(exclude_unset=True)
        return model

    def _schema_of(self, model: TypeAdapter[Any]) -> dict[str, Any]:
        whole = model.json_schema()
        definitions = whole.get("$defs", {})
        whole = _resolved(whole, definitions)
        required: list[str] = list(whole.get("required", ()))
        properties: dict[str, Any] = {}
        for name, raw in whole.get("properties", {}).items():
            field, is_optional = _field(raw, definitions)
            if field is None:
                where = self._name if name == _VALUE else f"the field {name!r} of {self._name}"
                raise TypeError(f"elicit() cannot show {where} in a form; {_SHAPES}")
            properties[name] = field
            if is_optional and name in required:
                required.remove(name)
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required else schema


def _is_json_schema(shape: Any) -> bool:
    return is_object(shape) and shape.get("type") == "object" and is_object(shape.get("properties"))


def _is_record(shape: Any) -> bool:
    if is_typeddict(shape):
        return True
    if not isinstance(shape, type):
        return False
    return issubclass(cast("type[Any]", shape), BaseModel) or hasattr(shape, "__dataclass_fields__")


def _with_titles(shape: Any) -> tuple[Any, Mapping[str, str]]:
    """Return the type of a shorthand, and the titles of its choices: `["a", "b"]`, `{"a": {"title": "A"}}`, or a list
    of one of these for several choices."""
    if is_object(shape):
        return _choice(shape, [*shape]), {
            name: str(label.get("title", name)) if is_object(label) else str(label) for name, label in shape.items()
        }
    if not is_list(shape):
        return shape, {}
    if len(shape) == 1 and (is_list(shape[0]) or is_object(shape[0])):
        item, labels = _with_titles(shape[0])
        many: Any = list
        return many[item], labels
    return _choice(shape, shape), {}


def _choice(shape: Any, names: list[Any]) -> Any:
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"elicit() cannot show {shape!r} in a form: choices are strings, such as ['yes', 'no']")
    return Literal[tuple(names)]


def _use_titles(field: dict[str, Any], titles: Mapping[str, str]) -> None:
    options = [{"const": name, "title": title} for name, title in titles.items()]
    if field["type"] == "array":
        field["items"] = {"anyOf": options}
    else:
        del field["enum"]
        field["oneOf"] = options


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the definition that its `$ref` names."""
    while is_object(schema) and "$ref" in schema:
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**definitions.get(schema["$ref"].rpartition("/")[2], {}), **rest}
    return schema if is_object(schema) else {}


def _field(raw: Any, definitions: Mapping[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """Return a field of a form, None if it does not fit, and whether its value may be absent."""
    schema: dict[str, Any] = _resolved(raw, definitions)
    options, is_optional = schema.get("anyOf"), False
    if is_list(options):
        present = [option for option in options if option != {"type": "null"}]
        is_optional = len(present) < len(options)
        if len(present) != 1:
            return None, is_optional
        schema = {**_resolved(present[0], definitions), **{key: schema[key] for key in _LABELS if key in schema}}
    labels = {key: schema[key] for key in _LABELS if schema.get(key) is not None}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    kind: Any = schema.get("type")
    if kind == "array":
        items = _choices(_resolved(schema.get("items"), definitions))
        bounds: dict[str, Any] = {key: schema[key] for key in ("minItems", "maxItems") if key in schema}
        return (None if items is None else {"type": "array", **labels, **bounds, "items": items}), is_optional
    if "enum" in schema:
        choices = _choices(schema)
        return (None if choices is None else {**labels, **choices}), is_optional
    if kind not in _KEYWORDS or schema.get("format") == "binary":
        return None, is_optional
    rules: dict[str, Any] = {key: schema[key] for key in _KEYWORDS[kind] if key in schema}
    if rules.get("format", "date") not in _FORMATS:
        del rules["format"]
    if kind == "integer":
        rules |= {"minimum": schema["exclusiveMinimum"] + 1} if "exclusiveMinimum" in schema else {}
        rules |= {"maximum": schema["exclusiveMaximum"] - 1} if "exclusiveMaximum" in schema else {}
    return {"type": kind, **labels, **rules}, is_optional


def _choices(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema of a choice between strings; None for anything else."""
    names = [schema["const"]] if "const" in schema else schema.get("enum")
    if not is_list(names) or not all(isinstance(name, str) for name in names):
        return None
    return {"type": "string", "enum": names}


@dataclass(frozen=True)
class AcceptedElicitation(Generic[T]):
    """The user has filled in the form: `data` has the requested type."""

    data: T
    action: Literal["accept"] = "accept"


@dataclass(frozen=True)
class DeclinedElicitation:
    """The user has refused."""

    action: Literal["decline"] = "decline"
    data: None = None


@dataclass(frozen=True)
class CancelledElicitation:
    """The user has dismissed the request."""

    action: Literal["cancel"] = "cancel"
    data: None = None


@dataclass(frozen=True)
class AcceptedUrlElicitation:
    """The user has agreed to visit the URL."""

    action: Literal["accept"] = "accept"
    data: None = None


ElicitationResult: TypeAlias = AcceptedElicitation[T] | DeclinedElicitation | CancelledElicitation
URLElicitationResult: TypeAlias = AcceptedUrlElicitation | DeclinedElicitation | CancelledElicitation


async def elicit_form(
    ctx: Any,
    message: str,
    schema: Any,
    *,
    response_type: Any,
    title: str | None,
    description: str | None,
    keywords: RequestKeywords,
) -> ElicitationResult[Any]:
    """Send a form to the user, and return the result with data of the requested type."""
    if schema is not None and response_type is not None:
        raise TypeError("elicit() got both `schema` and `response_type`, which are names of the same argument")
    form = Form(schema if response_type is None else response_type, title, description)
    params: dict[str, Any] = {"mode": "form", "message": message, "requestedSchema": form.schema}
    result = await ctx.send_client_request("on_elicit", params, NO_TIMEOUT, keywords)
    match result.action:
        case "accept":
            return AcceptedElicitation(form.read(result.content or {}))
        case "decline":
            return DeclinedElicitation()
        case "cancel":
            return CancelledElicitation()
        case action:
            raise InvalidResponseError(f"the client responded to the form with the unknown action {action!r}")


async def elicit_url(
    ctx: Any, message: str, url: str, elicitation_id: str | None, keywords: RequestKeywords
) -> URLElicitationResult:
    """Request that the user visits a URL, and return whether the user agreed."""
    params: dict[str, Any] = {"mode": "url", "message": message, "url": url}
    if elicitation_id is not None:
        params["elicitationId"] = elicitation_id
    result = await ctx.send_client_request("on_elicit", params, NO_TIMEOUT, keywords)
    actions: Mapping[str, URLElicitationResult] = {
        "accept": AcceptedUrlElicitation(),
        "decline": DeclinedElicitation(),
        "cancel": CancelledElicitation(),
    }
    return actions[result.action]
