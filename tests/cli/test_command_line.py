"""The command line: what it writes, what it checks, and how it says no."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from support.project import ROOT
from support.schemas.invented import folder, skeleton

from mcp_codegen import __main__
from mcp_codegen.cli.main import main
from mcp_codegen.errors import OutputError
from mcp_codegen.output import replace_user_file
from mcp_generated import REVISIONS

SOURCE = f"{ROOT}/codegen{os.pathsep}{ROOT}/runtime"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.exhaustive
def test_what_is_committed_is_what_the_schemas_give() -> None:
    result = run("--all", "--check")
    assert result.exit_code == 0, result.output
    committed = [path for path in contents(ROOT / "generated" / "mcp_generated") if "__pycache__" not in path]
    assert f"{len(committed)} files, all up to date" in result.output


def test_one_revision_is_written_as_a_package_of_its_own(tmp_path: Path) -> None:
    result = run("--revision", "2025-03-26", "--output", tmp_path / "bindings")
    assert result.exit_code == 0, result.output
    modules = ("__init__", "client", "core_schemas", "methods", "server", "sync", "types")
    files = {f"v2025_03_26/{name}.py" for name in modules}
    names = "auth code_mode dependencies http middleware providers sampling skills tasks tenants testing transforms"
    areas = {f"{area}.py" for area in names.split()}
    assert contents(tmp_path / "bindings").keys() == {"__init__.py", "py.typed", *areas, *files}
    code = (
        "from bindings.v2025_03_26 import Client, Server, types, methods; "
        "print(methods.REVISION.id, types.Tool.__name__)"
    )
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}/runtime", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2025-03-26 Tool\n"


@pytest.mark.long
def test_the_index_names_what_was_generated_before_too(tmp_path: Path) -> None:
    run("--revision", "2025-06-18", "--output", tmp_path)
    run("--revision", "2024-11-05", "--output", tmp_path)
    text = (tmp_path / "__init__.py").read_text()
    assert text.index('"v2024_11_05"') < text.index('"v2025_06_18"')
    assert '"v2025_03_26"' not in text


def test_check_shows_the_difference_and_the_command_that_mends_it(tmp_path: Path) -> None:
    run("--revision", "2025-03-26", "--output", tmp_path)
    client = tmp_path / "v2025_03_26" / "client.py"
    client.write_text(client.read_text().replace("async def ping", "async def pong"))
    before = contents(tmp_path)
    result = run("--revision", "2025-03-26", "--output", tmp_path, "--check")
    assert result.exit_code == 1
    assert "-    async def pong" in result.output and "+    async def ping" in result.output
    assert f"mcp-codegen --revision 2025-03-26 --output {tmp_path}" in result.output
    assert contents(tmp_path) == before


def test_an_unknown_revision_is_told_the_known_ones() -> None:
    result = run("--revision", "1999-01-01")
    assert result.exit_code == 2
    assert result.output == f"error: unknown revision '1999-01-01'; the known revisions are {', '.join(REVISIONS)}\n"


@pytest.mark.parametrize("words", [["2025-03-26"], ["--revision", "2024-11-05", "2025-03-26"]])
def test_a_revision_without_its_option_is_told_the_option(words: list[str]) -> None:
    result = CliRunner().invoke(main, words)

    assert result.exit_code == 2
    assert "there is no command '2025-03-26'; for a revision, write --revision 2025-03-26;" in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "schema.json: is not JSON"),
        (b"[1]", "must be a JSON object, not list"),
        (b"{}", "the schema has no definitions under $defs"),
        (b'{"$defs": {"A": {"$ref": "#/$defs/B"}}}', "A refers to 'B', which is not defined"),
        (b'{"$defs": {"A": 3}}', "A is int, not a schema"),
        (b'{"$defs": {"A": {"type": "string"}}}', "none of ClientRequest"),
        (b'{"$defs": {"A": {"anyOf": 3}}}', "the schema has a form that mcp-codegen cannot read"),
        (b'{"$defs": {"A": {"$ref": "#/$defs/A"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}}}', "1: "),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not JSON"),
    ],
    ids=["truncated", "list", "empty", "dangling", "number", "no-roles", "bad-union", "circle", "deep", "not-utf-8"],
)
def test_a_broken_schema_is_one_clear_line_and_leaves_the_old_output(
    tmp_path: Path, content: bytes, message: str
) -> None:
    folder(tmp_path / "schema", skeleton())
    assert run("--all", "--schema", tmp_path / "schema", "--output", tmp_path / "out").exit_code == 0
    before = contents(tmp_path / "out")
    (tmp_path / "schema" / "1" / "schema.json").write_bytes(content)
    result = run("--all", "--schema", tmp_path / "schema", "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.output and result.output.startswith("error: ") and result.output.count("\n") == 1
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("words", [("--all", "--output", "out"), ("list",), ("explore",), ("clarity",)], ids="-".join)
def test_a_folder_of_schemas_without_a_revision_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words, "--schema", tmp_path)
    assert (result.exit_code, result.output) == (
        2,
        f"error: {tmp_path}: this folder has no revision; pass a folder of schemas with --schema\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("--all", "--output", ""),
        ("list", "--schema", ""),
        ("explore", "--output", ""),
        ("migrate", ""),
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2 and "it is empty; the current folder is ./" in result.output
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_has_the_folder_of_schemas(tmp_path: Path) -> None:
    schema, out = tmp_path / "own schema", tmp_path / "out"
    folder(schema, skeleton())
    words = ("--revision", "1", "--schema", schema, "--output", out)
    assert f"--revision 1 --schema '{schema}' --output {out} --check" in run(*words).output
    (out / "__init__.py").unlink()
    result = run(*words, "--check")
    assert f"1 file is out of date. To regenerate them: mcp-codegen --revision 1 --schema '{schema}'" in result.output


@pytest.mark.parametrize("group", ["mock", "extension", "config"])
def test_a_group_without_its_command_shows_its_help(group: str) -> None:
    result = run(group)
    assert result.exit_code == 2 and result.output == run(group, "--help").output


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("words", [("explore",), ("vectors", "--revision", "2025-03-26")])
def test_a_device_or_a_pipe_is_neither_read_nor_replaced(tmp_path: Path, words: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run(*words, "--output", pipe)
    assert result.exit_code == 2 and f"{pipe}: is not a regular file, and is not replaced" in result.output
    with pytest.raises(OutputError, match="it is not a regular file"):
        replace_user_file(pipe, "text")
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("list",), ("ir", "--revision", "2025-03-26")])
def test_an_output_without_space_is_one_line(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_codegen", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_an_interrupt_while_a_command_is_imported_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "import_module", interrupted)
    with pytest.raises(SystemExit, match="130"):
        __main__.main()


def test_a_bridge_without_a_server_is_told_so() -> None:
    assert run("bridge").output == "error: no server was named; write bridge SERVER, or bridge -- COMMAND\n"


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'none'}: this folder does not exist" in run("list", "--schema", tmp_path / "none").output
    folder(tmp_path, skeleton())
    (tmp_path / "1" / "schema.json").unlink()
    result = run("--all", "--schema", tmp_path, "--output", tmp_path / "out")
    assert result.exit_code == 2 and "schema.json: cannot be read: No such file" in result.output
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    result = run("--revision", "2025-03-26", "--output", blocked / "deeper")
    assert result.exit_code == 2 and "cannot be written" in result.output and result.output.count("\n") == 1
    # The last file cannot be written, because a folder is in its place: nothing that came before it stays.
    monkeypatch.setattr("mcp_codegen.output.changed_files", list)
    (tmp_path / "out" / "py.typed").mkdir(parents=True)
    result = run("--revision", "2025-03-26", "--output", tmp_path / "out")
    assert result.exit_code == 2 and "nothing was changed" in result.output
    assert contents(tmp_path / "out") == {}


def test_a_file_that_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_bytes(b"import mine\n")
    result = run("--revision", "2025-03-26", "--output", tmp_path)
    assert result.exit_code == 2 and "was not generated by mcp-codegen and is not overwritten" in result.output
    assert contents(tmp_path) == {"__init__.py": b"import mine\n"}


def test_list_shows_every_revision_with_its_pins_methods_and_types() -> None:
    lines = run("list").output.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(REVISIONS)
    assert lines[4].split()[1:6] == ["handshake", "17", "8", "14", "152"]
    assert all("b0f60ba5409d" in line for line in lines[1:])


def test_help_is_for_people() -> None:
    for arguments in ([], ["--help"], ["import", "--help"], ["verify", "--help"]):
        result = run(*arguments)
        assert result.exit_code == 0 and "Usage:" in result.output


def commands(command: click.Command, *words: str) -> list[tuple[str, ...]]:
    """The words of a command and of all below it."""
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    below = [(name, command.get_command(context, name)) for name in names if isinstance(command, click.Group)]
    return [words, *(all_words for name, child in below if child for all_words in commands(child, *words, name))]


@pytest.mark.parametrize("words", commands(main), ids=" ".join)
def test_help_of_a_command_is_shown_without_marks_of_its_layout(words: tuple[str, ...]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert "\\" not in result.output
    assert "\b" not in result.output


@pytest.mark.exhaustive
def test_runs_from_different_folders_seeds_locales_and_caches_are_byte_identical(tmp_path: Path) -> None:
    runs: list[dict[str, bytes]] = []
    cache = str(tmp_path / "cache")  # Cold in the first run, warm in the second.
    for number, (seed, locale, cache_folder) in enumerate(
        [("1", "C", cache), ("2", "C.UTF-8", cache), ("4242", "tr_TR.UTF-8", "off")]
    ):
        place = tmp_path / f"place {number}"
        place.mkdir()
        environment = {"PYTHONHASHSEED": seed, "LC_ALL": locale, "TZ": f"UTC+{number}", "PYTHONPATH": SOURCE}
        subprocess.run(
            [sys.executable, "-m", "mcp_codegen", "--all", "--output", "out"],
            cwd=place,
            env={**os.environ, **environment, "MCP_CODEGEN_CACHE": cache_folder},
            check=True,
            capture_output=True,
        )
        runs.append(contents(place / "out"))
    assert runs[0] == runs[1] == runs[2]
    committed = contents(ROOT / "generated" / "mcp_generated")
    assert runs[0] == {name: data for name, data in committed.items() if "__pycache__" not in name}
