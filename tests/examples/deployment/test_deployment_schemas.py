"""The files of examples/deployment/ against the JSON Schemas that Compose and Kubernetes publish."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.deployment.deployment_files import CLUSTER, FOLDER, manifests
from support.peers import python_peer

CHECKERS = "check-jsonschema==0.39.0 kubernetes-validate==1.37.0"
COMPOSE = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
KUBERNETES = ["kubernetes-validate", "--strict"]
pytestmark = pytest.mark.long


def checked(command: list[str], *paths: Path) -> subprocess.CompletedProcess[str]:
    program = python_peer(CHECKERS).with_name(command[0])
    words = [str(program), *command[1:], *map(str, paths)]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_schemas_of_compose_and_kubernetes_accept_the_files() -> None:
    done = checked(COMPOSE, FOLDER / "compose.yaml")
    assert done.returncode == 0, done.stdout
    gateway = [path for path in (FOLDER / "gateway" / "base").glob("*.yaml") if path.stem != "kustomization"]
    done = checked(KUBERNETES, *gateway)
    assert done.returncode == 0 and done.stdout.count(" passed for resource ") == len(gateway) == 4, done.stdout
    done = checked(KUBERNETES, *sorted(CLUSTER.glob("*.yaml")))
    assert done.returncode == 0 and done.stdout.count(" passed for resource ") == len(list(manifests())), done.stdout


@pytest.mark.parametrize(
    ("path", "right", "wrong", "command"),
    [
        (FOLDER / "compose.yaml", "restart: unless-stopped", "restart: [always]", COMPOSE),
        (CLUSTER / "app.yaml", "containerPort: 8000", "containerport: 8000", KUBERNETES),
    ],
)
def test_the_schemas_refuse_a_file_that_is_wrong(
    path: Path, right: str, wrong: str, command: list[str], tmp_path: Path
) -> None:
    changed = tmp_path / path.name
    changed.write_text(path.read_text(encoding="utf-8").replace(right, wrong))
    assert checked(command, changed).returncode == 1
