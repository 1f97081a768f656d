"""`python -m mcp_runtime.launch server.py`: find the server of a file or module, and run it.

`mcp-generated run` becomes this process. The module is not `__main__`, so that its own call of `run` is not executed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, NoReturn, cast

from mcp_products.app.app import BaseApp
from mcp_runtime.bindings.server import BaseServer
from mcp_runtime.errors import LocalError, MCPError
from mcp_runtime.usage.texts import plain

from .dev_page import settings_with_page

_COMMON_NAMES: Final = ("app", "mcp", "server")  # Where a module has several servers, one of these names decides.
_ANONYMOUS: Final = "__mcp_server__"  # The name of a module whose file has the name of a module that is loaded already.


class _RunCalledError(BaseException):
    """The module calls `run` itself while it is loaded. `except Exception` of the module does not catch it."""

    def __init__(self, server: Any) -> None:
        super().__init__("run")
        self.server = server


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server that the arguments name, and return 0.

    Returns 1 if the module or the server fails, and 2 if there is no server to run.
    """
    options = _parser().parse_args(arguments)
    try:
        server = load_server(options.target, module=options.module, arguments=options.arguments, stdio=not options.http)
    except LocalError as error:
        return _report(error, 2)
    except Exception as error:
        traceback.print_exception(error.with_traceback(_of_user(error.__traceback__)))
        return 1
    named = {name: getattr(options, name) for name in ("host", "port", "path")}
    settings = {name: value for name, value in named.items() if value is not None}
    try:
        if options.page:
            settings |= settings_with_page(server, options.path or "/mcp")
        server.run("http", **settings) if options.http else server.run("stdio")
    except KeyboardInterrupt:
        return 130  # The exit code of shells for SIGINT.
    except (MCPError, ImportError) as error:
        return _report(error, 1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mcp_runtime.launch", description=__doc__)
    parser.add_argument("--module", action="store_true", help="the target is a module, not a file")
    parser.add_argument("--http", action="store_true", help="serve over HTTP; by default over stdio")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--path")
    parser.add_argument("--page", action="store_true", help="serve the page of `dev` beside the endpoint")
    parser.add_argument("target", help="a file or module, with `:name` where it has several servers")
    parser.add_argument("arguments", nargs="*", help="the arguments of the program, its sys.argv")
    return parser


def _report(error: Exception, code: int) -> int:
    print(f"error: {plain(' '.join(str(error).split()))}", file=sys.stderr)
    return code


def load_server(target: str, *, module: bool = False, arguments: Sequence[str] = (), stdio: bool = True) -> Any:
    """Return the server of `file.py`, `file.py:name`, `package.module` or `package.module:name`.

    A function is called, and returns the server. Over stdio, what the module prints goes to standard error. Raises
    LocalError if there is no such file, or not exactly one server, and what the module raises.
    """
    place, name = _split(target)
    sys.argv = [place, *arguments]
    with ExitStack() as stack:
        if stdio:
            stack.enter_context(redirect_stdout(sys.stderr))  # Standard output is for messages of the protocol.
        stack.enter_context(_interrupting_run())
        try:
            loaded = _import(place) if module else _load_file(Path(place))
            server = _named(loaded, name, target) if name else _only_server(loaded, target)
        except _RunCalledError as call:
            return call.server
    return server


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    return (place, name) if colon and len(place) > 1 and name.isidentifier() else (target, "")


@contextmanager
def _interrupting_run() -> Generator[None]:
    """End the loading of a module with `_RunCalledError` when it runs its server itself."""

    def run(self: BaseServer, *arguments: object, **settings: object) -> NoReturn:
        raise _RunCalledError(self)

    original = BaseServer.run
    BaseServer.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        BaseServer.run = original  # type: ignore[method-assign]


def _import(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise LocalError(f"there is no module {name!r} here; pass a file: {name.replace('.', '/')}.py") from None


def _load_file(path: Path) -> ModuleType:
    """Load a file as a module of its own name, or of its package, as imports in it and pickled classes expect."""
    if not path.is_file():
        raise LocalError(f"{path}: this file does not exist; pass the Python file of a server, or -m MODULE")
    if path.suffix != ".py":
        raise LocalError(f"{path}: is not a Python file (.py)")
    path = path.resolve()
    names, root = [path.stem], path.parent
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        names, root = [root.name, *names], root.parent
    sys.path.insert(0, str(root))
    if len(names) > 1:
        return import_module(".".join(names))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else _ANONYMOUS
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LocalError(f"{path}: cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Type hints are looked up there.
    spec.loader.exec_module(module)
    return module


def _named(module: ModuleType, name: str, target: str) -> Any:
    """Return the server of this name, or the result of the function of this name."""
    try:
        value = getattr(module, name)
    except AttributeError:
        names = ", ".join(_servers(module)) or "none"
        raise LocalError(f"{target}: the module has no {name!r}; its servers are: {names}") from None
    if not isinstance(value, BaseApp | BaseServer) and inspect.isroutine(value):
        value = value()
        value = asyncio.run(value) if inspect.iscoroutine(value) else value
    if not isinstance(value, BaseApp | BaseServer):
        raise LocalError(f"{target}: {name!r} is not a server but {value!r}; name an App or a Server object")
    return cast(Any, value)


def _only_server(module: ModuleType, target: str) -> Any:
    """Return the only server of a module, or the one that has a common name."""
    servers = _servers(module)
    distinct = {id(server): server for server in servers.values()}
    if len(distinct) > 1:
        common = {id(servers[name]): servers[name] for name in _COMMON_NAMES if name in servers}
        distinct = common if len(common) == 1 else distinct
    if len(distinct) == 1:
        return distinct.popitem()[1]
    if distinct:
        first = next(iter(servers))
        raise LocalError(f"{target}: has {len(distinct)} servers ({', '.join(servers)}); name one: {target}:{first}")
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, BaseServer)]
    own = [kind.__name__ for kind in classes if kind.__module__ == module.__name__]
    if own:
        line = f'app = {own[0]}(name="{own[0].lower()}", version="1.0")'
        raise LocalError(f"{target}: has the class {own[0]}, but no object of it; add the line: {line}")
    raise LocalError(
        f"{target}: has no App or Server object at its top level; add one: app = App(...), "
        "or name the function that returns it: file.py:function"
    )


def _servers(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, BaseApp | BaseServer)}


def _of_user(frames: TracebackType | None) -> TracebackType | None:
    """Return the frames of a traceback after those of this module and of the import system."""
    current = frames
    while current is not None:
        file = current.tb_frame.f_code.co_filename
        if file != __file__ and "importlib" not in file:
            return current
        current = current.tb_next
    return None  # An error in the syntax of the file has no frame of its own.


if __name__ == "__main__":
    sys.exit(main())
