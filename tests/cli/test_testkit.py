"""The test kit from the schema: vectors with verdicts, mocks of both sides, and conversations recorded and replayed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError
from support.project import ROOT, SERVERS, package

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.testkit.messages import MessageFactory
from mcp_codegen.testkit.peers import Replay, bytes_of, read_steps, text_of
from mcp_runtime.protocol.models import validator

DEADLINE = 60.0  # Seconds that a program may take on a busy machine.
PROGRAM = [sys.executable, "-m", "mcp_codegen"]
GOLDEN = [sys.executable, str(SERVERS / "golden.py")]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=DEADLINE)


# ---- vectors --------------------------------------------------------------------------------------------------------


@pytest.mark.edges
@pytest.mark.long
def test_vectors_hold_both_verdicts_for_every_message_and_the_types_agree(revision: str) -> None:
    result = CliRunner().invoke(main, ["vectors", "--revision", revision, "--each", "6"])
    assert result.exit_code == 0, result.output
    vectors = [line for line in map(json.loads, result.output.splitlines()) if line["kind"] == "instance"]
    schemas = SchemaCatalog(ROOT / "schema")
    read = schemas.revision(revision)
    judge = MessageFactory(read, schemas.normalized(revision)[0], seed=0)
    expected = {(row.method, row.type) for row in read.methods} | {
        (row.method, row.result) for row in read.methods if row.result
    }
    for verdict in (True, False):
        assert {(vector["of"], vector["type"]) for vector in vectors if vector["valid"] is verdict} == expected
    for vector in vectors:
        shape = getattr(package(revision, "types"), vector["type"])
        try:
            written = TypeAdapter(shape).dump_python(validator(shape)(vector["instance"]), mode="json")
        except ValidationError:
            assert not vector["valid"], vector
        else:
            # A null for an optional property is read, as docs/fidelity.md says, and not written again.
            assert vector["valid"] or (
                written != vector["instance"] and judge.first_violation(vector["type"], written) is None
            ), vector


@pytest.mark.long
def test_each_line_of_vectors_is_as_their_schema_says_and_names_the_error(revision: str) -> None:
    described = CliRunner().invoke(main, ["vectors", "--describe"])
    judge: Any = Draft202012Validator(json.loads(described.output))
    lines = CliRunner().invoke(main, ["vectors", "--revision", revision, "--each", "1"]).output.splitlines()
    found = [json.loads(line) for line in lines]
    assert found[0]["kind"] == "header" and found[0]["revision"] == revision
    assert all(judge.is_valid(line) for line in found)
    assert len({line["id"] for line in found[1:]}) == len(found) - 1
    wrong = [line for line in found if line.get("valid") is False]
    assert {line["why"] for line in wrong} >= {"missing", "null", "type", "literal"}
    assert all((line["policy"] == ["null"]) is (line["why"] == "null") for line in wrong)
    talks = [line["steps"] for line in found if line["kind"] == "conversation"]
    assert talks and all({step["from"] for step in steps} == {"client", "server"} for steps in talks)


@pytest.mark.long
def test_vectors_are_the_same_for_the_same_seed_and_others_for_another(tmp_path: Path) -> None:
    texts = []
    for number, seed in enumerate(["7", "7", "8"]):
        path = tmp_path / f"{number}.json"
        result = CliRunner().invoke(
            main, ["vectors", "--revision", "2025-06-18", "--seed", seed, "--output", str(path)]
        )
        assert result.exit_code == 0 and f"lines written to {path}" in result.output
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] != texts[2]


# ---- mocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_mock_client_gets_every_method_answered_by_a_mock_server(revision: str) -> None:
    done = run("mock", "client", "--revision", revision, *PROGRAM, "mock", "server", "--revision", revision)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = dict(line.split(None, 1) for line in done.stdout.splitlines()[1:])
    read = SchemaCatalog(ROOT / "schema").revision(revision)
    requests = {
        row.method: row for row in read.methods if row.direction == "client_to_server" and row.kind == "request"
    }
    requests.pop(read.lifecycle.roles.get("listen", ""), None)
    assert rows.keys() == requests.keys()
    printed = {name: text.split() for name, text in rows.items()}
    assert {name: (words[0], words[-1]) for name, words in printed.items()} == {
        name: ("valid", row.result) for name, row in requests.items()
    }


def test_our_client_reads_what_a_mock_server_answers(revision: str) -> None:
    client_of = package(revision, "client").Client

    async def conversation() -> None:
        async with client_of.stdio(*PROGRAM, "mock", "server", "--revision", revision) as client:
            types = package(revision, "types")
            assert isinstance(await client.call_tool(name="x", arguments={}), types.CallToolResult)
            assert isinstance(await client.read_resource(uri="x:y"), types.ReadResourceResult)
            assert isinstance(await client.get_prompt(name="x"), types.GetPromptResult)
            for items in (client.iter_tools(), client.iter_prompts(), client.iter_resources()):
                assert [item async for item in items] is not None  # noqa: F632

    asyncio.run(asyncio.wait_for(conversation(), DEADLINE))


@pytest.mark.long
def test_a_mock_client_asks_a_real_server_and_answers_what_it_asks() -> None:
    server = [sys.executable, str(ROOT / "examples" / "everything" / "server.py"), "stdio"]
    done = run("mock", "client", "--revision", "2025-11-25", *server)
    assert done.returncode == 0 and "invalid" not in done.stdout, done.stdout + done.stderr
    assert "a ListToolsResult" in done.stdout and "failed" not in done.stderr


@pytest.mark.long
def test_a_mock_client_finds_the_answer_that_is_not_what_the_schema_says(tmp_path: Path) -> None:
    server = tmp_path / "wrong.py"
    server.write_text(
        "import json, sys\n"
        "for line in sys.stdin.buffer:\n"
        "    request = json.loads(line)\n"
        "    opening = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}}\n"
        "    opening['serverInfo'] = {'name': 'w', 'version': '1'}\n"
        "    result = opening if request.get('id') == 0 else {'tools': [{'name': 5}], 'content': []}\n"
        "    if 'id' in request:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)\n"
    )
    done = run("mock", "client", "--revision", "2025-06-18", sys.executable, str(server))
    assert done.returncode == 1, done.stdout + done.stderr
    wrong = [line.split() for line in done.stdout.splitlines() if " invalid " in line]
    assert [line[0] for line in wrong] == ["tools/list"]
    assert "not a ListToolsResult: tools.0" in done.stdout


@pytest.mark.long
def test_a_mock_server_says_what_is_wrong_with_a_request() -> None:
    requests = [
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}',
        "{",
        '{"jsonrpc":"2.0","id":"2","method":"nope"}',
    ]
    done = subprocess.run(
        [*PROGRAM, "mock", "server", "--revision", "2025-06-18"],
        input="\n".join(requests),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
        (1, -32602),
        (None, -32700),
        ("2", -32601),
    ]
    assert answers[0]["error"]["message"] == "params.name: 5 is not of type 'string'"


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["no-such-program-anywhere"], "no-such-program-anywhere: cannot be started: No such file"),
        ([sys.executable, "-c", "pass"], "the server exited before it answered"),
        ([sys.executable, "-c", "print('hello'); input()"], "the server sent a line that is not JSON: hello"),
        ([], "COMMAND is missing"),
        (["cat"], "the connection was not initialized: initialize was answered with error -32601"),
    ],
)
def test_a_server_that_is_none_is_one_clear_line(command: list[str], message: str) -> None:
    done = run("mock", "client", "--revision", "2025-06-18", *command)
    assert done.returncode == 2 and message in done.stderr and done.stderr.startswith("error: ")


# ---- record and replay ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a mock client and the golden server said to each other."""
    path = tmp_path_factory.mktemp("recording") / "golden.txt"
    record = [*PROGRAM, "record", str(path), *GOLDEN, "2025-06-18"]
    done = run("mock", "client", "--revision", "2025-06-18", *record)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


