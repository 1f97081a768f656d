"""The files of examples/deployment/ agree with the server that they start, and with each other."""

from __future__ import annotations

import ipaddress
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.deployment.deployment_files import (
    COMPOSE,
    FOLDER,
    GRACE,
    NGINX,
    PASSWORD,
    SERVERS,
    SYSTEMD,
    container,
    container_environment,
    dockerfile,
    environments,
    expanded,
    image_command,
    manifest,
    manifests,
    unit,
)
from support.project import ROOT
from uvicorn import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mcp_generated import App

SERVER = FOLDER / "server.py"
STARTERS = ("systemd", "compose", "kubernetes")


def settings_of(starter: str, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The keywords with which the server runs, where it is started by one of the files."""
    seen: dict[str, Any] = {}
    patch.setattr(App, "run", lambda self, transport, **keywords: seen.update(keywords, transport=transport))
    for name, value in environments()[starter].items():
        patch.setenv(name, value)
    runpy.run_path(str(SERVER), run_name="__main__")
    return seen


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


# ---- the server and what starts it ---------------------------------------------------------------------------------


def test_only_variables_that_the_server_reads_are_set_and_its_page_lists_them() -> None:
    read = set(re.findall(r'\b(?:text|number)\("(\w+)"', SERVER.read_text()))
    assert len(read) == 6
    for starter, environment in environments().items():
        assert {name for name in environment if name.startswith("MCP_")} <= read, starter
    assert set(re.findall(r"^\| `(MCP_\w+)` \|", (FOLDER / "README.md").read_text(), re.M)) == read


@pytest.mark.parametrize("starter", STARTERS)
def test_the_server_reads_the_addresses_of_clients_from_its_proxy_and_from_nobody_else(
    starter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", environments()[starter]["FORWARDED_ALLOW_IPS"])
    application: Any = ProxyHeadersMiddleware(
        App("x").asgi(), trusted_hosts=Config(App("x").asgi()).forwarded_allow_ips
    )
    proxy = {"systemd": "127.0.0.1", "compose": "172.30.77.2", "kubernetes": "10.42.0.7"}[starter]
    assert proxy in application.trusted_hosts and "198.51.100.7" not in application.trusted_hosts


@pytest.mark.parametrize("file", [FOLDER / "nginx.conf", ROOT / "docs" / "deployment" / "nginx.conf"])
def test_nginx_replaces_the_address_that_a_client_says_it_has(file: Path) -> None:
    assert re.findall(r"proxy_set_header X-Forwarded-For (.*);", file.read_text(encoding="utf-8")) == ["$remote_addr"]


@pytest.mark.parametrize("starter", STARTERS)
def test_the_server_gets_the_address_and_the_store_that_a_file_declares(
    starter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(starter, monkeypatch)
    stores = {
        "systemd": "sqlite:////var/lib/mcp/store.db",
        "compose": "redis://redis:6379/0",
        "kubernetes": f"redis://:{PASSWORD}@shop-redis:6379/0",
    }
    assert settings["transport"] == "http" and settings["port"] == 8000
    assert settings["host"] == ("127.0.0.1" if starter == "systemd" else "0.0.0.0")
    assert settings["store"] == stores[starter] and settings["workers"] == (4 if starter == "systemd" else 1)
    assert settings["hosts"] == ["localhost" if starter == "compose" else "mcp.example.com"]


def test_probes_get_the_paths_and_the_port_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("kubernetes", monkeypatch)
    probed, server = container("Deployment", "shop"), settings["port"]
    (port,) = probed["ports"]
    assert port["containerPort"] == server == int(dockerfile("EXPOSE"))
    for name, path in (("startup", "health_path"), ("liveness", "health_path"), ("readiness", "ready_path")):
        assert probed[f"{name}Probe"]["httpGet"] == {"path": settings[path], "port": port["name"]}
    assert f"http://127.0.0.1:{server}{settings['ready_path']}" in dockerfile("HEALTHCHECK")
    for name in SERVERS:
        assert COMPOSE["services"][name]["expose"] == [str(server)]


def test_what_starts_a_server_waits_until_it_has_ended() -> None:
    pod = manifest("Deployment", "shop")["spec"]["template"]["spec"]
    _, pause = container("Deployment", "shop")["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] >= int(pause) + GRACE
    assert all(seconds(COMPOSE["services"][name]["stop_grace_period"]) >= GRACE for name in SERVERS)
    (timeout,) = unit("TimeoutStopSec")
    assert int(timeout) >= GRACE + 1  # The first process ends after its workers.


def test_the_image_has_the_files_and_packages_that_the_server_needs() -> None:
    copied = re.findall(r"^COPY (\S+) \.$", (FOLDER / "Dockerfile").read_text(), re.M)
    assert set(copied) == {"requirements.txt", image_command()[1]} and image_command()[0] == "python"
    sent = {line[1:] for line in (FOLDER / ".dockerignore").read_text().split() if line.startswith("!")}
    assert sent == set(copied) and all((FOLDER / name).is_file() for name in copied)
    (ours,) = re.findall(r"^mcp-generated\[(.*)\]", (FOLDER / "requirements.txt").read_text(), re.M)
    extras = re.findall(r"^(\w+) = ", (ROOT / "pyproject.toml").read_text().split("optional-dependencies]")[1], re.M)
    assert {"http", "redis"} <= set(ours.split(",")) <= set(extras)
    (user,) = re.findall(r"--uid (\d+)", dockerfile("RUN useradd"))
    pod = manifest("Deployment", "shop")["spec"]["template"]["spec"]
    assert int(user) == int(dockerfile("USER")) == pod["securityContext"]["runAsUser"]


# ---- compose and nginx ---------------------------------------------------------------------------------------------


def test_nginx_distributes_to_the_servers_of_compose_at_lasting_addresses() -> None:
    assert re.findall(r"^\s*server (\w+):8000 max_fails=0;$", NGINX, re.M) == SERVERS and len(SERVERS) == 3
    (subnet,) = [item["subnet"] for item in COMPOSE["networks"]["default"]["ipam"]["config"]]
    addresses = {COMPOSE["services"][name]["networks"]["default"]["ipv4_address"] for name in SERVERS}
    assert len(addresses) == 3
    assert all(ipaddress.ip_address(text) in ipaddress.ip_network(subnet) for text in addresses)
    nginx = COMPOSE["services"]["nginx"]
    assert set(nginx["depends_on"]) == set(SERVERS) and "./nginx.conf:/etc/nginx/nginx.conf:ro" in nginx["volumes"]
    (port,) = nginx["ports"]
    assert f"listen {port.split(':')[1]};" in NGINX
    (names,) = re.findall(r"server_name (.*);", NGINX)
    assert environments()["compose"]["MCP_HOSTS"] == names


def test_a_redis_stores_what_it_has_on_a_disk_and_evicts_nothing() -> None:
    pod = container("StatefulSet", "shop-redis")
    for words in (COMPOSE["services"]["redis"]["command"], [*pod["command"], *pod["args"]]):
        options = dict(zip(words[1::2], words[2::2], strict=True))
        assert words[0] == "redis-server"
        assert options["--appendonly"] == "yes" and options["--maxmemory-policy"] == "noeviction"
    assert COMPOSE["services"]["redis"]["volumes"] == ["redis:/data"] and "redis" in COMPOSE["volumes"]
    assert [mount["mountPath"] for mount in pod["volumeMounts"]] == [pod["workingDir"]]


# ---- Kubernetes ----------------------------------------------------------------------------------------------------


def test_objects_of_kubernetes_select_each_other() -> None:
    for kind, name in (("Deployment", "shop"), ("StatefulSet", "shop-redis")):
        spec, service = manifest(kind, name)["spec"], manifest("Service", name)["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels == service["selector"]
        (port,) = service["ports"]
        assert port["targetPort"] in [item["name"] for item in container(kind, name)["ports"]]
    shop = manifest("Deployment", "shop")["spec"]["selector"]["matchLabels"]
    assert manifest("PodDisruptionBudget", "shop")["spec"]["selector"]["matchLabels"] == shop
    scaled = manifest("HorizontalPodAutoscaler", "shop")["spec"]
    assert scaled["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    assert "replicas" not in manifest("Deployment", "shop")["spec"] and scaled["minReplicas"] > 1
    policy = manifest("NetworkPolicy", "shop-redis")["spec"]
    assert policy["ingress"][0]["from"] == [{"podSelector": {"matchLabels": shop}}]
    assert "cpu" in container("Deployment", "shop")["resources"]["requests"]  # Of which the autoscaler counts shares.


def test_an_ingress_passes_the_endpoint_under_the_name_that_servers_accept() -> None:
    (rule,) = manifest("Ingress", "shop")["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    service = path["backend"]["service"]
    assert path["path"] == "/mcp" and rule["host"] == container_environment("Deployment", "shop")["MCP_HOSTS"]
    ports = manifest("Service", service["name"])["spec"]["ports"]
    assert service["port"]["name"] in [port["name"] for port in ports]
    (tls,) = manifest("Ingress", "shop")["spec"]["tls"]
    assert tls["hosts"] == [rule["host"]]


def test_servers_and_redis_have_the_same_password() -> None:
    words = container("StatefulSet", "shop-redis")["args"]
    secret = container_environment("StatefulSet", "shop-redis")
    assert expanded(words[words.index("--requirepass") + 1], secret) == PASSWORD
    host = manifest("Service", "shop-redis")["metadata"]["name"]
    (port,) = manifest("Service", "shop-redis")["spec"]["ports"]
    assert container_environment("Deployment", "shop")["MCP_STORE"] == f"redis://:{PASSWORD}@{host}:{port['port']}/0"


def test_the_page_names_every_file() -> None:
    page = (FOLDER / "README.md").read_text()
    names = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"README.md", "__main__.py", ".dockerignore"}
    assert {name for name in names if f"]({name})" not in page} == set()
    assert {name for name, _ in manifests() if f"](kubernetes/{name})" not in page} == set()


# ---- systemd -------------------------------------------------------------------------------------------------------


def test_systemd_accepts_the_unit_and_its_sandbox(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here (apt-get install systemd)")
    (command,) = unit("ExecStart")
    copy = tmp_path / "mcp.service"
    copy.write_text(SYSTEMD.replace(command, "/bin/true"))  # It has to be there.
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert done.returncode == 0 and "mcp.service" not in done.stderr, done.stderr
    # At most 2.0 of 10 for what the service could do to the machine.
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(copy)]
    done = subprocess.run(words, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze checks no sandbox of a file")
    assert done.returncode == 0, done.stdout[-2000:]


def test_files_are_read_as_yaml_without_repeated_keys() -> None:
    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            assert len(names) == len(set(names)), (node.start_mark, names)
            return super().construct_mapping(node, deep)

    count = 0
    for path in (FOLDER / "compose.yaml", *sorted((FOLDER / "kubernetes").glob("*.yaml"))):
        count += len(list(yaml.load_all(path.read_text(), Strict)))
    assert count == 1 + len(list(manifests()))
