"""What is read of a long JSON text before and after it is parsed: what stands outside its strings, and its length."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pydantic_core import to_json

from mcp_runtime.protocol.json_text import LONG, has_more_parts, is_longer, outside_long_strings
from mcp_runtime.protocol.jsonrpc import MalformedMessage, NotificationMessage, decode

LETTERS = ["x", "\\", '"', "e400", "[,", "ü", "\n"]


def plain_text(data: bytes) -> bytes:
    """Return what stands outside strings, byte by byte."""
    result, is_string, is_escaped = bytearray(), False, False
    for byte in data:
        if is_escaped:
            is_escaped = False
        elif is_string and byte == ord("\\"):
            is_escaped = True
        elif byte == ord('"'):
            is_string = not is_string
        elif not is_string:
            result.append(byte)
    return bytes(result)


def long_text(chance: random.Random) -> bytes:
    """Return JSON with a few strings, most of them long, whose characters are chosen to confuse."""
    values = [
        "".join(chance.choices(LETTERS, k=chance.choice([0, 1, 5, 3000]))) if chance.random() < 0.7 else 12.5
        for _ in range(8)
    ]
    return json.dumps({"k\\": values, "n": "-" * LONG}, ensure_ascii=chance.random() < 0.5).encode()


@pytest.mark.parametrize("seed", range(20))
def test_long_strings_are_left_out_of_a_text(seed: int) -> None:
    data = long_text(random.Random(seed))
    outside = outside_long_strings(data)
    assert outside in (plain_text(data), data)  # All of it where the strings have many escaped quotation marks.


def test_a_text_with_few_marks_has_its_strings_left_out() -> None:
    long = "x\\\\" * LONG
    for data in (f'["{long}", 1]', f'[1, "{long}"]', f'["{long}"', f'["{long}', f'["{long}\\"y", "", 2]'):
        outside = outside_long_strings(data.encode())
        assert outside == plain_text(data.encode()) and len(outside) < 10


@pytest.mark.parametrize("number", ["1e400", "1E+400", "9" * 310 + ".0", "-1e999", "10000e305"])
@pytest.mark.parametrize("place", ['"text":"{long}","a":[{number}]', '"a":{number},"text":"{long}"', '"a":[{number}]'])
def test_a_number_beyond_all_is_noticed_beside_a_long_text(number: str, place: str) -> None:
    long = 'e400 \\" 1e400 ' * (LONG // 8) if "text" in place else ""
    params = place.replace("{long}", long).replace("{number}", number)
    message = decode(f'{{"jsonrpc":"2.0","method":"x","params":{{{params}}}}}'.encode())
    assert isinstance(message, MalformedMessage) and "too large" in message.message


@pytest.mark.parametrize("text", ["1e400 ", "9" * 400, '\\"1e400\\"', "0e00"])
def test_digits_in_a_long_text_are_no_number(text: str) -> None:
    message = decode(f'{{"jsonrpc":"2.0","method":"x","params":{{"a":"{text * LONG}"}}}}'.encode())
    assert isinstance(message, NotificationMessage) and message.params["a"].startswith(json.loads(f'"{text}"'))


def test_commas_in_a_long_text_are_no_values() -> None:
    values = 20_000  # Three bytes of the number for each of its values.
    assert not has_more_parts(f'["{"[,{:" * LONG}",{"12," * values}1]'.encode(), values + 5)
    assert has_more_parts(f'["{"[,{:" * LONG}",{"12," * values}1]'.encode(), values - 5)


def random_json(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(9 if depth < 3 else 6):
        case 0:
            return "".join(chance.choices(LETTERS, k=chance.randrange(9)))
        case 1:
            return chance.choice([0, -1, 7, 10 ** chance.randrange(40), -(2 ** chance.randrange(90))])
        case 2:
            return chance.choice([0.5, 1e300, -2.25])
        case 3 | 4 | 5:
            return chance.choice([None, True, False])
        case 6:
            return {str(index): random_json(chance, depth + 1) for index in range(chance.randrange(6))}
        case _:
            return [random_json(chance, depth + 1) for _ in range(chance.randrange(6))]


@pytest.mark.parametrize("seed", range(30))
def test_json_is_longer_than_a_limit_if_its_text_is(seed: int) -> None:
    value = random_json(random.Random(seed))
    length = len(to_json(value))
    assert is_longer(value, length - 1) and not is_longer(value, length)
    assert is_longer(value, length // 2) is (length > length // 2) and not is_longer(value, 2 * length)


def test_the_length_of_json_is_not_counted_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(value: object) -> bytes:
        raise AssertionError("it was written, which takes long")

    monkeypatch.setattr("mcp_runtime.protocol.json_text.to_json", written)
    for value in ([0] * 10_000, {str(index): 0 for index in range(4000)}, ["x" * 16_400], [[[]] * 9000], [9**6000] * 9):
        assert is_longer({"a": {"b": value}}, 16 * 1024)
