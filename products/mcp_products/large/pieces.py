"""Validate a large message in pieces, so that an event loop can do other work between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin

from pydantic_core import ValidationError

from mcp_runtime.protocol.connection import Connection
from mcp_runtime.protocol.jsonrpc import Message, NotificationMessage, RequestMessage, ResultMessage
from mcp_runtime.protocol.models import is_list, is_object, validator

if TYPE_CHECKING:
    from pydantic import BaseModel

_PIECE: Final = 1000  # Items of a list, or members of an object.

Validate = Callable[[object], Any]


def validate_in_pieces(
    connection: Connection, message: Message | list[Message], validated: list[list[Any]]
) -> Iterator[None]:
    """Validate the long lists of a message, and replace their items by the results; yield after each piece.

    It ends at the first wrong item: `receive_message` then has to validate what is left, and reports the error.
    `validated` gets a list of the results of each, for `release_in_pieces`.
    """
    match message:
        case RequestMessage(method=method, params=params) | NotificationMessage(method=method, params=params):
            row, value = connection.receivable.get(method), params
            shape = None if row is None else row.params
        case ResultMessage(id=id, result=result):
            pending, value = connection.pending.get(id), result
            shape = None if pending is None else pending[0].result
        case _:
            return
    if shape is None or not is_object(value):
        return
    for name, validate in _long_properties(shape).items():
        items = value.get(name)
        if (is_list(items) or is_object(items)) and len(items) > _PIECE:
            try:
                yield from _validate_items(items, validate)
            except ValidationError:
                return
            finally:
                validated.append(list(items.values() if is_object(items) else items))


def release_in_pieces(validated: list[list[Any]]) -> Iterator[None]:
    """Release the results of `validate_in_pieces`; yield after each piece.

    Where nobody else holds them, they are freed here: to free all at once takes as long as to validate them.
    """
    while validated:
        items = validated.pop()
        while items:
            del items[-_PIECE:]
            yield


def _validate_items(items: list[Any] | dict[str, Any], validate: Validate) -> Iterator[None]:
    if is_list(items):
        for start in range(0, len(items), _PIECE):
            items[start : start + _PIECE] = validate(items[start : start + _PIECE])
            yield
    elif is_object(items):
        names = list(items)
        for start in range(0, len(names), _PIECE):
            items.update(validate({name: items[name] for name in names[start : start + _PIECE]}))
            yield


@cache
def _long_properties(shape: type[BaseModel]) -> Mapping[str, Validate]:
    """Return the properties of a type that are lists or objects of models, and what validates a part of each."""
    shape.model_rebuild()
    properties: dict[str, Validate] = {}
    for name, field in shape.__pydantic_fields__.items():
        for choice in (field.annotation, *get_args(field.annotation)):
            kind = get_args(choice)[0] if get_origin(choice) is Annotated else choice
            if get_origin(kind) in (list, dict) and get_args(kind)[-1] not in (Any, str):
                properties[field.alias or name] = validator(kind)
    return properties
