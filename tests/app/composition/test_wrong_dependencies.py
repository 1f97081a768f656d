"""Dependencies that cannot work are refused where they are declared."""

from typing import Annotated, Any

import pytest

from mcp_generated import App, Depends, LocalError, Resolve
from mcp_generated.dependencies import CallArgument


def plain() -> str:
    return "value"


def unknown(nothing: str) -> str:
    return nothing


def positional(x: int = 1, /) -> int:
    return x


def in_union(app: App) -> None:
    @app.tool()
    def f(x: Annotated[int, Depends(plain)] | None = None) -> str:
        return ""


def two(app: App) -> None:
    @app.tool()
    def f(x: Annotated[int, Depends(plain), Resolve(plain)]) -> str:
        return ""


def no_function(app: App) -> None:
    @app.tool()
    def f(x: Annotated[int, Depends]) -> str:
        return ""


def result(app: App) -> None:
    Depends(plain())


def no_value(app: App) -> None:
    @app.tool()
    def f(x: str = Depends(unknown)) -> str:
        return ""


def no_parameter(app: App) -> None:
    @app.prompt()
    def f(x: str = Depends(plain, size=1)) -> str:
        return ""


def no_argument(app: App) -> None:
    @app.resource("x://{a}")
    def f(a: str, x: str = Depends(unknown, nothing=CallArgument("b"))) -> str:
        return ""


def by_position(app: App) -> None:
    @app.tool()
    def f(x: int = Depends(positional)) -> str:
        return ""


def itself(app: App) -> None:
    def one(x: int = 0) -> int:
        return x

    def two(x: int = Depends(one)) -> int:
        return x

    one.__defaults__ = (Depends(two),)

    @app.tool()
    def f(x: int = Depends(one)) -> str:
        return ""


WRONG: dict[str, tuple[Any, str]] = {
    "in a union": (in_union, r"the tool 'f': .*'x' is inside of another type: write Annotated\[int \| None, Dep"),
    "two markers": (two, r"the tool 'f': the parameter 'x' has two dependencies"),
    "no function": (no_function, r"the tool 'f': the parameter 'x' names no function: write Depends\(function\)"),
    "a result": (result, r"Depends\('value'\): the argument is not callable"),
    "no value": (no_value, r"the tool 'f': the parameter 'nothing' of the dependency 'unknown' has no value: give"),
    "no parameter": (no_parameter, r"the prompt 'f': the dependency 'plain' has no parameter 'size'; it has none"),
    "no argument": (no_argument, r"the resource 'x://\{a\}': the parameter 'b' of the dependency 'unknown'"),
    "by position": (by_position, r"the parameter 'x' of the dependency 'positional' must accept a keyword"),
    "itself": (itself, r"the tool 'f': the dependency 'one' depends on itself"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_work_is_refused_at_its_declaration(kind: str) -> None:
    declare, message = WRONG[kind]
    with pytest.raises(LocalError, match=message) as caught:
        declare(App("app"))
    assert len(str(caught.value).splitlines()) <= 2
