"""One side of a connection, played without any I/O: a mock with generated data, and the replay of a recorded side."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import CodegenError, Json, is_list, is_object
from ..model.ir import Method, Side
from .messages import MessageFactory

_SKIPPED_ROLES: Final = frozenset({"initialize_request", "initialized", "listen", "cancelled", "progress"})
_VOWELS: Final = frozenset("AEIOU")
_CURSOR: Final = "cursor"
_NEXT: Final = "nextCursor"
ANYTHING: Final = "..."
ANY_ORDER: Final = "(any order)"
_STEP: Final = re.compile(r"(>[+-]?|<[~|]?|!|open|close|exit|signal)(?: (.*))?")
_ESCAPE: Final = re.compile(rb"\\x([0-9a-f]{2})|\\.", re.DOTALL)  # What follows a backslash that is escaped is text.
_CODE: Final = re.compile(r"-?\d+|\.\.\.")
_SENDS: Final[Mapping[str, frozenset[str]]] = {"client": frozenset({">"}), "server": frozenset({"<", "<~"})}
_VERBS: Final = frozenset({">", "<", "<~", "close", "exit"})
_RESPONSE: Final = (("id",), ("params", "requestId"))
_NOTIFICATION: Final = (("params", "progressToken"),)


class Mock:
    """One side of a connection, which answers every request of the other side with valid generated data."""

    def __init__(self, side: Side, messages: MessageFactory) -> None:
        revision = messages.revision
        direction = "client_to_server" if side == "server" else "server_to_client"
        self.messages = messages
        self._rows = {
            row.method: row for row in revision.methods if row.direction == direction and row.kind != "input_request"
        }

    def respond(self, message: Json) -> Json | None:
        """Return the response to a message, or None for a message without one. A batch is answered by a batch."""
        if is_list(message) and self.messages.revision.batches:
            responses = [response for item in message if (response := self._one(item)) is not None]
            return responses or None
        return self._one(message)

    def _one(self, message: Json) -> Json | None:
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            return self.error_response(None, "INVALID_REQUEST", "not a JSON-RPC message")
        if "method" not in message or "id" not in message:
            return None
        row = self._rows.get(str(message["method"]))
        if row is None or row.kind == "notification":
            return self.error_response(
                message["id"], "METHOD_NOT_FOUND", f"{message['method']!r} is not a request of this side"
            )
        if violation := self.check_params(row, message):
            return self.error_response(message["id"], "INVALID_PARAMS", violation)
        result = self.messages.result(row)
        if _CURSOR in (message.get("params") or {}):
            result.pop(_NEXT, None)  # The second page is the last, so that paging ends.
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def check_params(self, row: Method, message: dict[str, Any]) -> str:
        """Return a description of the first violation in a message of a row, or an empty string."""
        violation = self.messages.first_violation(row.type, message)
        return violation.describe if violation is not None else ""

    def error_response(self, id: Json, code: str, message: str) -> dict[str, Any]:
        """Return an error response by the name of its code in the schema."""
        error = {"code": self.messages.revision.constants[code], "message": message}
        return {"jsonrpc": "2.0", "id": id, "error": error}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one request: `passed` if the response is valid by the schema, or an error."""

    method: str
    passed: bool
    text: str


# The check yields each message to send, and is sent the response to it, if there is one.
MethodChecks = Generator[dict[str, Any], Json, list[Verdict]]


def check_all_methods(messages: MessageFactory) -> MethodChecks:
    """As a client, initialize the connection, then send every declared request and every notification."""
    roles = messages.revision.lifecycle.roles
    by_method = {row.method: row for row in messages.revision.methods if row.direction == "client_to_server"}
    first_row = by_method[roles.get("initialize_request") or roles["discover"]]
    response = yield messages.request(first_row, 0)
    verdicts = [_verdict(messages, first_row, response)]
    if not verdicts[0].passed or "result" not in response:
        return verdicts
    declared = response["result"].get("capabilities", {})
    if "initialized" in roles:
        yield messages.request(by_method[roles["initialized"]], 0)
    skipped = {roles[role] for role in _SKIPPED_ROLES if role in roles} | {first_row.method}
    # Notifications come first: requests that a server sends because of them are answered during the rest.
    rows = sorted(by_method.values(), key=lambda row: row.kind != "notification")
    for id, row in enumerate((row for row in rows if row.method not in skipped), start=1):
        if not _is_declared(row, declared):
            verdicts.append(Verdict(row.method, True, f"not sent: {row.capability} is not declared"))
        elif row.kind == "notification":
            yield messages.request(row, id)
        else:
            message = messages.request(row, id)
            message.get("params", {}).pop(
                _CURSOR, None
            )  # The first page always exists; only the server can create other cursors.
            response = yield message
            verdicts.append(_verdict(messages, row, response))
    return verdicts