@pytest.mark.long
def test_a_recording_is_in_the_language_of_the_golden_conversations(recording: Path) -> None:
    steps = list(read_steps(enumerate(recording.read_text(encoding="utf-8").split("\n")), recording.name))
    assert [(step.verb, step.text) for step in steps[-2:]] == [("close", ""), ("exit", "0")]
    messages = [json.loads(step.text) for step in steps[:-2]]
    request_ids = {
        message["id"] for message, step in zip(messages, steps, strict=False) if step.verb == ">" and "id" in message
    }
    answered = {
        message["id"]
        for message, step in zip(messages, steps, strict=False)
        if step.verb == "<" and "method" not in message
    }
    assert request_ids == answered and len(request_ids) > 4


@pytest.mark.long
def test_the_server_of_a_recording_can_be_replayed_and_the_client_too(recording: Path) -> None:
    replay = [*PROGRAM, "replay", str(recording)]
    done = run("mock", "client", "--revision", "2025-06-18", *replay)
    assert done.returncode == 0 and "a ListToolsResult" in done.stdout, done.stdout + done.stderr
    done = run("replay", str(recording), *GOLDEN, "2025-06-18")
    assert done.returncode == 0 and "the server behaves as recorded" in done.stdout, done.stderr


@pytest.mark.long
def test_a_replay_says_where_the_other_side_says_something_else(recording: Path, tmp_path: Path) -> None:
    done = run("mock", "client", "--revision", "2025-06-18", "--seed", "2", *PROGRAM, "replay", str(recording))
    assert done.returncode == 2 and "golden.txt:" in done.stderr and "recorded was" in done.stderr
    changed = tmp_path / "changed.txt"
    changed.write_text(recording.read_text(encoding="utf-8").replace('"name":"story"', '"name":"history"'))
    done = run("replay", str(changed), *GOLDEN, "2025-06-18")
    assert done.returncode == 2 and 'result.resources[0].name is "story"' in done.stderr


