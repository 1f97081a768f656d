"""A golden conversation goes in as a text file, and is held with a server process over raw lines; the README.md
beside the files describes the format. What differs is raised as AssertionError that names the line of the file."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from support.golden.forked_server import CAN_FORK, SERVER, ForkedServer
from support.golden.language import HANDSHAKE, STATELESS, filled
from support.processes import Moment, exit_code_within, moment
from support.project import TESTS
from support.systems import PATIENCE

from mcp_codegen.testkit.peers import ANYTHING, TranscriptStep, bytes_of, difference, read_steps
from mcp_generated import REVISIONS

FOLDER: Final = TESTS / "core" / "stdio" / "golden"
DEADLINE: Final = 20.0 * PATIENCE  # Seconds that an answer may take on a busy machine.
TIMEOUT: Final = 60.0  # Seconds after which the server of a conversation is killed, wherever the conversation is.
# Seconds from the closed input, or the signal, to the end, but for those it was starved.
ENDS_WITHIN: Final = 2.0 * PATIENCE
GROUPS: Final = {"all": list(REVISIONS), "handshake": HANDSHAKE, "stateless": STATELESS}
CLAUSES_OF: Final = {"draft": "2025-06-18"}  # The clauses of that revision were numbered while it was a draft.
OPENING: Final = {  # What `open` stands for: whether there is a handshake, and how it goes.
    True: (
        '> {"jsonrpc":"2.0","id":"open","method":"initialize","params":{$HELLO}}',
        '< {"jsonrpc":"2.0","id":"open","result":{$WELCOME}}',
        '> {"jsonrpc":"2.0","method":"notifications/initialized"}',
    ),
    False: (
        '> {"jsonrpc":"2.0","id":"open","method":"server/discover","params":{$META}}',
        '< {"jsonrpc":"2.0","id":"open","result":{"supportedVersions":"...",$CAPABILITIES,$COMPLETE,$CACHED}}',
    ),
}


@dataclass(frozen=True)
class Golden:
    """One file: its settings and its steps."""

    name: str
    revisions: list[str]
    server: str
    never: list[str]
    clauses: list[str]
    steps: list[TranscriptStep]

    def clauses_of(self, revision: str) -> list[str]:
        """The clauses that this file proves for one revision."""
        return [clause for clause in self.clauses if CLAUSES_OF.get(page := clause.partition("/")[0], page) == revision]


def read(path: Path) -> Golden:
    """Read a file. Raises ValueError for a line that is nothing of the format."""
    settings: dict[str, list[str]] = {"revisions": [], "server": [], "never": [], "clauses": []}
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        name, colon, value = line.partition(": ")
        if not lines and colon and name in settings:
            settings[name] += re.split(r",? +", value.strip()) if name != "never" else [value]
        elif line and not line.startswith("#"):
            lines.append((number, line))
    steps = list(read_steps(lines, path.name))
    revisions = [revision for group in settings["revisions"] or ["all"] for revision in GROUPS.get(group, [group])]
    server = (settings["server"] or ["all"])[0]
    return Golden(path.stem, revisions, server, settings["never"], settings["clauses"], steps)


def play(golden: Golden, revision: str, *, is_fresh: bool = not CAN_FORK) -> None:
    """Hold the conversation with a server of its own, which is a new interpreter if `is_fresh`, else a fork.

    Raises AssertionError where it goes otherwise.
    """
    with tempfile.TemporaryFile() as stderr:
        conversation = Conversation(golden, revision, stderr.fileno(), is_fresh)
        try:
            for step in golden.steps:
                conversation.take(step)
            conversation.end()
        except AssertionError as error:
            stderr.seek(0)
            log = stderr.read().decode(errors="replace")
            raise AssertionError(f"{error}\n\nthe server's standard error:\n{log}") from None
        finally:
            conversation.kill()
        stderr.seek(0)
        log = stderr.read().decode()
        for step in golden.steps:
            assert step.verb != "!" or step.text in log, f"{golden.name}:{step.line}: not on standard error"


def _started(arguments: list[str], stderr: int, is_fresh: bool) -> Any:
    if not is_fresh:
        return ForkedServer(arguments, stderr)
    pipe = subprocess.PIPE
    command = [sys.executable, str(SERVER), *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, bufsize=0)


class Conversation:
    """A server process, and what was said so far."""

    def __init__(self, golden: Golden, revision: str, stderr: int, is_fresh: bool) -> None:
        self._golden = golden
        self._revision = revision
        only = [revision] if golden.server == "only" else []
        self._server = _started(only, stderr, is_fresh)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._unordered: list[tuple[TranscriptStep, Any]] = []
        self._unsent = b""
        self._probes = 0
        self._at = TranscriptStep(0, "", "")
        self._has_answered = self._exited = False
        self._closed_at: Moment | None = None
        threading.Thread(target=self._listen, daemon=True).start()
        self._watchdog = threading.Timer(TIMEOUT, self._server.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in open(self._server.stdout.fileno(), "rb", closefd=False):
            self._lines.put(line)
        self._lines.put(None)

    def kill(self) -> None:
        """Leave nothing behind."""
        self._watchdog.cancel()
        self._server.kill()
        self._server.wait(DEADLINE)
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()

    # ---- steps ------------------------------------------------------------------------------------------------------

    def take(self, step: TranscriptStep) -> None:
        """Do what one line says."""
        self._at = step
        if step.verb != "<~":
            self._settle_unordered()
        match step.verb:
            case ">" | ">+" | ">-":
                self._send(step)
            case "<":
                self._expect(self._expected(step.text))
            case "<~":
                self._unordered.append((step, self._expected(step.text)))
            case "<|":
                self._expect_nothing()
            case "open":
                self._open()
            case "close":
                self._close()
            case "signal":
                self._closed_at = moment(self._server.pid)
                self._server.send_signal(signal.Signals[f"SIG{step.text}"])
            case "exit":
                self._expect_exit(step.text)

    def end(self) -> None:
        """A file that does not say how the server ends means: the input is closed, and it exits with 0."""
        self._settle_unordered()
        if not self._exited:
            self._at = TranscriptStep(self._at.line, "(the end)", "")
            self._close()
            self._expect_exit("0")

    def _send(self, step: TranscriptStep) -> None:
        data = bytes_of(filled(step.text, self._revision)) + (b"" if step.verb == ">-" else b"\n")
        self._unsent += data
        if step.verb != ">+":
            self._write()

    def _write(self) -> None:
        assert self._server.stdin is not None
        data = memoryview(self._unsent)
        self._unsent = b""
        try:
            while data:
                data = data[os.write(self._server.stdin.fileno(), data) :]
        except BrokenPipeError:
            self._fail("the server has closed its input")

    def _expected(self, text: str) -> Any:
        return json.loads(filled(text, self._revision))

    def _expect(self, expected: Any) -> None:
        if mismatch := difference(expected, received := self._receive()):
            self._fail(f"{mismatch}\nexpected {json.dumps(expected)}\nreceived {json.dumps(received)}")

    def _settle_unordered(self) -> None:
        """As many lines as a group has, each the answer to one line of it."""
        waiting = self._unordered
        self._unordered = []
        while waiting:
            self._at = waiting[0][0]
            received = self._receive()
            fitting = [entry for entry in waiting if difference(entry[1], received) is None]
            if not fitting:
                self._fail(f"none of the group is {json.dumps(received)}")
            waiting.remove(fitting[0])

    def _expect_nothing(self) -> None:
        """What had come before would be read before the answer to a request that is sent now."""
        self._probes += 1
        probe = "ping" if self._revision in HANDSHAKE else "server/discover"
        id = f"nothing before this {self._probes}"
        text = '{"jsonrpc":"2.0","id":"%s","method":"%s","params":{$META}}' % (id, probe)
        self._unsent += filled(text, self._revision).encode() + b"\n"
        self._write()
        received = self._receive()
        result = received.get("result") if isinstance(received, dict) and received.get("id") == id else None
        if not isinstance(result, dict):
            self._fail(f"there is {json.dumps(received)}")

    def _open(self) -> None:
        """The opening that is the same in most files."""
        for line in OPENING[self._revision in HANDSHAKE]:
            verb, _, text = line.partition(" ")
            if verb == ">":
                self._send(TranscriptStep(self._at.line, verb, text))
            else:
                self._expect(self._expected(text))

    def _close(self) -> None:
        assert self._server.stdin is not None
        self._closed_at = moment(self._server.pid)
        self._server.stdin.close()

    def _wait_for_exit(self, within: float) -> int:
        try:
            return exit_code_within(self._server, within, self._closed_at)
        except subprocess.TimeoutExpired:
            self._fail(f"the server still runs after {within:g} s")

    def _expect_exit(self, code: str) -> None:
        # A server that has said nothing may still be starting, which takes its time on a busy machine.
        within = ENDS_WITHIN if self._has_answered else DEADLINE
        returned = self._wait_for_exit(within)
        self._exited = True
        if (line := self._lines.get(timeout=DEADLINE)) is not None:
            self._fail(f"before its end the server said {line!r}")
        if code != ANYTHING and returned != int(code):
            self._fail(f"the exit code is {returned}")

    def _receive(self) -> Any:
        try:
            line = self._lines.get(timeout=DEADLINE)
        except queue.Empty:
            self._fail("nothing came")
        if line is None:
            self._fail("the server has closed its output")
        self._has_answered = True
        for secret in self._golden.never:
            if secret.encode() in line:
                self._fail(f"{secret!r} is told: {line!r}")
        try:
            return json.loads(line.decode(), parse_constant=lambda name: self._fail(f"{name} is not JSON"))
        except ValueError:
            self._fail(f"not a message: {line!r}")

    def _fail(self, reason: str) -> NoReturn:
        at = self._at
        raise AssertionError(f"{self._golden.name}:{at.line}: {at.verb} {at.text[:200]}\n{reason}") from None
