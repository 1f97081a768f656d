"""Records: they are dataclasses in everything but the time at which their methods are compiled."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from threading import Barrier, Thread
from typing import Any

import pytest
from pydantic import TypeAdapter

from mcp_generated import CacheHint, RateLimit, RequestOptions, UserMessage
from mcp_runtime._records import compiled_method, record

OPTIONS: list[dict[str, Any]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"kw_only": True},
    {"eq": False},
    {"repr": False},
]


def classes(**options: Any) -> tuple[type[Any], type[Any]]:
    """The same class as a dataclass and as a record."""

    def body() -> type[Any]:
        class Point:
            """A point."""

            x: int
            names: list[str] = field(default_factory=list[str])
            label: str = field(default="p", compare=False)
            hidden: int = field(default=0, repr=False, kw_only=True)

        return Point

    return dataclass(**options)(body()), record(**options)(body())


def outcome(function: Any) -> object:
    """What a function returns, or the type and text of its exception."""
    try:
        return function()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def behaviour(cls: type[Any], options: dict[str, Any]) -> list[object]:
    """What users see of a class."""
    results: list[object] = [
        str(inspect.signature(cls)),
        [(item.name, item.kw_only, item.compare) for item in fields(cls)],
        cls.__match_args__,
        is_dataclass(cls),
        outcome(lambda: cls()),
        outcome(lambda: cls(x=1, y=2)),
        outcome(lambda: cls(x=1) == cls(x=1, label="other")),
        outcome(lambda: cls(x=1) == cls(x=2)),
        outcome(lambda: cls(x=1) == 1),
        outcome(lambda: isinstance(hash(cls(x=1, names=())), int)),
        outcome(lambda: replace(cls(x=1), x=5).x),
        outcome(lambda: setattr(cls(x=1), "x", 2)),
        outcome(lambda: delattr(cls(x=1), "x")),
        outcome(lambda: copy.deepcopy(cls(x=1)).names),
        cls(x=1).names is cls(x=1).names,
    ]
    if options.get("repr", True):
        results.append(outcome(lambda: repr(cls(1, [], "a", hidden=2))))
    if not options.get("slots"):  # Frozen classes with slots raise a TypeError without a reason before Python 3.12.
        results.append(outcome(lambda: setattr(cls(x=1), "extra", 2)))
    return results


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_record_does_what_a_dataclass_does(options: dict[str, Any]) -> None:
    expected, actual = (behaviour(cls, options) for cls in classes(**options))
    assert actual == expected


def test_methods_of_the_class_stay_and_are_called() -> None:
    @record()
    class Counted:
        """A class with methods of its own."""

        number: int

        def __post_init__(self) -> None:
            self.number += 1

        def __repr__(self) -> str:
            return "own"

    assert Counted(1).number == 2 and repr(Counted(1)) == "own"


def test_a_subclass_calls_the_constructor_of_its_base() -> None:
    @record()
    class Base:
        """A base."""

        number: int

    class Derived(Base):
        def __init__(self) -> None:
            super().__init__(7)

    assert Derived().number == 7 and repr(Derived()).endswith("Derived(number=7)")
    assert not inspect.signature(Derived).parameters
    assert compiled_method(Derived.__init__) is Derived.__init__


def test_threads_may_make_the_first_instances_together() -> None:
    for _ in range(20):
        _, cls = classes(frozen=True, slots=True)
        barrier, instances = Barrier(4), list[Any]()

        def make(cls: Any = cls, barrier: Barrier = barrier, instances: list[Any] = instances) -> None:
            barrier.wait()
            instances.append(cls(x=1))

        threads = [Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert instances == [cls(x=1)] * 4


def test_public_records_are_dataclasses_for_users() -> None:
    options = RequestOptions(timeout=3)
    assert replace(options, timeout=4) == RequestOptions(timeout=4)
    assert pickle.loads(pickle.dumps(options)) == options and copy.copy(options) == options
    assert list(inspect.signature(RateLimit).parameters) == ["per_second", "burst"]
    with pytest.raises(FrozenInstanceError):
        options.timeout = 5  # type: ignore[misc]
    with pytest.raises(TypeError, match="'per_second'"):
        RateLimit()  # type: ignore[call-arg]
    assert TypeAdapter(UserMessage).validate_python({"content": "x"}) == UserMessage("x")
    assert {CacheHint(1, "public"), CacheHint(1, "public")} == {CacheHint(1, "public")}


def test_modules_that_a_server_imports_compile_no_dataclasses() -> None:
    code = """
import dataclasses, sys
callers = set()
original = dataclasses.dataclass
def counted(cls=None, /, **options):
    if options.get("init", True) and options.get("repr", True):
        callers.add(sys._getframe(1).f_globals["__name__"])
    return original(cls, **options)
dataclasses.dataclass = counted
from mcp_generated import App
app = App("calculator")
@app.tool()
def add(a: int, b: int) -> int:
    return a + b
app.run("stdio")
print(*callers, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, input="")
    ours = {name for name in done.stderr.split() if name.startswith("mcp_")}
    assert ours == {"mcp_runtime._records"}, ours
