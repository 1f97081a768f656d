"""The check that the defaults of parameters fit their types."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..errors import LocalError
from .rules import shown


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
        if isinstance(parameter.annotation, type) and isinstance(default, parameter.annotation):
            continue  # The usual case, and that of classes that are read from JSON only.
        try:
            model.__pydantic_validator__.validate_assignment(arguments, field, default)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise LocalError(
                f"{description}: the default {shown(default)} of {parameter.name!r} does not fit its type: {reason}"
            ) from None
