r"""The text form of a recorded connection: one step in each line; and the comparison of messages with it.

| line       | meaning                                                              |
|------------|----------------------------------------------------------------------|
| `# text`   | a comment                                                            |
| `> json`   | the client sends this line; `\xff` in it is the byte 255             |
| `< json`   | the server sends this line                                           |
| `<~ json`  | the same; consecutive lines of this kind may come in any order       |
| `close`    | the client closes the server's input                                 |
| `exit 0`   | the server exits with this code                                      |

In the JSON of an expected line, `"..."` matches any value, and `...` in a text any text. `"key?"` is a property that
may be absent; `"(absent)"` one that must be absent, `"(absent or null)"` one that must be absent or null. A list
that begins with `"(any order)"` has no order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..json_types import Json, is_list, is_object

ANYTHING: Final = "..."
ANY_ORDER: Final = "(any order)"

_STEP: Final = re.compile(r"(>[+-]?|<[~|]?|!|open|close|exit|signal)(?: (.*))?")


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One line of a file; `verb` is the part before the first space."""

    line: int
    verb: str
    text: str


def read_steps(lines: Iterable[tuple[int, str]], name: str) -> Iterator[TranscriptStep]:
    """Yield the steps of numbered lines. Raises ValueError with the name of the file for an invalid line."""
    for number, line in lines:
        if line and not line.startswith("#"):
            match = _STEP.fullmatch(line)
            if match is None:
                raise ValueError(f"{name}:{number}: not a line of a golden conversation: {line}")
            yield TranscriptStep(number, match[1], match[2] or "")


def text_of(line: bytes) -> str:
    r"""Return a line as a file has it: bytes that are not UTF-8, and CR, as `\xff`."""
    text = line.decode(errors="surrogateescape").replace("\r", r"\x0d")
    return re.sub("[\udc80-\udcff]", lambda match: rf"\x{ord(match[0]) - 0xDC00:02x}", text)


def bytes_of(text: str) -> bytes:
    r"""Return the bytes of a line: `\xff`, which JSON does not have, is the byte 255."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), text.encode())


def difference(expected: Json, received: Json, path: str = "the message") -> str | None:
    """Return a description of the first difference, types included; None if the message matches."""
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
        items = [
            (want, have, f"{path}[{index}]") for index, (want, have) in enumerate(zip(expected, received, strict=True))
        ]
        return next((text for item in items if (text := difference(*item))), None)
    if is_object(expected):
        return _difference_of_objects(expected, received, path)
    return None if expected == received else f"{path} is {json.dumps(received)}"


def _difference_of_sets(expected: list[Any], received: list[Any], path: str) -> str | None:
    """Compare lists without order. Each expected item must match a different received one."""
    remaining = list(received)
    for item in expected:
        match = next((candidate for candidate in remaining if difference(item, candidate) is None), None)
        if match is None:
            return f"{path} has no {json.dumps(item)}"
        remaining.remove(match)
    return f"{path} has more: {json.dumps(remaining)}" if remaining else None


def _difference_of_objects(expected: dict[str, Any], received: dict[str, Any], path: str) -> str | None:
    names = {key.removesuffix("?") for key in expected}
    if unknown := sorted(received.keys() - names):
        return f"{path} has more: {', '.join(unknown)}"
    for key, value in expected.items():
        name = key.removesuffix("?")
        if (value == "(absent or null)" and received.get(name) is None) or (name not in received and key != name):
            continue
        if value == "(absent)":
            if name in received:
                return f"{path} has {name}"
        elif name not in received:
            return f"{path} has no {name}"
        elif text := difference(value, received[name], f"{path}.{name}"):
            return text
    return None