@pytest.mark.long
def test_a_command_of_several_lines_and_bytes_that_are_no_text_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    server = (
        "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n"
        "    sys.stdout.buffer.flush()\nsys.exit(3)"
    )
    path = tmp_path / "echo.txt"
    command = [*PROGRAM, "record", str(path), sys.executable, "-c", server]
    done = subprocess.run(command, input=b"\xff{}\r\n[]", capture_output=True, timeout=DEADLINE)
    assert (done.returncode, done.stdout) == (3, b"\xff{}\r\n[]\n"), done.stderr
    lines = [(step.verb, step.text) for step in read_steps(enumerate(path.read_text().split("\n")), path.name)]
    assert [line for line in lines if line[0] == ">"] == [(">", r"\xff{}\x0d"), (">", "[]")]
    assert [line for line in lines if line[0] == "<"] == [("<", r"\xff{}\x0d"), ("<", "[]")]
    assert lines[-1] == ("exit", "3") and ("close", "") in lines


@pytest.mark.long
def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    done = run("mock", "client", "--revision", "2025-06-18", "--timeout", "0.2", *silent)
    assert done.returncode == 2 and "error: the response to 'initialize' was not received within 0.2 s" in done.stderr
    path = tmp_path / "told.txt"
    path.write_text('> {"a":1}\n< {"b":1}\nclose\n')
    done = run("replay", "--timeout", "0.2", str(path), *silent)
    assert done.returncode == 2 and "error: told.txt:2: the line was not received within 0.2 s" in done.stderr


def test_a_backslash_before_an_x_in_json_is_text_and_not_a_byte() -> None:
    line = json.dumps({"pattern": r"^[\x20-\x7e]+$"}).encode()
    assert bytes_of(text_of(line)) == line
    assert bytes_of(text_of(b'{"a":"\\\\\xff"}\r')) == b'{"a":"\\\\\xff"}\r'


@pytest.mark.long
@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        ("close\nexit 0\n", 'the server says more than was recorded: {"more":1}'),
        ("exit soon\n", "told.txt:1: exit needs a number, or ... for any: exit soon"),
        ("\udcff", "is not text in UTF-8"),
    ],
)
def test_a_replay_ends_with_what_is_wrong(tmp_path: Path, conversation: str, message: str) -> None:
    path = tmp_path / "told.txt"
    path.write_bytes(conversation.encode(errors="surrogateescape"))
    done = run("replay", str(path), sys.executable, "-c", """print('{"more":1}')""")
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def steps_of(*lines: str) -> list[Any]:
    return list(read_steps(enumerate(lines, start=1), "told.txt"))


def test_ids_and_tokens_may_be_others_than_the_recorded_ones() -> None:
    replay = Replay(
        "told.txt",
        steps_of(
            '> {"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":"t"}}}',
            '< {"jsonrpc":"2.0","method":"p","params":{"progressToken":"t"}}',
            '< {"jsonrpc":"2.0","id":1,"method":"b"}',
            '> {"jsonrpc":"2.0","id":1,"result":{}}',
            '< {"jsonrpc":"2.0","id":1,"result":{}}',
            '> {"jsonrpc":"2.0","method":"c","params":{"requestId":1}}',
        ),
        "server",
    )
    assert replay.to_send() == []
    replay.receive(b'{"jsonrpc":"2.0","id":"x","method":"a","params":{"_meta":{"progressToken":9}}}')
    progress, request = (json.loads(line) for line in replay.to_send())
    assert progress["params"] == {"progressToken": 9} and request["id"] == 1
    replay.receive(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert [json.loads(line) for line in replay.to_send()] == [{"jsonrpc": "2.0", "id": "x", "result": {}}]
    with pytest.raises(CodegenError, match="told.txt:6: the message.params.requestId is"):
        replay.receive(b'{"jsonrpc":"2.0","method":"c","params":{"requestId":2}}')
    replay.receive(b'{"jsonrpc":"2.0","method":"c","params":{"requestId":"x"}}')
    assert replay.current_step() is None
    with pytest.raises(CodegenError, match="after the last recorded line"):
        replay.receive(b"{}")


def test_lines_whose_order_is_free_may_come_in_any() -> None:
    replay = Replay("told.txt", steps_of('< {"a":1}', '<~ {"a":2}', '<~ {"a":3}', "close"), "client")
    with pytest.raises(CodegenError, match="told.txt:1: "):
        replay.receive(b'{"a":3}')
    for line in (b'{"a":1}', b'{"a":3}', b'{"a":2}'):
        replay.receive(line)
    assert replay.take("exit") is None and replay.take("close") == "" and replay.current_step() is None


def test_what_only_the_tests_of_this_repository_can_play_is_refused() -> None:
    with pytest.raises(CodegenError, match="told.txt:1: 'open' cannot be replayed"):
        Replay("told.txt", steps_of("open"), "client")


@pytest.mark.parametrize("line", [b"{}", b"\xff\xfe{", '{"é":"😀"}'.encode(), b"{}\r", b""])
def test_any_bytes_survive_a_recording(line: bytes) -> None:
    assert bytes_of(text_of(line)) == line
