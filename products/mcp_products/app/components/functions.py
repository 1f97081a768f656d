"""Checks of the functions that users register: what cannot be called later is refused when it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast, get_type_hints

from mcp_runtime.errors import LocalError
from mcp_runtime.usage.rules import shown

# The signature with which a function of a user can be called, and its type hints.

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# What the evaluation of a type hint may raise.
HINT_ERRORS: Final = (NameError, TypeError, AttributeError, SyntaxError)
_LIFESPAN: Final = "put @asynccontextmanager above an async def with one yield"
_NO_TYPES: Final = (bool, int, float, bytes, list, tuple, dict, set)  # What stands by mistake in place of a type hint.
_LAMBDA: Final = "<lambda>"
_CONTEXT_NAMES: Final = ("ctx", "context")
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


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
    if not accepts_all or not callable(wrapped):
        return own
    merged = _merged(own, signature_of(wrapped, hints=hints))
    if not hasattr(target, "dispatch") or not hasattr(target, "registry"):
        return merged
    # `functools.singledispatch` chooses by the first argument, which it takes by position only.
    first, *others = merged.parameters.values()
    return merged.replace(parameters=[first.replace(kind=first.POSITIONAL_ONLY), *others])


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


def check_function(function: object, kind: str, name: str | None = None, *, is_named: bool = False) -> None:
    """Raise LocalError if requests cannot be answered by calling this function.

    Args:
        function: What the user registers.
        kind: What it becomes: "tool", "resource" or "prompt".
        name: Its name, if the user sets one.
        is_named: Whether it needs no name, because it has a URI.
    """
    _check_callable(function, kind)
    assert callable(function), "what is not callable was refused"
    own_name = str(getattr(function, "__name__", ""))
    place = f"the {kind} {name or own_name!r}"
    if not is_named and not name and own_name in ("", _LAMBDA):
        what = "a lambda" if own_name else f"{shown(function)}"
        raise LocalError(f'{kind}(): {what} has no name: pass one, such as add_{kind}(function, "name")')
    code = code_of(function)
    if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
        raise LocalError(f"{place} is a generator, which yields: collect the items in a list and return it")
    parameters = [*checked_signature(function, place).parameters.values()]
    _check_method(function, parameters, kind, place)
    for parameter in parameters:
        _check_parameter(parameter, place)


def check_accepts(function: object, names: Sequence[str], least: int, kind: str) -> None:
    """Raise LocalError unless a function can be called with these arguments by position.

    Args:
        function: What the user registers.
        names: The names of the arguments, for the message.
        least: The number of arguments that the function must accept at least; it may leave out the others.
        kind: What it becomes: "completion" or "middleware".
    """
    _check_callable(function, kind)
    assert callable(function), "what is not callable was refused"
    code = code_of(function)
    place = f"the {kind} {getattr(function, '__name__', shown(function))!r}"
    if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
        raise LocalError(f"{place} is a generator, which yields: return the result")
    parameters = signature_of(function, hints=False).parameters.values()
    required = [parameter for parameter in parameters if is_required(parameter)]
    accepted = sum(
        len(names) if parameter.kind is parameter.VAR_POSITIONAL else parameter.kind <= parameter.POSITIONAL_OR_KEYWORD
        for parameter in parameters
    )
    by_name_only = any(parameter.kind is parameter.KEYWORD_ONLY for parameter in required)
    if accepted < least or len(required) > len(names) or by_name_only:
        raise LocalError(f"{place} has other parameters than its callers pass: write def name({', '.join(names)})")


def _check_callable(function: object, kind: str) -> None:
    if inspect.isclass(function):
        raise LocalError(f"{kind}() needs a function, not the class {function.__name__!r}: decorate a def, not a class")
    if inspect.iscoroutine(function):
        function.close()  # Otherwise Python warns that it was never awaited.
        name = function.__name__
        raise LocalError(f"{kind}() needs a function, not the coroutine of a call: pass {name}, not {name}()")
    if isinstance(function, classmethod):
        raise LocalError(f"{kind}() needs a function, not a classmethod: pass the method of the class, after its body")
    if not callable(function):
        raise LocalError(f"{kind}() needs a function, not {shown(function)}")


def code_of(function: Callable[..., Any]) -> Any:
    """Return the function that partial applications and callable objects wrap; a class is returned as it is."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def checked_signature(function: Callable[..., Any], place: str) -> inspect.Signature:
    """Return the signature of a function, with evaluated type hints. Raises LocalError if it has none, if a type hint
    cannot be evaluated, or if it is a value."""
    try:
        signature = signature_of(function)
    except ValueError:
        raise LocalError(
            f"{place} has no signature, as functions written in C: wrap it in a def with type hints"
        ) from None
    except HINT_ERRORS as error:
        remedy = "import or define it at the top of the module"
        raise LocalError(f"{place}: a type hint cannot be evaluated: {error}; {remedy}") from None
    hints = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    for name, hint in {**hints, "return": signature.return_annotation}.items():
        if type(hint) in _NO_TYPES:
            raise LocalError(f"{place}: {shown(hint)}, the type hint of {name!r}, is not a type")
    return signature


