"""The functions of files in a folder as tools, resources and prompts."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from mcp_runtime.aio.threads import worker_threads
from mcp_runtime.errors import LocalError

from ..components.kinds import LISTS
from .provider import Provider

# Decorators that mark functions of a file, for `FileSystemProvider`.

F = TypeVar("F", bound=Callable[..., Any])

TOOL_MARK: Final = "__mcp_tool__"
RESOURCE_MARK: Final = "__mcp_resource__"
PROMPT_MARK: Final = "__mcp_prompt__"
_log: Final = logging.getLogger("mcp_runtime.app.providers.file_system")
_Signature = Mapping[Path, tuple[int, int]]


def resource(uri: str, **settings: Any) -> Callable[[F], F]:
    """Mark a function as a resource; the arguments are those of `App.resource`, and are checked when the file is
    loaded."""
    if callable(uri):
        raise TypeError('resource() needs a URI before the function: write @resource("scheme://path")')

    def mark(function: F) -> F:
        setattr(function, RESOURCE_MARK, {"uri": uri, **settings})
        return function

    return mark


def prompt(function: Any = None, *, name: str | None = None, **settings: Any) -> Any:
    """Mark a function as a prompt: `@prompt`, `@prompt("name")` or with the keywords of `App.prompt`, which are checked
    when the file is loaded."""

    def mark(marked: F) -> F:
        own_name = function if isinstance(function, str) else name
        setattr(marked, PROMPT_MARK, {"name": own_name, **settings})
        return marked

    return mark(function) if callable(function) else mark


class FileSystemProvider(Provider):
    """The functions with the marks `tool`, `resource` and `prompt` in the Python files of a folder and its subfolders.

    Files whose names begin with `_` or `.` are left out. A file is imported as a module of its own, without a package.
    """

    def __init__(self, root: str | os.PathLike[str], *, reload: bool = False, poll_interval: float = 1.0) -> None:
        """Create the provider of a folder.

        Args:
            root: The folder.
            reload: Whether the files are loaded again when one has changed. Clients are notified; a file that cannot be
                loaded is logged, and changes nothing.
            poll_interval: The seconds between two looks at the folder, while the app is served.

        Raises LocalError if there is no such folder, and unless `poll_interval` is above 0.
        """
        self._folder = Path(root)
        if not self._folder.is_dir():
            raise LocalError(f"FileSystemProvider(): there is no folder {str(root)!r}: create it, or pass another one")
        if not poll_interval > 0:
            raise LocalError(f"FileSystemProvider(): poll_interval must be above 0 seconds; {poll_interval!r} is not")
        self._reload = reload
        self._poll_interval = poll_interval

    def attach(self, app: Any, prefix: str) -> None:
        """Load the files, and mount an app with their functions."""
        files = _scan(self._folder)
        inner = self._load(app, files)
        if self._reload:
            app.registry.declared = {*app.registry.declared, *LISTS}
            inner.registry.lifespan = self._watching(app, inner, files)
        app.mount(inner, prefix)

    def _load(self, app: Any, files: _Signature) -> Any:
        """Return a new app with the functions of all files. Raises LocalError that names the file."""
        inner = type(app)(self._folder.name)
        for path in files:
            try:
                _add_functions(inner, _import(path))
            except Exception as error:
                raise LocalError(f"FileSystemProvider(): {str(path)!r} cannot be loaded: {error!r}") from error
        return inner

    def _watching(self, app: Any, inner: Any, files: _Signature) -> Any:
        """Return a lifespan that loads the files again when they change."""

        async def watch() -> None:
            loaded_files = files
            while True:
                await asyncio.sleep(self._poll_interval)
                current: _Signature = await worker_threads().run(_scan, self._folder)
                if current == loaded_files:
                    continue
                loaded_files = current
                try:
                    loaded = await worker_threads().run(self._load, app, current)
                except LocalError as error:
                    _log.warning("the files are not loaded again: %s", error)
                    continue
                _replace(inner, loaded)

        @asynccontextmanager
        async def lifespan(app: Any) -> AsyncGenerator[None]:
            task = asyncio.create_task(watch())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])

        return lifespan


def _scan(folder: Path) -> _Signature:
    """Return the Python files in a folder, with the times of their last changes and their sizes."""
    files: dict[Path, tuple[int, int]] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(("_", ".")) for part in parts):
            try:
                state = path.stat()
            except FileNotFoundError:  # It was removed in the meantime.
                continue
            files[path] = (state.st_mtime_ns, state.st_size)
    return files


def _import(path: Path) -> ModuleType:
    """Import a file as a module of its own."""
    name = f"mcp_files_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a file that ends with .py has a loader"
    module = module_from_spec(spec)
    sys.modules[name] = module  # Type hints are looked up there.
    code = compile(path.read_bytes(), str(path), "exec")  # Not from a cache, whose times are in whole seconds.
    exec(code, vars(module))
    return module


def _add_functions(app: Any, module: ModuleType) -> None:
    for function in vars(module).values():
        if not inspect.isroutine(function) or getattr(function, "__module__", None) != module.__name__:
            continue
        if (settings := getattr(function, TOOL_MARK, None)) is not None:
            app.add_tool(function, **settings)
        if (settings := getattr(function, RESOURCE_MARK, None)) is not None:
            app.add_resource(settings["uri"], function, **{key: settings[key] for key in settings if key != "uri"})
        if (settings := getattr(function, PROMPT_MARK, None)) is not None:
            app.add_prompt(function, **settings)


def _replace(app: Any, loaded: Any) -> None:
    """Give an app the functions of another one, and notify clients of lists that have changed."""
    registry, new = app.registry, loaded.registry
    before = {kind: [item.definition for item in registry.all_versions(kind)] for kind in LISTS}
    registry.versions = new.versions
    for kind in LISTS:
        own = getattr(registry, kind)
        own.clear()
        own.update(getattr(new, kind))
        if before[kind] != [item.definition for item in registry.all_versions(kind)]:
            registry.changed(kind)
