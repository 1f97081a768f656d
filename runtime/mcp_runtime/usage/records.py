"""Base classes of small records that each start needs: no code is generated for them, as it is for dataclasses."""

from __future__ import annotations

from typing import Any


class Record:
    """A record that is compared and shown by its values, which `__slots__` names."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


class FrozenRecord(Record):
    """A record whose values do not change; its constructor sets them with `_set`."""

    __slots__: tuple[str, ...] = ()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: create another {type(self).__name__}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), {name: getattr(self, name) for name in self.__slots__})


def _restored(cls: type[FrozenRecord], values: dict[str, Any]) -> FrozenRecord:
    """Return a copy of a record, also one from another process."""
    record = cls.__new__(cls)
    record._set(**values)  # pyright: ignore[reportPrivateUsage]
    return record
