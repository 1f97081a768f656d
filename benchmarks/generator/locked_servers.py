"""What `mcp-codegen check` reports between versions of six real servers, and how much of it is noise; writes
benchmarks/results/locks.md. It installs the servers from PyPI and npm into a folder.

A breaking change of a tool is noise if jsonschema finds no value that one of its schemas accepts and the other refuses.
A change for review is noise if it has the same text before and after, or says only that a schema changed and there is
no such value.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from jsonschema import Draft202012Validator
from measures.machine import measured
from measures.rounds import TABLE, write_results
from support.schemas.narrowings import SchemaWriter

from mcp_codegen.errors import CodegenError
from mcp_codegen.servers.compare import compare
from mcp_codegen.servers.contract import Contract, ContractChange
from mcp_codegen.servers.probe import ServerTarget, probe

RESULTS: Final = TABLE.with_name("locks.md")
NPM: Final = {
    "everything": ("2025.8.18", "2026.1.26", "2026.8.31"),
    "filesystem": ("2026.1.14", "2026.8.31"),
    "memory": ("2025.9.25", "2026.1.26", "2026.8.31"),
    "sequential-thinking": ("2025.7.1", "2025.12.18", "2026.8.31"),
}
PYPI: Final = {"git": ("2025.7.1", "2026.1.14", "2026.10.19"), "time": ("2025.8.4", "2026.1.26", "2026.10.19")}
ARGUMENTS: Final = {"filesystem": ["/tmp"], "everything": ["stdio"]}
VALUES: Final = 3000  # Values that are tried for a schema.


@dataclass(frozen=True, slots=True)
class Row:
    """The changes between two versions of a server."""

    server: str
    older: str
    newer: str
    changes: list[ContractChange]
    noise: list[ContractChange]


def installed(name: str, version: str, folder: Path) -> list[str]:
    """Return the command of a version of a server, which is installed if it is not there."""
    home = folder / f"{name}@{version}"
    arguments = ARGUMENTS.get(name, [])
    if name in PYPI:
        program = home / "bin" / f"mcp-server-{name}"
        if not program.exists():
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            packages = [f"mcp-server-{name}=={version}", *(["mcp<2"] if version < "2026.6" else [])]
            subprocess.run([home / "bin" / "pip", "install", "-q", *packages], check=True)
        return [str(program), *arguments]
    package = f"@modelcontextprotocol/server-{name}"
    if not (home / "node_modules").exists():
        home.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--silent", f"{package}@{version}"]
        subprocess.run(install, cwd=home, check=True)
    return ["node", str(home / "node_modules" / package / "dist" / "index.js"), *arguments]


def queried(server: str, versions: tuple[str, ...], folder: Path) -> dict[str, Contract]:
    """Return the contracts of a server, by version; those that cannot be queried are named."""
    contracts: dict[str, Contract] = {}
    for version in versions:
        try:
            contracts[version] = probe(ServerTarget(tuple(installed(server, version, folder))))
        except CodegenError as error:
            print(f"{server} {version} is left out: {error}", file=sys.stderr)
    return contracts


def row(server: str, versions: tuple[str, str], contracts: dict[str, Contract]) -> Row:
    """Compare two versions of a server."""
    older, newer = (contracts[version] for version in versions)
    changes = [change for change in compare(older, newer) if change.severity != "compatible"]
    return Row(server, *versions, changes, [change for change in changes if is_noise(change, older, newer)])


def is_noise(change: ContractChange, older: Contract, newer: Contract) -> bool:
    """Return True for a change that says what is not so."""
    kind, _, rest = change.where.partition("/")
    name, _, place = rest.partition("/")
    if kind != "tools" or not place or not (change.severity == "breaking" or change.rule == "schema-changed"):
        return False
    key = "inputSchema" if place.startswith("input") else "outputSchema"
    before, after = (side.tools[name].get(key) for side in (older, newer))
    if before is None or after is None:
        return False
    accepting, refusing = (before, after) if key == "inputSchema" else (after, before)
    return not has_witness(accepting, refusing)


def has_witness(accepting: Any, refusing: Any) -> bool:
    """Return True if a value is valid by the one schema and not by the other."""
    writer = SchemaWriter(20261123)
    accepts, refuses = Draft202012Validator(accepting), Draft202012Validator(refusing)
    values = (writer.instance(accepting, accepting) for _ in range(VALUES))
    return any(not refuses.is_valid(value) and accepts.is_valid(value) for value in values)


def text(rows: list[Row]) -> str:
    """Return the page of results."""
    total, noise = (sum(len(getattr(entry, name)) for entry in rows) for name in ("changes", "noise"))
    lines = ["# What `check` reports between versions of real servers", "", measured(), ""]
    lines += [
        "Changes that are breaking or for review. One is noise if it says that values are refused, and jsonschema",
        f"finds none among {VALUES:,} values of the schema.",
        "",
        "| server | from | to | breaking | for review | noise |",
        "|---|---|---|---:|---:|---:|",
    ]
    for entry in rows:
        counts = [sum(change.severity == severity for change in entry.changes) for severity in ("breaking", "review")]
        lines.append(
            f"| {entry.server} | {entry.older} | {entry.newer} | {counts[0]} | {counts[1]} | {len(entry.noise)} |"
        )
    share = 100 * noise / max(1, total)
    lines += ["", f"Noise: {noise} of {total} ({share:.1f} %); the aim is at most 5 %."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the servers are installed; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        contracts_of = {name: queried(name, versions, folder) for name, versions in {**NPM, **PYPI}.items()}
    rows = [row(name, both, contracts) for name, contracts in contracts_of.items() for both in pairwise(contracts)]
    for entry in rows:
        for change in entry.noise:
            print(f"noise: {entry.server} {entry.older} → {entry.newer}: {change.message}", file=sys.stderr)
    print(page := text(rows))
    write_results(RESULTS, page)


if __name__ == "__main__":
    main()
