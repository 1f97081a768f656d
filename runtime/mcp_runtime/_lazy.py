"""Load the modules of a package when their names are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

from .products import is_whole_name, missing, place_of


def lazy_module(
    package: str, *, names: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package (PEP 562).

    Args:
        package: The name of the package.
        names: For each name the submodule that defines it, relative to the package; with a dot before it, relative to
            the package above. A module of another package has its full name.
        modules: Submodules that are attributes of the package themselves.
    """

    def get(name: str) -> object:
        if name in modules:
            return load(f"{package}.{name}")
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        target = names[name]
        if not is_whole_name(target):
            target = package.rpartition(".")[0] + target if target.startswith(".") else f"{package}.{target}"
        value = getattr(load(target), name)
        setattr(import_module(package), name, value)
        return value

    def directory() -> list[str]:
        return sorted({*modules, *names})

    return get, directory


def lazy_members(
    package: str, members: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package with the public names of its submodules.

    `members` has the names by submodule. They are what `from package import *` imports.
    """
    names = {name: module for module, own in members.items() for name in own}
    get, directory = lazy_module(package, names=names)

    def get_or_list(name: str) -> object:
        return directory() if name == "__all__" else get(name)

    return get_or_list, directory


class LazyModule(ModuleType):
    """A module that is imported when one of its attributes is first used, as in an annotation that is evaluated."""

    def __getattr__(self, name: str) -> object:
        return getattr(load(self.__name__), name)


def load(module: str) -> ModuleType:
    """Import a module. Raises LocalError for a module of a distribution that is not installed."""
    try:
        return import_module(place_of(module))
    except ModuleNotFoundError as error:
        raise missing(error, module) from None
