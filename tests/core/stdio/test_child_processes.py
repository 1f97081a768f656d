"""Child processes of Windows and of macOS, by functions of theirs that are emulated."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.matrices import long_after
from support.windows import emulated

from mcp_runtime.transports.stdio import piped_child
from mcp_runtime.transports.stdio.child import child_environment

WINDOWS = {
    "AppData": "C:\\Users\\me\\AppData\\Roaming",
    "SystemRoot": "C:\\Windows",
    "SystemDrive": "C:",
    "Path": "C:\\Windows",
    "ProgramFiles(x86)": "C:\\Program Files (x86)",
    "SECRET_TOKEN": "x",
}


def test_the_names_of_variables_of_windows_differ_in_more_than_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr("os.environ", dict(WINDOWS))
    expected = {name: value for name, value in WINDOWS.items() if name != "SECRET_TOKEN"}
    assert child_environment(None) == expected
    changed = child_environment({"PATH": "D:\\bin", "systemroot": "D:\\Windows", "New": "1"})
    del expected["Path"], expected["SystemRoot"]
    assert changed == {**expected, "PATH": "D:\\bin", "systemroot": "D:\\Windows", "New": "1"}


def test_the_variables_of_windows_are_not_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": "/bin", "path": "/x", "HOME": "/root", "SYSTEMDRIVE": "C:"})
    assert child_environment({"Path": "/y"}) == {"PATH": "/bin", "HOME": "/root", "Path": "/y"}


@pytest.mark.parametrize(("program", "code"), [("exit 3", 3), ("kill -9 $$", -9)])
def test_without_waitid_the_exit_code_is_the_same(program: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.delattr("os.waitid")
    tree = piped_child.GroupTree(("sh", "-c", program), {"PATH": "/usr/bin:/bin"}, None)
    with tree.child:
        while (ended := tree.exit_code()) is None:
            pass
        assert ended == code and tree.exit_code() == code
        tree.kill()
        tree.release()


TREE = """
    import json, os, subprocess, sys, time
    from sitecustomize import _marks, members
    from mcp_products.platforms.job_objects import _kernel32
    from mcp_products.platforms.windows import JobTree

    grandchild = "print(1, flush=True); import time; time.sleep(60)"
    child = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {grandchild!r}]); {sys.argv[1]}"
    command = (sys.executable, "-c", child)
    tree = JobTree(command, dict(os.environ), None)
    tree.child.stdout.readline()
    before = len(members(_marks[tree.child.pid]))
    open_handles = len(_kernel32().processes)
    getattr(tree, sys.argv[2])()
    deadline = time.monotonic() + 20
    while members(_marks[tree.child.pid]) and time.monotonic() < deadline:
        time.sleep(0.01)
        tree.child.poll()
    left = members(_marks[tree.child.pid])
    print(json.dumps({"before": before, "left": left, "code": tree.child.wait(), "flags": tree.child._flags,
        "open handles of processes": open_handles}))
"""
NEW_GROUP, NO_WINDOW = 0x200, 0x08000000


@pytest.mark.parametrize(
    ("method", "variables", "code"),
    long_after(
        1,
        [
            ("terminate", {}, -12),  # SIGUSR2 stands for Ctrl-Break.
            ("kill", {}, -9),
            ("kill", {"EMULATED_NO_JOBS": "1"}, -9),
            ("terminate", {"EMULATED_CONSOLE": "0"}, -9),
            ("release", {}, -9),
        ],
    ),
)
def test_a_tree_ends_as_a_whole(method: str, variables: dict[str, str], code: int) -> None:
    seen = emulated.run(TREE, "time.sleep(60)", method, **variables)
    window = NO_WINDOW if variables.get("EMULATED_CONSOLE") == "0" else 0
    expected = {"before": 2, "left": [], "code": code, "flags": NEW_GROUP | window}
    assert seen == {**expected, "open handles of processes": 0}


def test_what_outlives_the_child_ends_with_the_job() -> None:
    seen = emulated.run(TREE, "sys.exit(5)", "kill")
    assert seen["left"] == [] and seen["code"] in (5, -9)


TOKENS = """
    import asyncio, json, os, subprocess, sys
    from mcp_products.auth.client.storage import FileTokenStorage
    from mcp_products.auth.client.storage import OAuthClientInformation, StoredCredentials
    from mcp_runtime.errors import LocalError

    calls, codes = [], [0, 5]
    def run(command, **settings):
        calls.append([os.path.basename(command[0].replace(chr(92), "/")), *command[2:], os.path.getsize(command[1])])
        return subprocess.CompletedProcess(command, codes[len(calls) - 1])
    subprocess.run = run

    CREDENTIALS = StoredCredentials("https://issuer.example", OAuthClientInformation("id"))

    async def main():
        storage = FileTokenStorage(sys.argv[1])
        await storage.save("https://one.example", CREDENTIALS)
        loaded = await storage.load("https://one.example")
        try:
            await storage.save("https://two.example", CREDENTIALS)
        except LocalError as error:
            return {"calls": calls, "loaded": loaded is not None, "error": str(error), "files": os.listdir(".")}

    os.chdir(os.path.dirname(sys.argv[1]))
    print(json.dumps(asyncio.run(main())))
