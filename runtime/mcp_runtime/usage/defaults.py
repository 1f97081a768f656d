"""The check that the defaults of parameters fit their types."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from ..errors import LocalError
from .rules import shown


def check_defaults(
    parameters: Mapping[str, inspect.Parameter], annotations: Mapping[str, Any], description: str
) -> None:
    """Raise LocalError for the first default that does not fit the type of its parameter.

    None fits every type: `city: str = None` is common, although type checkers reject it.

    Args:
        parameters: The parameters of a function by name.
        annotations: Their type hints.
        description: What the function becomes, for the message.
    """
    for name, parameter in parameters.items():
        default, annotation = parameter.default, annotations[name]
        if default is parameter.empty or default is None or isinstance(default, FieldInfo) or annotation is Any:
            continue
        if isinstance(annotation, type) and isinstance(default, annotation):
            continue  # The usual case, without the cost of a validator.
        try:
            TypeAdapter[Any](annotation).validate_python(default)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            raise LocalError(
                f"{description}: the default {shown(default)} of {name!r} does not fit its type: {reason}"
            ) from None
        except PydanticUserError:
            continue  # The type itself is refused elsewhere.
