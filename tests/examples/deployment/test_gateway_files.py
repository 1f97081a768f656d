"""The Kubernetes files of a gateway agree with each other, and with the gateway that they start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from support.deployment.deployment_files import FOLDER, GRACE
from support.feature_cells.bridge.bridge_processes import listening, with_our_packages

from mcp_products.relay.gateway.settings import read_settings
from mcp_products.relay.gateway_check.findings import check_file

GATEWAY = FOLDER / "gateway"
BASE, PRODUCTION = GATEWAY / "base", GATEWAY / "overlays" / "production"
SETTINGS = [BASE / "gateway.toml", PRODUCTION / "gateway.toml"]


def objects(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a folder."""
    for path in sorted(folder.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def named(kind: str, folder: Path = BASE) -> dict[str, Any]:
    """Return the only object of a kind."""
    (only,) = [item for item in objects(folder) if item["kind"] == kind]
    return only


POD = named("Deployment")["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def secrets() -> dict[str, str]:
    """Return the variables that the Secret has."""
    (generator,) = named("Kustomization")["secretGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def test_a_kustomization_names_the_files_beside_it_and_no_others() -> None:
    for folder in (BASE, PRODUCTION):
        kustomization = named("Kustomization", folder)
        named_files = {item for item in kustomization["resources"] if item.endswith(".yaml")}
        named_files |= {patch["path"] for patch in kustomization.get("patches", [])}
        named_files |= {file for generator in kustomization["configMapGenerator"] for file in generator["files"]}
        assert named_files | {"kustomization.yaml"} == {path.name for path in folder.iterdir()}
        assert all((folder / item).exists() for item in kustomization["resources"])
    assert (PRODUCTION / "../../base").resolve() == BASE


def test_the_names_of_the_objects_refer_to_each_other() -> None:
    labels = named("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        named("Deployment")["spec"]["selector"]["matchLabels"],
        named("Service")["spec"]["selector"],
        named("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        POD["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    assert all(selector == labels for selector in selectors)
    scaled = named("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == ("Deployment", named("Deployment")["metadata"]["name"])
    patched = named("HorizontalPodAutoscaler", PRODUCTION)["metadata"]["name"]
    assert patched == named("HorizontalPodAutoscaler")["metadata"]["name"]
    for folder in (BASE, PRODUCTION):
        (generator,) = named("Kustomization", folder)["configMapGenerator"]
        (volume,) = POD["volumes"]
        assert volume["configMap"]["name"] == generator["name"]
    (mount,) = CONTAINER["volumeMounts"]
    assert mount["name"] == volume["name"] and CONTAINER["args"][0] == f"{mount['mountPath']}/{generator['files'][0]}"
    (secret,) = named("Kustomization")["secretGenerator"]
    assert CONTAINER["envFrom"] == [{"secretRef": {"name": secret["name"]}}]
    (image,) = named("Kustomization", PRODUCTION)["images"]
    assert CONTAINER["image"].rpartition(":")[0] == image["name"]
    assert named("Namespace", PRODUCTION)["metadata"]["name"] == named("Kustomization", PRODUCTION)["namespace"]
    (port,) = CONTAINER["ports"]
    assert named("Service")["spec"]["ports"][0]["targetPort"] == port["name"]
    assert CONTAINER["args"][CONTAINER["args"].index("--http") + 1] == f"0.0.0.0:{port['containerPort']}"


def test_a_pod_has_the_time_that_a_gateway_needs_to_end() -> None:
    _, pause = CONTAINER["lifecycle"]["preStop"]["exec"]["command"]
    assert POD["terminationGracePeriodSeconds"] >= int(pause) + GRACE
    dockerfile = (GATEWAY / "Dockerfile").read_text(encoding="utf-8")
    assert f"--uid {POD['securityContext']['runAsUser']} " in dockerfile


@pytest.mark.parametrize("file", SETTINGS, ids=["base", "production"])
def test_the_settings_are_right_and_their_variables_are_those_of_the_secret(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = file.read_text(encoding="utf-8") + " ".join(CONTAINER["args"]).replace("$(", "${")
    assert all(f"${{{name}" in text for name in secrets()), "each is used"
    assert any("which is not set" in line for line in check_file(file))
    for name, value in secrets().items():
        monkeypatch.setenv(name, value)
    assert check_file(file) == []


@pytest.mark.parametrize("file", SETTINGS, ids=["base", "production"])
def test_probes_ask_for_the_paths_of_the_settings(file: Path) -> None:
    settings = read_settings(file)
    extras = "[http,metrics,redis]" if settings.metrics else "[http,redis]"
    assert f"mcp-generated{extras}" in (GATEWAY / "Dockerfile").read_text(encoding="utf-8")
    for probe, path in (("startup", settings.live), ("liveness", settings.live), ("readiness", settings.ready)):
        assert CONTAINER[f"{probe}Probe"]["httpGet"] == {"path": path, "port": CONTAINER["ports"][0]["name"]}


@pytest.mark.long
async def test_the_gateway_that_a_container_starts_answers_its_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in secrets().items():
        monkeypatch.setenv(name, value)
    changes = {
        "/etc/gateway/gateway.toml": str(BASE / "gateway.toml"),
        "0.0.0.0:8000": "127.0.0.1:0",
        "$(STORE)": f"sqlite:///{tmp_path / 'store.db'}",
    }
    (entry,) = [
        line.removeprefix("ENTRYPOINT ")
        for line in (GATEWAY / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("ENTRYPOINT ")
    ]
    program: Any = yaml.safe_load(entry)
    words = [sys.executable, *program[1:], *(changes.get(word, word) for word in CONTAINER["args"])]
    url = listening(with_our_packages(*words))
    async with httpx2.AsyncClient(base_url=url) as web:
        for probe in ("startup", "liveness", "readiness"):
            path = CONTAINER[f"{probe}Probe"]["httpGet"]["path"]
            assert (await web.get(path)).status_code == 200, probe
        assert "mcp_gateway_upstream_up" in (await web.get("/metrics")).text


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, whose Kustomize builds the files, is not there")
@pytest.mark.parametrize("folder", [BASE, PRODUCTION], ids=["base", "production"])
def test_kustomize_builds_the_files(folder: Path) -> None:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=60)
    if done.returncode and "unknown command" in done.stderr:
        pytest.skip("this kubectl has no Kustomize")
    assert done.returncode == 0, done.stderr
    built = {item["kind"]: item for item in yaml.safe_load_all(done.stdout)}
    kinds = {"ConfigMap", "Secret", "Service", "Deployment", "PodDisruptionBudget", "HorizontalPodAutoscaler"}
    assert kinds <= set(built)
    pod = built["Deployment"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["configMap"]["name"] == built["ConfigMap"]["metadata"]["name"] != "gateway"
    assert built["ConfigMap"]["data"]["gateway.toml"] == (folder / "gateway.toml").read_text(encoding="utf-8")
    if folder == PRODUCTION:
        assert pod["containers"][0]["image"].endswith(":2")
        assert built["HorizontalPodAutoscaler"]["spec"]["minReplicas"] == 3
        assert built["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "gateway"
        assert {item["metadata"].get("namespace", "gateway") for item in built.values()} == {"gateway"}
