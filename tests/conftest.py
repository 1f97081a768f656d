"""What all tests share: a parametrisation by revision, and an event loop for each coroutine function."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import tempfile
import threading
from collections.abc import Awaitable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import peers
from support.installation.certificates import share_certificates
from support.installation.extras import SkippedModule, missing_extra
from support.matrices import DEFAULT, EXHAUSTIVE, LONG, RUNS, arguments_of, edges, first_runs, is_for_later
from support.processes import end_shared
from support.systems import PATIENCE, reason_to_skip

from mcp_generated import REVISIONS

# Hundreds of child processes import the project: each would compile it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

share_certificates()

# How long an example takes says more of the machine than of what is tested.
try:
    import hypothesis
except ModuleNotFoundError:  # The base installation, where the tests that need it are skipped.
    pass
else:
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")

# What a module with a test for several revisions contains.
MATRICES = ("revision", "REVISIONS", "among(", "HANDSHAKE", "protocol_version")
# What a module with a long test contains: the mark, or a name of another module by which its tests get the mark.
MARKS_OF_LONG_TESTS = ("long", "FEW_HOMES", "CELLS", "client_of", *MATRICES)
DEADLINE = 20.0  # Seconds that a coroutine function gets as a test, where no marker gives it more.
MOST_DEADLINES = 6  # How many deadlines a test may take to end, after it was cancelled;
MOST_SECONDS = 1800.0  # and how long at most: a test that moves the clock by weeks has a deadline of weeks.


def pytest_configure() -> None:
    """Let programs that tests start be interrupted: a shell lets what it runs in the background ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start two workers a processor with `-n auto`: many tests wait for a process or for time to pass.

    The variable of pytest-xdist has another number.
    """
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS") or 2 * (os.cpu_count() or 1))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module without a test of the default or of the long run: to collect them takes a part of the time."""
    run = RUNS.get(config.option.markexpr)
    if run is None or not collection_path.match("test_*.py"):
        return None
    has_none = is_for_later(collection_path) if run == DEFAULT else not has_long_tests(collection_path)
    return has_none or None


@cache
def has_long_tests(path: Path) -> bool:
    """Return whether a module contains what gives a test the mark."""
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in MARKS_OF_LONG_TESTS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collection, and leave them out of those that come later: there are thousands."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let what tests and their child processes leave in the temporary folder be in one that is deleted at the end."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # Those of `tmp_path` stay.
    folder = tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True)
    os.chmod(folder.name, 0o755)  # Some servers run as another user.
    os.environ["TMPDIR"] = tempfile.tempdir = folder.name
    session.config.add_cleanup(folder.cleanup)


def pytest_sessionfinish() -> None:
    """Leave no process behind."""
    end_shared()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `revision` runs once for each."""
    if "revision" in metafunc.fixturenames:
        metafunc.parametrize("revision", list(REVISIONS))


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """A module that needs an optional package or another system is skipped where that is not there."""
    module: pytest.Module = SkippedModule.from_parent(parent, path=module_path)
    return module


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this system cannot do, and begin with the site: of tests that take long, none is left for the end.

    The first worker gets its tests in one go. Others would wait until it has built the site.
    """
    items.sort(key=lambda item: "website" not in item.path.parts)
    for item in items:
        if (reason := reason_to_skip(item.nodeid)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Iterator[Any]:
    """Choose the cases of each test for the default and the long run; the others are those of the exhaustive run.

    Of a test for several revisions, the first and the last are those of the default run, or, if the whole test is long,
    those of the long run.
    """
    made = yield
    if not isinstance(made, list) or not made or made[0].get_closest_marker("campaign") is not None:
        return made
    between = _between(made)
    marked = [_run_of(test) for test in made]
    next_run = LONG if DEFAULT in marked else EXHAUSTIVE
    marked = [max(run, next_run) if test in between else run for test, run in zip(made, marked, strict=True)]
    if (mark := made[0].get_closest_marker("edges")) is not None:
        kept = edges([test.name.partition("[")[2] for test in made], mark.args)
        marked = [run if keep else EXHAUSTIVE for run, keep in zip(marked, kept, strict=True)]
    runs = first_runs(arguments_of(made), marked) if len(made) > 1 else marked
    for test, run in zip(made, runs, strict=True):
        if run != DEFAULT:
            test.add_marker(pytest.mark.exhaustive if run == EXHAUSTIVE else pytest.mark.long)
    option = collector.config.option
    if any("::" in name for name in collector.config.args) or option.markexpr not in RUNS:
        return made
    dropped = [test for test, run in zip(made, runs, strict=True) if run > RUNS[option.markexpr]]
    collector.config.hook.pytest_deselected(items=dropped)
    return [test for test, run in zip(made, runs, strict=True) if run <= RUNS[option.markexpr]]


def _run_of(test: pytest.Function) -> int:
    """Return the first run that the marks of a test allow."""
    if test.get_closest_marker("exhaustive") is not None:
        return EXHAUSTIVE
    return DEFAULT if test.get_closest_marker("long") is None else LONG


def _between(tests: list[pytest.Function]) -> set[pytest.Function]:
    """Return the cases with a revision that is neither the first nor the last that the test has, if it has others."""
    by_argument: dict[str, set[str]] = {}
    for test in tests:
        for name, revision in _revisions_of(test).items():
            by_argument.setdefault(name, set()).add(revision)
    kept = {name: {min(revisions), max(revisions)} for name, revisions in by_argument.items()}
    between = {test for test in tests if any(id not in kept[name] for name, id in _revisions_of(test).items())}
    return between if len(between) < len(tests) else set()


def _revisions_of(test: pytest.Function) -> dict[str, str]:
    """Return the parameters of a test that are revisions: an id, or an object with one."""
    params = test.callspec.params if hasattr(test, "callspec") else {}
    ids = {name: getattr(param, "id", param) for name, param in params.items()}
    return {name: id for name, id in ids.items() if isinstance(id, str) and id in REVISIONS}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that needs an optional package is skipped where that is not installed."""
    try:
        return (yield)
    except Exception as error:
        if (reason := missing_extra(error)) is None:
            raise
        pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function in an event loop of its own, under a deadline."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    own = pyfuncitem.get_closest_marker("deadline")
    deadline = DEADLINE if own is None else own.args[0]
    most = min(MOST_DEADLINES * deadline, MOST_SECONDS) * PATIENCE + peers.LIMIT
    asyncio.run(_ended(_in_time(test(**arguments), deadline * PATIENCE), most))
    return True


async def _in_time(test: Awaitable[None], seconds: float) -> None:
    """Run a test for so many seconds, and for as long as it installs what it needs."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds) as limit:

        def put_off(seconds: float) -> None:
            if (until := limit.when()) is not None:
                limit.reschedule(until + seconds)

        peers.limit.set(lambda seconds: loop.call_soon_threadsafe(put_off, seconds))  # A thread may install.
        await test


async def _ended(test: Awaitable[None], seconds: float) -> None:
    """Run a test that may have set the clock of the loop, and may wait for ever for what it ends: after so many seconds
    of another clock, show what its tasks wait for, and cancel it again."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(test)

    def give_up() -> None:
        for one in asyncio.all_tasks(loop):
            one.print_stack()
        task.cancel("the test has not ended after its deadline")

    timer = threading.Timer(seconds, loop.call_soon_threadsafe, (give_up,))
    timer.daemon = True
    timer.start()
    try:
        await task
    finally:
        timer.cancel()
