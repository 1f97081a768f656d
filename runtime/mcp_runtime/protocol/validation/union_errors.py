"""The errors of a value that matches no branch of a union: those of the branch that was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

_Error = Mapping[str, Any]

# The name of a branch in the path of an error: a class, or a type of Python. Properties begin with a small letter.
_BRANCH: Final = re.compile(
    r"[A-Z]\w*|(str|int|float|bool|none|any|(tagged-)?union|list|dict|literal|constrained|function)\b.*", re.DOTALL
)
_MAX_VALUE: Final = 60


def meant_errors(errors: Sequence[Any]) -> list[_Error]:
    """Return the errors without those of other branches than the one that was meant.

    A branch for values of another type was not meant, nor one whose constants the value does not have; of others, the
    one with the fewest errors was. If the value has the constant of no branch, there is one error, with those of all.
    """
    rest: list[_Error] = list(errors)
    for depth in range(max((len(error["loc"]) for error in rest), default=0)):
        first = next((error for error in rest if _branch(error, depth)), None)
        if first is not None:
            start = first["loc"][:depth]
            inside, others = list[_Error](), list[_Error]()
            for error in rest:
                (inside if _branch(error, depth) and error["loc"][:depth] == start else others).append(error)
            rest = [*_meant(inside, depth), *others]
    return [{**error, "loc": tuple(step for step in error["loc"] if "[" not in str(step))} for error in rest]


def _branch(error: _Error, depth: int) -> tuple[str, ...]:
    """Return the names of a branch, and of those inside of it, that stand here in the path of an error."""
    return tuple(takewhile(lambda step: _BRANCH.fullmatch(str(step)), error["loc"][depth:]))


def _meant(errors: list[_Error], depth: int) -> list[_Error]:
    """Return the errors of the branch that was meant, of those of one union."""
    branches: dict[tuple[str, ...], list[_Error]] = {}
    for error in errors:
        branches.setdefault(_branch(error, depth), []).append(error)
    if len(branches) < 2:
        return errors
    constants = [
        {error["loc"][depth + len(branch) :] for error in inside if _is_constant(error)}
        for branch, inside in branches.items()
    ]
    for path in sorted(set[Any].intersection(*constants), key=len):
        wrong = [error for error in errors if _is_constant(error) and error["loc"][-len(path) :] == path]
        allowed = (value for error in wrong for value in error["ctx"]["expected"].replace(" or ", ", ").split(", "))
        text = f"{wrong[0]['input']!a:.{_MAX_VALUE}} is not one of {', '.join(dict.fromkeys(allowed))}"
        return [{"loc": (*errors[0]["loc"][:depth], *path), "msg": text, "type": "union"}]
    return min(branches.items(), key=lambda item: _distance(item[1], depth + len(item[0])))[1]


def _distance(errors: list[_Error], depth: int) -> tuple[bool, bool, int]:
    of_type = any(len(error["loc"]) == depth and error["type"].endswith("_type") for error in errors)
    return of_type, any(map(_is_constant, errors)), len(errors)


def _is_constant(error: _Error) -> bool:
    return error["type"] == "literal_error" and isinstance(error.get("input"), (str, int))
