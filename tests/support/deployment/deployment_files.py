"""What the files of examples/deployment/ declare: environments, commands, addresses and objects of Kubernetes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import yaml
from support.project import ROOT

from mcp_products.hosting import run

FOLDER = ROOT / "examples" / "deployment"
CLUSTER = FOLDER / "kubernetes"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
NGINX = (FOLDER / "nginx.conf").read_text()
SYSTEMD = (FOLDER / "mcp.service").read_text()
SERVERS = [name for name, service in COMPOSE["services"].items() if "build" in service]
GRACE = run._WORKER_DRAIN_SECONDS + 2 * run._EXIT_SECONDS  # Seconds at which a server has ended after SIGTERM.
PASSWORD = "change-this"  # That of the Secret; whoever uses the files changes it.


def dockerfile(instruction: str) -> str:
    """The words of an instruction of the Dockerfile that stands there once."""
    lines = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    (words,) = [line.removeprefix(instruction).strip() for line in lines if line.startswith(f"{instruction} ")]
    return words


def image_environment() -> dict[str, str]:
    """What the image sets."""
    return dict(word.split("=", 1) for word in shlex.split(dockerfile("ENV")))


def image_command() -> list[str]:
    """What a container of the image runs."""
    return list(json.loads(dockerfile("CMD")))


def unit(key: str) -> list[str]:
    """The values of a key of the unit of systemd."""
    return re.findall(rf"^{key}=(.*)$", SYSTEMD, re.M)


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of Kubernetes, with the names of their files."""
    for path in sorted(CLUSTER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def manifest(kind: str, name: str) -> dict[str, Any]:
    """An object of Kubernetes by its kind and name."""
    (only,) = [item for _, item in manifests() if item["kind"] == kind and item["metadata"]["name"] == name]
    return only


def container(kind: str, name: str) -> dict[str, Any]:
    """The only container of the pods of an object."""
    (only,) = manifest(kind, name)["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = only
    return result


def container_environment(kind: str, name: str) -> dict[str, str]:
    """What a container of Kubernetes sets, with the password of the Secret, as kubelet expands it."""
    values: dict[str, str] = {}
    for item in container(kind, name)["env"]:
        if "value" in item:
            values[item["name"]] = expanded(item["value"], values)
            continue
        reference = item["valueFrom"]["secretKeyRef"]
        values[item["name"]] = manifest("Secret", reference["name"])["stringData"][reference["key"]]
    return values


def expanded(text: str, values: dict[str, str]) -> str:
    """A text in which $(NAME) is the value of a variable that stands before it."""
    return re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], text)


def environments() -> dict[str, dict[str, str]]:
    """The environment of the server, by the way in which it is started."""
    image = image_environment()
    servers = [COMPOSE["services"][name]["environment"] for name in SERVERS]
    assert all(server == servers[0] for server in servers)
    return {
        "systemd": dict(word.split("=", 1) for word in unit("Environment")),
        "compose": image | servers[0],
        "kubernetes": image | container_environment("Deployment", "shop"),
    }
