"""The signature with which a function of a user can be called, and its type hints."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast, get_type_hints

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# What the evaluation of a type hint may raise.
HINT_ERRORS: Final = (NameError, TypeError, AttributeError, SyntaxError)


def signature_of(function: Callable[..., Any], *, hints: bool = True) -> inspect.Signature:
    """Return the signature with which a function can be called, with evaluated type hints unless `hints` is False.

    `inspect.signature` believes `__wrapped__`, which `functools.wraps` and `functools.update_wrapper` set: it asks for
    arguments that a partial application has bound already, and for those that a decorator passes itself. Here a wrapper
    has the parameters of what it wraps only if it accepts any keyword.

    Raises one of HINT_ERRORS for a type hint that cannot be evaluated, and ValueError for a function without a
    signature, as some that are written in C.
    """
    target: Any = function
    if _is_partial(target):
        return _bound(target, hints)
    if inspect.ismethod(target):
        return _without_first(signature_of(target.__func__, hints=hints))
    if isinstance(getattr(target, "__signature__", None), inspect.Signature):
        return _evaluated(inspect.signature(target), target, hints)
    wrapped = getattr(target, "__wrapped__", None)
    if inspect.isfunction(target) or inspect.isclass(target):
        own = _evaluated(inspect.signature(target, follow_wrapped=False), target, hints)
    elif inspect.isfunction(call := cast(Any, type(target)).__call__):
        own = _without_first(signature_of(call, hints=hints))
    elif wrapped is not None:  # A callable that is written in C, such as what `functools.lru_cache` returns.
        return signature_of(wrapped, hints=hints)
    else:
        return _evaluated(inspect.signature(target), target, hints)
    accepts_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.parameters.values())
    return _merged(own, signature_of(wrapped, hints=hints)) if accepts_all and callable(wrapped) else own


def docstring_of(function: Callable[..., Any]) -> str | None:
    """Return the docstring of a function; of a partial application that of its function, and of an object its own, that
    of its class or that of `__call__`."""
    target: Any = function
    while _is_partial(target) and "__doc__" not in vars(target):
        target = target.func
    doc = inspect.getdoc(target)
    is_object = not inspect.isroutine(target) and not inspect.isclass(target)
    return inspect.getdoc(type(target).__call__) if doc is None and is_object else doc


def _is_partial(function: Any) -> bool:
    """Return True for a partial application, without telling a type checker."""
    return isinstance(function, partial)


def _bound(function: partial[Any], hints: bool) -> inspect.Signature:
    """Return the signature of a partial application: without what it has bound by position, and with its keywords as
    defaults."""
    inner = signature_of(function.func, hints=hints)

    def stand_in() -> None: ...

    stand_in.__dict__["__signature__"] = inner
    return inspect.signature(partial(stand_in, *function.args, **function.keywords))


def _without_first(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature of a bound method; one with `*args` has the object among these."""
    parameters = [*signature.parameters.values()]
    if parameters and parameters[0].kind not in _VARIADIC:
        del parameters[0]
    return signature.replace(parameters=parameters)


def _merged(own: inspect.Signature, inner: inspect.Signature) -> inspect.Signature:
    """Return the signature of a wrapper that passes any keyword on: the parameters that it wraps, and its own."""
    added = [
        item.replace(kind=item.KEYWORD_ONLY)
        for name, item in own.parameters.items()
        if item.kind not in _VARIADIC and name not in inner.parameters
    ]
    inherited = [*inner.parameters.values()]
    last = [inherited.pop()] if inherited and inherited[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    return inner.replace(parameters=[*inherited, *added, *last])


def _evaluated(signature: inspect.Signature, function: Any, hints: bool) -> inspect.Signature:
    """Return a signature whose type hints are types, and not their text."""
    if not hints:
        return signature
    annotated = (
        function
        if inspect.isroutine(function)
        else getattr(function, "__init__" if inspect.isclass(function) else "__call__")
    )
    evaluated = get_type_hints(annotated, include_extras=True)
    own: dict[str, Any] = getattr(annotated, "__annotations__", {})

    def hint(name: str, annotation: Any) -> Any:
        # A signature that is made by hand may have other annotations than the function.
        is_own = isinstance(annotation, str) or own.get(name, inspect.Signature.empty) is annotation
        return evaluated.get(name, annotation) if is_own else annotation

    parameters = [item.replace(annotation=hint(name, item.annotation)) for name, item in signature.parameters.items()]
    returns = hint("return", signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returns)