def _check_method(function: Any, parameters: Sequence[inspect.Parameter], kind: str, place: str) -> None:
    """Raise LocalError for a method of a class whose first parameter nobody passes."""
    first = parameters[0] if parameters else None
    is_unbound = inspect.isfunction(function) and first is not None and first.name in ("self", "cls")
    if first is None or not is_unbound or first.annotation is not first.empty:
        return
    class_name = str(getattr(function, "__qualname__", "")).rpartition(".")[0].rpartition(".")[2] or "Tools"
    if kind == "tool":
        raise LocalError(
            f"{place} is a method without its object: mark it with the decorator `tool` of mcp_generated, "
            f"and call app.add_tools({class_name}())"
        )
    raise LocalError(
        f"{place} is a method without its object: call app.add_{kind}(…) with a method of an object of {class_name}"
    )


def _check_parameter(parameter: inspect.Parameter, place: str) -> None:
    name, annotation = parameter.name, parameter.annotation
    if parameter.kind not in _BY_NAME:
        remedy = "list its parameters"
        if parameter.kind is parameter.POSITIONAL_ONLY:
            remedy = "remove the / before it, or write a def that passes it"
        raise LocalError(f"{place}: the parameter {parameter} must accept a keyword argument: {remedy}")
    if name in _CONTEXT_NAMES and annotation is parameter.empty and parameter.default is parameter.empty:
        raise LocalError(f"{place}: the parameter {name!r} has no type: write {name}: Context, or its JSON type")
    module = str(getattr(annotation, "__module__", ""))
    if getattr(annotation, "__name__", "") == "Context" and module.partition(".")[0] in ("mcp", "fastmcp"):
        raise LocalError(f"{place}: {name!r} is the Context of {module}: write from mcp_generated import Context")


def is_required(parameter: inspect.Parameter) -> bool:
    """Return True if calls must have an argument for a parameter."""
    return parameter.default is parameter.empty and parameter.kind not in _VARIADIC


def check_lifespan(lifespan: object, function: str) -> None:
    """Raise LocalError unless this is a function that returns an async context manager."""
    if lifespan is None:
        return
    name = getattr(lifespan, "__name__", shown(lifespan))
    if not callable(lifespan) or (hasattr(lifespan, "__aenter__") and not inspect.isclass(lifespan)):
        raise LocalError(f"{function}(): lifespan must be a function, not {shown(lifespan)}: {_LIFESPAN}")
    inner = inspect.unwrap(lifespan)
    if inner is lifespan and (
        inspect.isasyncgenfunction(lifespan)
        or inspect.isgeneratorfunction(lifespan)
        or inspect.iscoroutinefunction(lifespan)
    ):
        raise LocalError(f"{function}(): the lifespan {name!r} is not an async context manager: {_LIFESPAN}")
    if inner is not lifespan and inspect.isgeneratorfunction(inner):
        raise LocalError(f"{function}(): the lifespan {name!r} is a context manager that is not async: {_LIFESPAN}")
    check_accepts_one(lifespan, f"{function}(): the lifespan {name!r}", "app")


def opened_lifespan(lifespan: Callable[[Any], Any], app: object) -> Any:
    """Return the context manager of a lifespan. Raises LocalError if it returns something else."""
    opened = lifespan(app)
    if not hasattr(opened, "__aenter__"):
        name = getattr(lifespan, "__name__", shown(lifespan))
        raise LocalError(f"the lifespan {name!r} returned {shown(opened)}, no async context manager: {_LIFESPAN}")
    return opened


def check_accepts_one(function: Callable[..., Any], place: str, name: str) -> None:
    """Raise LocalError unless a function can be called with one argument by position."""
    try:
        signature_of(function, hints=False).bind(None)
    except TypeError:
        own_name = getattr(function, "__name__", "function")
        raise LocalError(f"{place} must accept one argument: write def {own_name}({name})") from None
    except ValueError:
        return  # Functions written in C may have no signature.