def _is_declared(row: Method, declared: Json) -> bool:
    """Return True if the server declared the capability that this message needs."""
    side, *path = row.capability.split(".")
    at = declared
    for segment in path if side == "server" else ():
        at = at.get(segment) if is_object(at) else None
    return at is not None and at is not False


def _verdict(messages: MessageFactory, row: Method, response: Json) -> Verdict:
    """Return the verdict on a response: an error, or a result that is valid for one of the result types."""
    error = response.get("error")
    if is_object(error) and "result" not in response:
        is_valid = type(error.get("code")) is int and isinstance(error.get("message"), str)
        return Verdict(row.method, is_valid, f"error {error.get('code')}: {error.get('message')}")
    names = [row.result or "", *(interim.type for interim in row.interim)]
    violations = [messages.first_violation(name, response.get("result")) for name in names]
    if any(violation is None for violation in violations):
        name = names[violations.index(None)]
        return Verdict(row.method, True, _with_article(name))
    return Verdict(
        row.method,
        False,
        f"not {_with_article(names[0])}: {violations[0].describe if violations[0] is not None else ''}",
    )


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in _VOWELS else 'a'} {name}"


# The text form of a recorded connection: one step in each line; and the comparison of messages with it.
#
# | line       | meaning                                                              |
# |------------|----------------------------------------------------------------------|
# | `# text`   | a comment                                                            |
# | `> json`   | the client sends this line; `\xff` in it is the byte 255             |
# | `< json`   | the server sends this line                                           |
# | `<~ json`  | the same; consecutive lines of this kind may come in any order       |
# | `close`    | the client closes the server's input                                 |
# | `exit 0`   | the server exits with this code                                      |
#
# In the JSON of an expected line, `"..."` matches any value, and `...` in a text any text. `"key?"` is a property that
# may be absent; `"(absent)"` one that must be absent, `"(absent or null)"` one that must be absent or null. A list
# that begins with `"(any order)"` has no order.


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
            if match[1] == "exit" and not _CODE.fullmatch(match[2] or ""):
                raise ValueError(f"{name}:{number}: exit needs a number, or ... for any: {line}")
            yield TranscriptStep(number, match[1], match[2] or "")


def text_of(line: bytes) -> str:
    r"""Return a line as a file has it: bytes that are not UTF-8, and CR, as `\xff`."""
    text = line.decode(errors="surrogateescape").replace("\r", r"\x0d")
    return re.sub("[\udc80-\udcff]", lambda match: rf"\x{ord(match[0]) - 0xDC00:02x}", text)


def bytes_of(text: str) -> bytes:
    r"""Return the bytes of a line: `\xff`, which JSON does not have, is the byte 255. Texts have two of them."""
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()) if match[1] else match[0], text.encode())


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


