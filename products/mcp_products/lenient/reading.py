"""Read a message of which a part cannot be read: without that part, and with a report of it.

What is left out, and what is not, is told by the types:

* An item of a list is left out. So is an optional property, and one with a default.
* A required property cannot be left out: the object around it cannot be read then. Neither can an `Essential` one, and
  its lists of plain values are read as a whole.
* A list that has lost all items costs its object, but not a page of a list: others may follow.
* Null for a list is a list without items: libraries of several languages write null for nothing.
* Content of an unknown `type` is kept, as `UnknownContent`.

Nothing here runs for a message that is valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from mcp_runtime.protocol.lenient import LeftOut, Reading
from mcp_runtime.protocol.models import (
    ESSENTIAL,
    defaults_of,
    fields_of,
    format_validation_error,
    is_list,
    is_model_type,
    is_object,
    validator,
)

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

MAX_LEFT_OUT: Final = 500  # Parts of one message: to look at each costs far more than to read a valid one.
_PIECE: Final = 100  # Items of a list that are read at once, as long as all of them are valid.
_MAX_NAME: Final = 100  # Characters of the name of an item in a report.
_TYPE: Final = "type"
_STAND_IN: Final = {_TYPE: "text", "text": ""}  # Content that every protocol version defines.
_Path = tuple[int | str, ...]


# Content of a type that the protocol version does not define: it is kept, with all its properties.


@cache
def unknown_content() -> type[BaseModel]:
    """Return the class of content of a type that the protocol version does not define. Few messages have any."""

    class UnknownContent(BaseModel):
        """Content of a type that the protocol version does not define. All its properties are attributes, and in
        `model_extra`."""

        model_config = ConfigDict(defer_build=True, extra="allow", protected_namespaces=())

        type: str

    UnknownContent.__qualname__ = UnknownContent.__name__
    return UnknownContent


def __getattr__(name: str) -> object:
    if name == "UnknownContent":  # For pickle.
        return unknown_content()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _UnreadableError(Exception):
    """A value that cannot be read, not even without parts of it; `place` is that of the wrong part."""

    def __init__(self, place: str, reason: str | ValidationError) -> None:
        super().__init__(place, reason)
        self.place = place
        self._reason = reason

    @property
    def reason(self) -> str:
        """The text of the reason; most are not needed, because another part of the value decides."""
        return self._reason if isinstance(self._reason, str) else format_validation_error(self._reason)


class _TooManyError(_UnreadableError):
    """More parts than are left out of one message: the message cannot be read."""


class _At(NamedTuple):
    """Where a value is: in the message as it is read, and in the message as it was sent, for the report."""

    path: _Path = ()
    place: str = ""

    def property(self, name: str) -> _At:
        return _At((*self.path, name), f"{self.place}.{name}" if self.place else name)

    def member(self, name: str) -> _At:
        return _At((*self.path, name), f"{self.place}[{name[:_MAX_NAME]!r}]")

    def item(self, index: int, given: int, name: str) -> _At:
        return _At((*self.path, index), f"{self.place}[{given}]{name}")


_WHOLE: Final = _At()


def read_with_unknown_content(shape: Any, value: Mapping[str, Any]) -> Any:
    """Return an object of which only content of unknown types is wrong. Raises ValidationError."""
    return _Reader(None).whole(shape, value)


def read_leniently(shape: Any, value: Any, left_out: list[LeftOut], reading: Reading = Reading.RESULT) -> Any:
    """Return a value without its parts that cannot be read.

    Args:
        shape: The type of the value, whose strict validation has failed.
        value: The value, as JSON.
        left_out: The list to add what is left out to.
        reading: What the value is.

    Raises ValidationError if the value itself cannot be read, and for more than `MAX_LEFT_OUT` parts.
    """
    return _Reader(left_out, reading).whole(shape, value)


def read_property_leniently(shape: Any, property: str, value: Any, left_out: list[LeftOut]) -> Any:
    """Return the value of one property of a type without its parts that cannot be read; a value of a property that the
    type does not have is returned as it is. Raises ValidationError."""
    model = _form(shape).model
    field = None if model is None else _fields(model).get(property)
    return value if field is None else _Reader(left_out).whole(field.kind, value, _At((property,), property))


class _Reader:
    """Reads one message. Without a list for what is left out, nothing is left out."""

    def __init__(self, left_out: list[LeftOut] | None, reading: Reading = Reading.RESULT) -> None:
        self.left_out = left_out
        self.unknown: dict[_Path, Any] = {}
        self._reading = reading

    def whole(self, shape: Any, value: Any, at: _At = _WHOLE) -> Any:
        """Return the message, or the part of one. Raises ValidationError."""
        try:
            result = self.read(shape, value, at)
        except _UnreadableError as error:
            wrong = InitErrorDetails(
                type=PydanticCustomError("unreadable", "{reason}", {"reason": error.reason}),
                loc=(error.place,) if error.place else (),
                input=None,
            )
            raise ValidationError.from_exception_data(getattr(shape, "__name__", "message"), [wrong]) from None
        for path, content in self.unknown.items():
            _put(result, path[len(at.path) :], unknown_content().model_validate(content))
        return result

    def read(self, kind: Any, value: Any, at: _At, is_whole: bool = False) -> Any:
        """Return a value of a type, without what is left out of it. With `is_whole`, that are not a plain values.

        Raises _UnreadableError.
        """
        form = _form(kind)
        if is_list(value) and form.item is not None:
            return self._list(form, value, at, is_whole)
        if is_object(value) and form.member is not None:
            return {name: self.read(form.member, item, at.member(name), is_whole) for name, item in value.items()}
        if self._keeps(form, value):
            self.unknown[at.path] = value
            return _STAND_IN
        try:
            return validator(kind)(value)
        except ValidationError as error:
            unreadable = _UnreadableError(at.place, error)
        if is_object(value) and form.model is not None:
            return self._object(form.model, value, at)
        arms = [arm for arm in form.arms_for(value) if _form(arm).may_be(value)]
        return self._best(arms, value, at, is_whole, unreadable)

    def _object(self, model: type[BaseModel], value: dict[str, Any], at: _At) -> Any:
        fields, read = _fields(model), dict[str, Any]()
        for name, item in value.items():
            if (field := fields.get(name)) is None:
                read[name] = item
            elif item is not None or not field.is_optional:  # Null is as absent.
                self._property(read, name, field, item, at.property(name))
        _leave_out_parallel_lists(value, read, fields)
        for name, default in defaults_of(model).items():
            if not at.path or name in value:
                read.setdefault(name, default)
        try:
            return validator(model)(read)
        except ValidationError as error:
            raise _UnreadableError(at.place, error) from None

    def _property(self, read: dict[str, Any], name: str, field: _Field, item: Any, at: _At) -> None:
        counts, is_of_message = self._counts(), len(at.path) == 1
        stays = not field.is_optional or field.is_essential or (is_of_message and self._reading is Reading.REQUEST)
        is_read = self.left_out is not None and not (is_of_message and self._reading is Reading.REQUEST)
        if item is None and is_read and _form(field.kind).item is not None:
            item = []
        try:
            read[name] = self.read(field.kind, item, at, field.is_essential)
            if not (is_list(item) and item) or read[name]:
                return
            if field.is_optional:
                del read[name]  # None of its items is left: it is not a list that was sent without any.
            elif not (is_of_message and self._reading is Reading.PAGE):
                raise _UnreadableError(at.place, f"no item can be read: {self.left_out[-1] if self.left_out else ''}")
        except _TooManyError:
            raise
        except _UnreadableError as error:
            if stays:
                raise
            self._leave_out(at, error, counts)

    def _list(self, form: _Form, items: list[Any], at: _At, is_whole: bool) -> list[Any]:
        kind, read = form.item, list[Any]()
        of_kind, item_form = _list_validator(kind), _form(kind)
        for start in range(0, len(items), _PIECE):
            given = items[start : start + _PIECE]
            piece = [_STAND_IN if self._keeps(item_form, item) else item for item in given]
            try:
                valid = of_kind(piece)
            except ValidationError:
                self._items(kind, given, start, read, at, is_whole and not item_form.has_models)
                continue
            for index, item in enumerate(piece, len(read)):
                if item is _STAND_IN:
                    self.unknown[*at.path, index] = given[index - len(read)]
            read += valid
        if form.max_length is not None and len(read) > form.max_length:
            counts = self._counts()
            error = _UnreadableError(at.place, f"there are {len(read)} items, and {form.max_length} is the limit")
            if is_whole:
                raise error
            self._leave_out(at, error, counts)
            del read[form.max_length :]
        return read

    def _items(self, kind: Any, items: list[Any], first: int, read: list[Any], at: _At, is_whole: bool) -> None:
        """Add those items of a list that can be read, one by one."""
        for number, item in enumerate(items, first):
            counts = self._counts()
            here = at.item(len(read), number, _name_of(kind, item))
            try:
                read.append(self.read(kind, item, here, is_whole))
            except _TooManyError:
                raise
            except _UnreadableError as error:
                if is_whole:
                    raise
                self._leave_out(here, error, counts)

    def _best(self, arms: Sequence[Any], value: Any, at: _At, is_whole: bool, unreadable: _UnreadableError) -> Any:
        """Return the value as that arm of a union of which the least is left out."""
        attempts: list[tuple[Any, _Reader]] = []
        for arm in arms:
            attempt = _Reader(None if self.left_out is None else [], self._reading)
            try:
                attempts.append((attempt.read(arm, value, at, is_whole), attempt))
            except _UnreadableError as error:
                unreadable = error if len(arms) == 1 else unreadable
        if not attempts:
            raise unreadable
        result, best = min(attempts, key=lambda attempt: len(attempt[1].left_out or ()))
        for part in best.left_out or ():
            self._leave_out(_At((), part.place), _UnreadableError(part.place, part.reason), self._counts())
        self.unknown.update(best.unknown)
        return result

    def _keeps(self, form: _Form, value: Any) -> bool:
        """Return True for content of an unknown type."""
        return form.keeps_unknown and self._reading is not Reading.REQUEST and _has_unknown_type(form, value)

    def _counts(self) -> tuple[int, int]:
        """Return how much is left out, and how much content is unknown, before a part is read."""
        return len(self.left_out or ()), len(self.unknown)

    def _leave_out(self, at: _At, error: _UnreadableError, counts: tuple[int, int]) -> None:
        """Leave out the part at a place, with what was noted about the parts of it.

        Raises the error, which may be about a part of it, if nothing may be left out.
        """
        if self.left_out is None:
            raise error
        if counts[0] >= MAX_LEFT_OUT:
            text = f"{error.reason}; {MAX_LEFT_OUT} other parts cannot be read either"
            raise _TooManyError(error.place, text) from None
        del self.left_out[counts[0] :]
        while len(self.unknown) > counts[1]:
            self.unknown.popitem()
        inside = error.place.removeprefix(at.place).lstrip(".")
        self.left_out.append(LeftOut(at.place, f"{inside}: {error.reason}" if inside else error.reason))


# ---- what the types say ---------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """What a type is made of: the type of the items of a list, of the members of an object, a model, or the arms of a
    union, by the value of the property `tag` if there is one."""

    item: Any = None
    max_length: int | None = None
    member: Any = None
    model: type[BaseModel] | None = None
    arms: Mapping[Any, Any] = {}
    tag: str = ""
    keeps_unknown: bool = False
    has_models: bool = False

    def arms_for(self, value: Any) -> Sequence[Any]:
        """Return the arms of a union that a value may be meant as."""
        if not self.tag:
            return [*self.arms.values()]
        tag = value.get(self.tag) if is_object(value) else None
        return [self.arms[tag]] if isinstance(tag, str) and tag in self.arms else []

    def may_be(self, value: Any) -> bool:
        """Return True if a value of this type is a JSON object or array, as this value is."""
        if self.arms:
            return any(_form(arm).may_be(value) for arm in self.arms.values())
        return is_list(value) if self.item is not None else is_object(value) and (self.model or self.member) is not None


class _Field(NamedTuple):
    """A property of a model."""

    kind: Any
    is_optional: bool
    is_essential: bool


def _has_unknown_type(form: _Form, value: Any) -> bool:
    return is_object(value) and type(tag := value.get(_TYPE)) is str and tag not in form.arms


@cache
def _list_validator(kind: Any) -> Any:
    return validator(list[kind])


@cache
def _form(kind: Any) -> _Form:
    shape, metadata = _bare(kind)
    origin, arguments = get_origin(shape), get_args(shape)
    if is_model_type(shape):
        return _Form(model=shape, has_models=True)
    if origin is list:
        limits = [getattr(constraint, "max_length", None) for constraint in metadata]
        return _Form(item=arguments[0], max_length=next((limit for limit in limits if limit is not None), None))
    if origin is dict:
        return _Form(member=arguments[1])
    if origin not in (Union, UnionType):
        return _Form()
    arms = _arms(shape)
    tag = next((info.discriminator for info in metadata if getattr(info, "discriminator", None)), None)
    has_models = any(_form(arm).has_models for arm in arms)
    if not isinstance(tag, str):
        return _Form(arms=dict(enumerate(arms)), has_models=has_models)
    tagged = {value: arm for arm in arms for value in _constants(arm, tag)}
    return _Form(arms=tagged, tag=tag, keeps_unknown=tag == _TYPE and _is_content(kind), has_models=has_models)


def _bare(kind: Any) -> tuple[Any, list[Any]]:
    """Return the type that an annotation or an alias is about, of an optional type the type, and the annotations."""
    metadata = list[Any]()
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            metadata += more
        elif hasattr(kind, "__value__"):
            kind = _aliased(kind)
        elif get_origin(kind) in (Union, UnionType) and len(arms := _arms(kind)) == 1:
            kind = arms[0]
        else:
            return kind, metadata


def _aliased(alias: Any) -> Any:
    """Return the type that an alias stands for; the types in it may be named by strings."""
    holder = SimpleNamespace(__annotations__={"value": alias.__value__})
    return get_type_hints(holder, vars(import_module(alias.__module__)), include_extras=True)["value"]


def _arms(union: Any) -> list[Any]:
    return [arm for arm in get_args(union) if arm is not NoneType]


def _constants(arm: Any, tag: str) -> tuple[Any, ...]:
    """Return the values of the property that tells the arms of a union apart."""
    form = _form(arm)
    if form.model is None:
        return tuple(value for inner in form.arms.values() for value in _constants(inner, tag))
    fields = fields_of(form.model).items()
    return next((get_args(field.annotation) for name, field in fields if tag in (name, field.alias)), ())


def _is_content(kind: Any) -> bool:
    try:
        validator(kind)(_STAND_IN)
    except ValidationError:
        return False
    return True


@cache
def _fields(model: type[BaseModel]) -> Mapping[str, _Field]:
    """Return the properties of a model by their names in JSON."""
    model.model_rebuild()  # Else an annotation may be a string until the first instance.
    defaults = defaults_of(model)
    return {
        (wire := field.alias or name): _Field(
            _kind_of(field), wire in defaults or not field.is_required(), ESSENTIAL in field.metadata
        )
        for name, field in fields_of(model).items()
    }


def _kind_of(field: FieldInfo) -> Any:
    """Return the type of a field with what its annotation says further: limits, and what tells arms apart."""
    metadata = [item for item in field.metadata if item != ESSENTIAL]
    if field.discriminator is not None:
        metadata.append(Field(discriminator=field.discriminator))
    return Annotated[(field.annotation, *metadata)] if metadata else field.annotation


def _leave_out_parallel_lists(value: Mapping[str, Any], read: dict[str, Any], fields: Mapping[str, _Field]) -> None:
    """Leave out optional lists of plain values that were as long as another one, and are not any more: their items
    belong together, as the values of a choice and the names of the values do."""
    lists = {
        name: len(value[name])
        for name, items in read.items()
        if is_list(items) and name in fields and is_list(value[name]) and not _form(_form(fields[name].kind).item).model
    }
    for name, length in lists.items():
        others = [other for other in lists if other != name and lists[other] == length]
        if fields[name].is_optional and any(len(read[other]) != len(read.get(name, ())) for other in others):
            del read[name]


def _name_of(kind: Any, item: Any) -> str:
    """Return the name of an item for a report: the first text that every item of its type has, such as its name or its
    URI. Content has none: its texts are not for a log."""
    form = _form(kind)
    if form.tag or not is_object(item):
        return ""
    models = [form.model, *(_form(arm).model for arm in form.arms.values())]
    for fields in [_fields(model) for model in models if model is not None]:
        for wire, field in fields.items():
            text = item.get(wire)
            if not field.is_optional and isinstance(text, str) and _bare(field.kind)[0] is str:
                return f" {text[:_MAX_NAME]!r}"
    return ""


# ---- unknown content ------------------------------------------------------------------------------------------------


def _put(owner: Any, path: Sequence[Any], content: BaseModel) -> None:
    """Put content into the place of what stands in for it."""
    *steps, last = path
    for step in steps:
        owner = owner[step] if is_object(owner) or is_list(owner) else getattr(owner, _attribute(owner, step))
    if is_object(owner) or is_list(owner):
        owner[last] = content
    else:
        setattr(owner, _attribute(owner, last), content)


def _attribute(model: BaseModel, property: int | str) -> str:
    fields = type(model).__pydantic_fields__
    return next((name for name, field in fields.items() if field.alias == property), str(property))