"""


def test_token_files_are_the_owner_s_before_anything_is_in_them(tmp_path: Path) -> None:
    seen: dict[str, Any] = emulated.run(TOKENS, str(tmp_path / "tokens.json"), EMULATED_IMPORTS="filelock")
    command = ["icacls.exe", "/inheritance:r", "/grant:r", "*S-1-3-4:F", 0]
    assert seen["calls"] == [command, command]
    assert seen["loaded"] is True
    assert "use KeyringTokenStorage instead" in seen["error"] and len(seen["error"].splitlines()) == 1
    assert [name for name in seen["files"] if not name.endswith("lock")] == ["tokens.json"]


DATABASES = """
    import asyncio, json, os, subprocess, sys
    from contextlib import closing
    from mcp_products.auth.authorization_server.storage import SQLiteStorage
    from mcp_runtime.errors import LocalError
    from mcp_products.workers.stores.sqlite import SQLiteStore

    folder, code = sys.argv[1], [0]
    calls = []
    def run(command, **settings):
        calls.append([os.path.basename(command[0].replace(chr(92), "/")), os.path.basename(command[1]), *command[2:]])
        return subprocess.CompletedProcess(command, code[0])
    subprocess.run = run

    async def store(name):
        store = SQLiteStore(os.path.join(folder, name))
        await store.put("key", b"value", 60.0)
        await store.close()

    with closing(SQLiteStorage(os.path.join(folder, "grants.db"))):
        grants = calls.copy()
    calls.clear()
    asyncio.run(store("store.db"))
    shared = calls.copy()
    code[0] = 5
    try:
        asyncio.run(store("refused.db"))
    except LocalError as error:
        print(json.dumps([grants, shared, str(error), sorted(os.listdir(folder))]))
"""


def test_databases_with_secrets_are_the_owner_s_with_the_files_beside_them(tmp_path: Path) -> None:
    grants, shared, error, files = emulated.run(DATABASES, str(tmp_path))
    options = ["/inheritance:r", "/grant:r", "*S-1-3-4:F"]
    for calls, name, more in ((grants, "grants.db", []), (shared, "store.db", ["-changes"])):
        restricted = [list(call) for call in dict.fromkeys(map(tuple, calls))]  # Each connection sees to its own.
        assert restricted == [["icacls.exe", name + end, *options] for end in ("", "-wal", "-shm", *more)]
    assert error.endswith(
        "icacls cannot prevent other users from reading it; choose a path on an NTFS disk of this machine"
    )
    assert files == ["grants.db", "store.db", "store.db-changes"]


STARTED = """
    import json, os, subprocess, sys
    from mcp_codegen.errors import CodegenError
    from mcp_codegen.testkit import processes

    words = []
    processes.subprocess.Popen = lambda command, **settings: words.append(command)
    processes.shutil.which = lambda name, path: os.path.join(path, f"{name}.cmd") if name == "npx" else None
    for command in (["npx", "-y", "a server"], ["npx.exe", "a&b"], ["npx", "http://h/?a=1&b=%PATH%"]):
        try:
            processes.start_group(command, env={"PATH": sys.argv[1]})
        except CodegenError as error:
            words.append(str(error))
    print(json.dumps(words))
"""


def test_the_generator_starts_batch_files_and_gives_them_nothing_that_cmd_obeys(tmp_path: Path) -> None:
    started, other, refused = emulated.run(STARTED, str(tmp_path))
    assert started == [f"{tmp_path}/npx.cmd", "-y", "a server"] and other == ["npx.exe", "a&b"]
    assert "npx is a batch file, which cannot take '%' '&'; start its program directly" in refused


def test_elsewhere_no_program_changes_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mcp_products.platforms.private_files import restrict_to_owner

    def refuse(*arguments: Any, **settings: Any) -> Any:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    file = tmp_path / "file"
    file.touch(mode=0o600)
    restrict_to_owner(str(file))
    assert file.stat().st_mode & 0o777 == 0o600
