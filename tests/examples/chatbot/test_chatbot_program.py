"""The chatbot example as a program: what its arguments mean, its built-in rules, and a person who types lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from client import print_plain
from model import Question, Rules, Tool
from servers import Launch, parse_launches
from support.chatbot import (
    BROKEN,
    CHATBOT,
    DEADLINE,
    ECHO,
    ENVIRONMENT,
    EXAMPLE,
    ODD_COMMAND,
    WEATHER,
    chat,
    converse,
    within_deadline,
    written,
)
from support.checkers import mypy, pyright
from support.fake_weather import FakeWeather, serving
from support.matrices import long_after


@pytest.fixture
def service() -> Iterator[FakeWeather]:
    with serving() as fake:
        yield fake


def test_arguments_name_scripts_command_lines_urls_and_configurations(tmp_path: Path) -> None:
    entries = {"a": {"command": "x", "args": ["y z"], "env": {"K": "v"}}, "b": {"url": "http://localhost/mcp"}}
    path = written(tmp_path / "config.json", entries)
    (tmp_path / "mcp.json").write_text(json.dumps({"servers": {"c": {"command": "w"}}}))
    arguments = ["s.py", "s.js", "a s.jar", "'a s.jar'", "uv run 's t.py'", "https://a.example/mcp", path]
    launches = parse_launches([*arguments, str(tmp_path / "mcp.json")])
    assert launches == [
        Launch({"command": sys.executable, "args": ["s.py"]}),
        Launch({"command": "node", "args": ["s.js"]}),
        Launch({"command": "a", "args": ["s.jar"]}),
        Launch({"command": "java", "args": ["-jar", "a s.jar"]}),
        Launch({"command": "uv", "args": ["run", "s t.py"]}),
        Launch({"url": "https://a.example/mcp"}),
        Launch(entries["a"], "a"),
        Launch(entries["b"], "b"),
        Launch({"command": "w"}, "c"),
    ]
    labels = ["a", "b", "c", "https://a.example/mcp"]
    assert [launch.label for launch in [*launches[-3:], launches[5]]] == labels


def test_a_wrong_entry_of_a_configuration_is_left_out(tmp_path: Path) -> None:
    servers: dict[str, Any] = {"a": {}, "b": {"command": "x", "args": "y"}, "c": 5, "d": {"command": ""}}
    servers |= {"e": {"command": "${NOT_SET}"}, "f": {"url": "ftp://x"}, "g": {"command": "x", "disabled": True}}
    output = chat(parse_launches([written(tmp_path / "config.json", servers)]), Rules())[1]
    problems = [re.fullmatch(r"server '(\w)' is left out: (.*)", line) for line in output]
    messages = {problem[1]: problem[2] for problem in problems if problem}
    assert [*messages] == ["a", "b", "c", "d", "e", "f"] and output[-1] == "No server could be started."
    for name, message in {"a": "'command' is missing", "b": "'args'", "c": "5", "e": "NOT_SET", "f": "ftp://x"}.items():
        assert message in messages[name]


@pytest.mark.parametrize(
    ("content", "message"),
    long_after(
        1,
        [
            (None, "cannot be read: No such file"),
            ("{", "is not JSON: "),
            ("[]", "has no object 'mcpServers'"),
            ("{}", "has no"),
        ],
    ),
)
def test_a_wrong_configuration_is_one_line(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    done = converse(str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["", "python 'x"])
def test_a_wrong_command_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="command line"):
        parse_launches([line])


# ---- the built-in rules ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("alerts in CA", "get_alerts", {"state": "CA"}),
        ("Any alerts for ny?", "get_alerts", {"state": "NY"}),
        ("forecast for 38.58 -121.49", "get_forecast", {"latitude": 38.58, "longitude": -121.49}),
        ("the Forecast at 38, -121.5 please", "get_forecast", {"latitude": 38.0, "longitude": -121.5}),
    ],
)
def test_the_rules_turn_simple_questions_into_calls(text: str, tool: str, arguments: dict[str, Any]) -> None:
    async def conversation() -> None:
        tools = [Tool(name, "", {}) for name in ("get_alerts", "get_forecast", "two__get_alerts", "two__get_forecast")]
        reply = await Rules().reply([Question(text)], tools)
        assert [(call.tool, call.arguments) for call in reply.calls] == [(tool, arguments), (f"two__{tool}", arguments)]
        assert (await Rules().reply([Question(text)], [])).text == f"No server here has the tool {tool!r}."
        assert "two questions" in (await Rules().reply([Question("hello")], tools)).text

    within_deadline(conversation())


# ---- as a program ---------------------------------------------------------------------------------------------------


def configuration(tmp_path: Path, service: FakeWeather) -> str:
    env = {"WEATHER_API": service.url}
    servers = {
        "weather": {"command": WEATHER[0], "args": WEATHER[1:], "env": env},
        "broken": {"command": BROKEN[0], "args": BROKEN[1:]},
    }
    return written(tmp_path / "claude_desktop_config.json", servers)


@pytest.mark.long
@pytest.mark.parametrize("ending", ["quit\nalerts in CA\n", ""], ids=["quit", "end of input"])
def test_a_person_types_questions_and_reads_answers(tmp_path: Path, service: FakeWeather, ending: str) -> None:
    typed = f"hello\nalerts in ca\r\n\nforecast for 38.58 -121.49\nalerts in ZZ\n{ending}"
    done = converse(configuration(tmp_path, service), typed=typed)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("There is no ANTHROPIC_API_KEY")
    assert lines[1].startswith("server 'broken' is left out: ") and lines[1].endswith("no database")
    assert lines[2] == "Tools: get_alerts, get_forecast"
    assert done.stdout.count("Event: Flood Warning") == 1 and done.stdout.count("Temperature: ") == 5
    assert lines[-1] == "That failed: 'ZZ' is not the two-letter code of a US state, such as CA or NY."
    assert done.stderr == ""


@pytest.mark.long
def test_what_servers_say_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = written(tmp_path / "config.json", {"odd": {"command": ODD_COMMAND[0], "args": ODD_COMMAND[1:]}})
    done = converse(path, typed="alerts in CA\ny")
    assert done.stdout.splitlines()[-1] == "odd alerts \N{REPLACEMENT CHARACTER}[2J"


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]8;;https://evil.example\x1b\\",
        "\x9b2J",
        "a\rb",
        "\x00\x07\x7f",
        "\u202egpj\u2066x\u2069",
        "a\u2028b\ufeff\xad",
    ],
    ids=ascii,
)
def test_no_text_that_is_printed_steers_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_plain(f"{text}\tone\ntwo \U0001f469\u200d\U0001f52c")
    shown = capsys.readouterr().out
    assert shown.endswith("\tone\ntwo \U0001f469\u200d\U0001f52c\n")
    assert all(char.isprintable() for char in shown.partition("\t")[0])


@pytest.mark.long
def test_an_interrupt_ends_the_chat_and_its_servers() -> None:
    started = """
import os, sys
print(os.getpid(), file=sys.stderr)
sys.argv = sys.argv[1:]
import runpy; runpy.run_path(sys.argv[0], run_name="__main__")
"""
    server = f"{sys.executable} -c '{started}' {ECHO[1]}"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*CHATBOT, "-v", server], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT
    ) as child:
        assert child.stdout is not None
        try:
            output = read_until(child.stdout.readline, "Ask something")
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=DEADLINE)
        finally:
            child.kill()
    assert (child.returncode, errors) == (130, "")
    [pid] = re.findall(r"\] (\d+)$", output, re.MULTILINE)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def read_until(read: Callable[[], str], start: str) -> str:
    """What comes up to the line that begins so; the end of the stream fails the test."""
    text = ""
    while line := read():
        text += line
        if line.startswith(start):
            return text
    raise AssertionError(text)


@pytest.mark.exhaustive
@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_strict_type_checkers_find_nothing(check: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("__pycache__", "__main__.py"))
    assert check(folder, ".") == []
