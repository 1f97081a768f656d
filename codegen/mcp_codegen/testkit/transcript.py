r"""The text form of a conversation: a line of a file goes in, a step comes out; and where a message differs from one.

| line       | meaning                                                              |
|------------|----------------------------------------------------------------------|
| `# text`   | the story                                                            |
| `> json`   | the client sends this line; `\xff` in it is the byte 255              |
| `< json`   | the server sends this line                                           |
| `<~ json`  | the same; such lines that follow each other may come in any order    |
| `close`    | the client closes the server's input                                 |
| `exit 0`   | the server ends with this code                                       |

In the JSON of a line that is expected, `"..."` fits anything, and `...` in a text any text; `"key?"` is a property that may
be absent; `"(absent)"` one that has to be, `"(absent or null)"` one that may be null instead; a list that begins with
`"(any order)"` has no order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..json_types import is_list, is_object

Json = Any

ANYTHING: Final = "..."
ANY_ORDER: Final = "(any order)"

_STEP: Final = re.compile(r"(>[+-]?|<[~|]?|!|open|close|exit|signal)(?: (.*))?")


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a file: `verb` is what stands before the first blank."""

    line: int
    verb: str
    text: str


def read_steps(lines: Iterable[tuple[int, str]], name: str) -> Iterator[Step]:
    """The steps of numbered lines. Raises ValueError, with the name of the file, for a line that is no step."""
    for number, line in lines:
        if line and not line.startswith("#"):
            found = _STEP.fullmatch(line)
            if found is None:
                raise ValueError(f"{name}:{number}: not a line of a golden conversation: {line}")
            yield Step(number, found[1], found[2] or "")


def text_of(line: bytes) -> str:
    r"""A line as a file holds it: what is no UTF-8, and a CR, as `\xff`."""
    text = line.decode(errors="surrogateescape").replace("\r", r"\x0d")
    return re.sub("[\udc80-\udcff]", lambda found: rf"\x{ord(found[0]) - 0xDC00:02x}", text)


def bytes_of(text: str) -> bytes:
    r"""The bytes to send: \xff, which JSON does not have, is the byte 255."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def difference(expected: Json, received: Json, path: str = "the message") -> str | None:
    """Where the two differ first, types included; None where they are the same."""
    if expected == ANYTHING:
        return None
    if type(expected) is not type(received):
        return f"{path} is {json.dumps(received)}"
    if isinstance(expected, str):
        pattern = ".*".join(map(re.escape, expected.split(ANYTHING)))
        return None if re.fullmatch(pattern, received, re.DOTALL) else f"{path} is {json.dumps(received)}"
    if is_list(expected):
        if expected[:1] == [ANY_ORDER] and is_list(received):
            return _difference_of_sets(expected[1:], received, path)
        if len(expected) != len(received):
            return f"{path} has {len(received)} items"
        pairs = [(each, got, f"{path}[{at}]") for at, (each, got) in enumerate(zip(expected, received, strict=True))]
        return next((fault for pair in pairs if (fault := difference(*pair))), None)
    if is_object(expected):
        return _difference_of_objects(expected, received, path)
    return None if expected == received else f"{path} is {json.dumps(received)}"


def _difference_of_sets(expected: list[Any], received: list[Any], path: str) -> str | None:
    """Lists whose order means nothing; no item of a file's list fits two of the received that differ."""
    left = list(received)
    for each in expected:
        fitting = next((got for got in left if difference(each, got) is None), None)
        if fitting is None:
            return f"{path} has no {json.dumps(each)}"
        left.remove(fitting)
    return f"{path} has more: {json.dumps(left)}" if left else None


def _difference_of_objects(expected: dict[str, Any], received: dict[str, Any], path: str) -> str | None:
    known = {key.removesuffix("?") for key in expected}
    if unknown := sorted(received.keys() - known):
        return f"{path} has more: {', '.join(unknown)}"
    for key, value in expected.items():
        name = key.removesuffix("?")
        if value == "(absent or null)" and received.get(name) is None or name not in received and key != name:
            continue
        if value == "(absent)":
            if name in received:
                return f"{path} has {name}"
        elif name not in received:
            return f"{path} has no {name}"
        elif fault := difference(value, received[name], f"{path}.{name}"):
            return fault
    return None
