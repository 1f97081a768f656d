"""The types of the functions in `result_functions`: models, dataclasses, typed dicts, tuples and classes."""

from __future__ import annotations

import datetime
import decimal
import enum
import typing
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, NewType, NotRequired, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field
from pydantic import dataclasses as pydantic_dataclasses
from typing_extensions import TypedDict

T = TypeVar("T")
UserId = NewType("UserId", int)


class Point(BaseModel):
    """A point."""

    x: int
    y: int = 0


class Deep(Point):
    z: int = 9


class Line(BaseModel):
    ends: list[Point]
    label: str | None = None


class Tree(BaseModel):
    name: str
    inner: list[Tree] = []


class Aliased(BaseModel):
    user_id: int = Field(alias="userId")


class Serialized(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    when: datetime.date = Field(serialization_alias="When")


class Computed(BaseModel):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Box(BaseModel, Generic[T]):
    content: T


class Numbers(RootModel[list[int]]):
    pass


class Money(BaseModel):
    amount: decimal.Decimal


class Odd(BaseModel):
    value: float


@dataclass
class Size:
    width: float
    height: float = 1.0


@dataclass
class Bag:
    items: list[str] = field(default_factory=list)
    size: Size | None = None


@pydantic_dataclasses.dataclass
class Checked:
    count: int


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class OldRow(typing.TypedDict, total=False):
    id: int
    inner: Row


class TwoFields(NamedTuple):
    first: int
    second: str = "r"


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(str, enum.Enum):  # noqa: UP042 — not StrEnum: its `str()` is another.
    YES = "yes"


class Hinted:
    name: str
    count: int = 2

    def __init__(self, name: str) -> None:
        self.name = name


class Holder:
    first: Hinted

    def __init__(self) -> None:
        self.first = Hinted("in")


class Unhinted:
    def __init__(self) -> None:
        self.name = "n"

    def __str__(self) -> str:
        return "an unhinted"


class Text(str):
    pass