class Replay:
    """One side of a recorded connection, up to its end: the lines to send, and the differences of received ones.

    It does no I/O. Ids and progress tokens may differ from the recorded ones: the value that the other side chose
    replaces the recorded one everywhere.
    """

    def __init__(self, name: str, steps: Sequence[TranscriptStep], side: Side) -> None:
        for step in steps:
            if step.verb not in _VERBS:
                raise CodegenError(
                    f"{name}:{step.line}: {step.verb!r} cannot be replayed; use only {', '.join(sorted(_VERBS))}"
                )
        self._name = name
        self._steps = list(steps)
        self._sends = _SENDS[side]
        self._ids: dict[str, Json] = {}
        self._tokens: dict[str, Json] = {}

    def current_step(self) -> TranscriptStep | None:
        """Return the current step, or None at the end."""
        return self._steps[0] if self._steps else None

    def to_send(self) -> list[bytes]:
        """Return the lines that this side sends before the next line of the other side."""
        lines: list[bytes] = []
        while self._steps and self._steps[0].verb in self._sends:
            lines.append(self._line_to_send(self._steps.pop(0)))
        return lines

    def receive(self, line: bytes) -> None:
        """Accept a line of the other side. Raises CodegenError if it differs from the recorded one."""
        expected = self._group()
        if not expected:
            raise CodegenError(f"{self._name}: {_shown(line)} was received after the last recorded line")
        differences: list[str] = []
        for step in expected:
            text = self._difference(step, line)
            if text is None:
                self._steps.remove(step)
                return
            differences.append(text)
        raise CodegenError(f"{self._name}:{expected[0].line}: {differences[0]}; recorded was {expected[0].text[:200]}")

    def take(self, verb: str) -> str | None:
        """Take a step such as `close` and return its text, or None if another step is next."""
        return self._steps.pop(0).text if self._steps and self._steps[0].verb == verb else None

    def _group(self) -> list[TranscriptStep]:
        """Return the steps that the next line may match: one, or several whose order is free."""
        group: list[TranscriptStep] = []
        for step in self._steps:
            if step.verb in self._sends or step.verb in ("close", "exit") or (group and step.verb != "<~"):
                break
            group.append(step)
            if step.verb != "<~":
                break
        return group

    def _line_to_send(self, step: TranscriptStep) -> bytes:
        message = _parsed(bytes_of(step.text))
        if not is_object(message):
            return bytes_of(step.text)
        # A response, and a notification about a request, have the id that the other side chose.
        paths = _RESPONSE if "method" not in message else _RESPONSE[1:]
        changed = [_put(message, path, self._ids) for path in paths]
        changed += [_put(message, path, self._tokens) for path in _NOTIFICATION]
        return (
            json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
            if any(changed)
            else bytes_of(step.text)
        )

    def _difference(self, step: TranscriptStep, line: bytes) -> str | None:
        """Return the first difference of a line from the recorded one; None if they match, and then remember its
        ids."""
        expected, received = _parsed(bytes_of(step.text)), _parsed(line)
        if expected is None or not is_object(received) or not is_object(expected):
            same = bytes_of(step.text) == line if expected is None else difference(expected, received) is None
            return None if same else f"{_shown(line)} was received"
        is_request = "method" in expected and "id" in expected and "id" in received
        chosen: list[tuple[dict[str, Json], Json, Json]] = []
        if is_request:
            chosen.append((self._ids, expected["id"], received["id"]))
            expected["id"] = received["id"]
        expected_meta, received_meta = (_inside(message, ("params", "_meta")) for message in (expected, received))
        if (
            expected_meta is not None
            and received_meta is not None
            and "progressToken" in expected_meta
            and "progressToken" in received_meta
        ):
            chosen.append((self._tokens, expected_meta["progressToken"], received_meta["progressToken"]))
            expected_meta["progressToken"] = received_meta["progressToken"]
        if "method" in expected:
            _put(expected, ("params", "requestId"), self._ids)
        text = difference(expected, received)
        if text is None:
            for values, recorded, actual in chosen:
                values[json.dumps(recorded)] = actual
        return text


def _put(message: dict[str, Any], path: tuple[str, ...], values: dict[str, Json]) -> bool:
    """Replace a recorded id by its current value. Return True if it changed."""
    holder = _inside(message, path[:-1])
    if holder is None or path[-1] not in holder:
        return False
    before = holder[path[-1]]
    holder[path[-1]] = values.get(json.dumps(before), before)
    return holder[path[-1]] is not before


def _inside(message: Json, path: tuple[str, ...]) -> dict[str, Any] | None:
    for key in path:
        message = message.get(key) if is_object(message) else None
    return message if is_object(message) else None


def _parsed(line: bytes) -> Json:
    """Return the JSON of a line, or None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _shown(line: bytes) -> str:
    return line[:200].decode(errors="replace")
