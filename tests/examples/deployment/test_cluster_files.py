"""The files of examples/deployment/ for an autoscaler by streams and for a Redis Cluster: they name what is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from support.clients import connect
from support.deployment.deployment_files import CLUSTER, FOLDER, PASSWORD, container, expanded, manifest
from support.peers import python_peer
from support.processes import free_port
from support.stores.balancers import lasting_ports, required, wait_until_ready
from support.stores.regions import FILES

from mcp_products.workers.stores.urls import open_store

STREAMS, REDIS = FOLDER / "streams", FOLDER / "cluster" / "redis.yaml"
BUS = 10_000  # Above the port of a node, its bus.
NODES = [f"shop-redis-{number}.shop-redis:6379" for number in range(6)]


def documents(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a file, by kind and name."""
    items = [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def pod_of(item: dict[str, Any]) -> dict[str, Any]:
    (only,) = item["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = only
    return result


# ---- streams --------------------------------------------------------------------------------------------------------


def test_the_autoscaler_by_streams_takes_the_place_of_the_other_and_has_its_metric() -> None:
    scaled = documents(STREAMS / "autoscaler.yaml")["HorizontalPodAutoscaler", "shop"]["spec"]
    other = manifest("HorizontalPodAutoscaler", "shop")["spec"]
    assert scaled["scaleTargetRef"] == other["scaleTargetRef"]
    by_streams, by_cpu = scaled["metrics"]
    assert by_cpu == other["metrics"][0]
    rules = yaml.safe_load(documents(STREAMS / "adapter.yaml")["ConfigMap", "shop-adapter"]["data"]["config.yaml"])
    (rule,) = rules["rules"]
    name = by_streams["pods"]["metric"]["name"]
    assert rule["name"]["as"] == name and rule["seriesQuery"].startswith(f"{name}{{")
    assert set(rule["resources"]["overrides"]) == {"namespace", "pod"}


def test_a_scraper_finds_the_metrics_of_the_server() -> None:
    found = manifest("Deployment", "shop")["spec"]["template"]["metadata"]["annotations"]
    pod = container("Deployment", "shop")
    values = {item["name"]: item.get("value") for item in pod["env"]}
    assert found["prometheus.io/path"] == values["MCP_METRICS"]
    assert int(found["prometheus.io/port"]) == pod["ports"][0]["containerPort"]


@pytest.mark.long
async def test_the_server_counts_its_open_streams_under_the_name_of_the_autoscaler() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="metrics need opentelemetry-sdk")
    port = free_port()
    environment = {**os.environ, "MCP_PORT": str(port), "MCP_METRICS": "/metrics"}
    server = subprocess.Popen([sys.executable, "server.py"], cwd=FOLDER, env=environment)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/readyz")
        async with connect(f"http://127.0.0.1:{port}/mcp", revisions=["2025-11-25"]) as client:
            await client.list_tools()
            async with httpx2.AsyncClient(trust_env=False) as http:
                lines = (await http.get(f"http://127.0.0.1:{port}/metrics")).text.splitlines()
        assert [line for line in lines if line.startswith("mcp_runtime_streams") and not line.endswith(" 0")], lines
    finally:
        server.terminate()
        server.wait(30)


# ---- a Redis Cluster ------------------------------------------------------------------------------------------------


def options_of(pod: dict[str, Any]) -> dict[str, str]:
    words: list[str] = pod["args"]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_objects_of_the_cluster_name_each_other() -> None:
    found = documents(REDIS)
    nodes, service = found["StatefulSet", "shop-redis"]["spec"], found["Service", "shop-redis"]["spec"]
    labels = nodes["template"]["metadata"]["labels"]
    assert nodes["selector"]["matchLabels"] == labels == service["selector"]
    assert nodes["serviceName"] == "shop-redis" and nodes["replicas"] == len(NODES)
    pod, job = pod_of(found["StatefulSet", "shop-redis"]), found["Job", "shop-redis-create"]
    ports = {port["name"]: port["containerPort"] for port in pod["ports"]}
    assert ports == {"redis": 6379, "bus": 16379}  # The bus is 10,000 above.
    assert {port["targetPort"] for port in service["ports"]} == set(ports)
    assert [word for word in pod_of(job)["args"] if word.endswith(":6379")] == NODES
    options = options_of(pod)
    assert options["--appendonly"] == "yes" and options["--maxmemory-policy"] == "noeviction"
    assert options["--requirepass"] == options["--masterauth"] == "$(REDIS_PASSWORD)"
    assert f"{options['--cluster-announce-hostname'].replace('$(POD_NAME)', 'shop-redis-0')}:6379" == NODES[0]
    secrets = [item["valueFrom"]["secretKeyRef"] for item in (pod["env"][1], *pod_of(job)["env"])]
    password = found["Secret", "shop-redis"]["stringData"]
    assert all(secret["name"] == "shop-redis" and secret["key"] in password for secret in secrets)
    budget = found["PodDisruptionBudget", "shop-redis"]["spec"]
    policy = found["NetworkPolicy", "shop-redis"]["spec"]
    assert budget["selector"]["matchLabels"] == policy["podSelector"]["matchLabels"] == labels
    clients, own = policy["ingress"]
    shop = manifest("Deployment", "shop")["spec"]["selector"]["matchLabels"]
    job_labels = job["spec"]["template"]["metadata"]["labels"]
    assert [item["podSelector"]["matchLabels"] for item in clients["from"]] == [shop, job_labels]
    assert own["from"] == [{"podSelector": {"matchLabels": labels}}]


@contextmanager
def nodes(folder: Path) -> Generator[list[int]]:
    """Start the nodes of the file on ports of this machine, and make the cluster as the Job does."""
    found = documents(REDIS)
    ports = lasting_ports(len(NODES), besides=BUS)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, port in enumerate(ports):
            (own := folder / str(number)).mkdir()
            values = {"REDIS_PASSWORD": PASSWORD, "POD_NAME": f"shop-redis-{number}"}
            words = [expanded(word, values) for word in pod_of(found["StatefulSet", "shop-redis"])["args"]]
            # The names of pods lead nowhere here.
            words = [word.replace(f"shop-redis-{number}.shop-redis", "localhost") for word in words]
            more = ["--port", str(port), "--cluster-port", str(port + BUS), "--bind", "127.0.0.1", "--dir", str(own)]
            running.append(subprocess.Popen(["redis-server", *words, *more], stdout=subprocess.DEVNULL))
        job = pod_of(found["Job", "shop-redis-create"])
        places = dict(zip(NODES, [f"127.0.0.1:{port}" for port in ports], strict=True))
        words = [str(word) for word in (*job["command"], *job["args"])]
        command = [places.get(word, word) for word in words]
        environment = {**os.environ, "REDISCLI_AUTH": PASSWORD}
        for _ in range(200):  # As Kubernetes tries it again.
            if subprocess.run(command, env=environment, capture_output=True).returncode == 0:
                break
        else:
            raise AssertionError("the cluster was not made")
        for port in ports:  # A node may not know yet that the others agree.
            info = ["redis-cli", "-p", str(port), "CLUSTER", "INFO"]
            while b"cluster_state:ok" not in subprocess.run(info, env=environment, capture_output=True).stdout:
                time.sleep(0.1)
        yield ports
    finally:
        for process in running:
            process.terminate()
            process.wait(30)


@pytest.mark.long
@pytest.mark.deadline(120)
async def test_a_store_uses_the_cluster_of_the_file(tmp_path: Path) -> None:
    required("redis-server")
    required("redis-cli")
    with nodes(tmp_path) as ports:
        store = open_store("test", f"redis+cluster://:{PASSWORD}@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")
        assert store is not None
        try:
            await store.put("one", b"value", 60)
            assert await store.get("one") == b"value"
        finally:
            await store.close()


@pytest.mark.long
def test_the_schemas_of_kubernetes_accept_the_files() -> None:
    program = python_peer("check-jsonschema==0.39.0 kubernetes-validate==1.37.0").with_name("kubernetes-validate")
    paths = [*sorted(STREAMS.glob("*.yaml")), REDIS, *sorted(CLUSTER.glob("*.yaml"))]
    done = subprocess.run([program, "--strict", *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


# ---- proxies of regions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", FILES)
def test_a_proxy_accepts_the_file_for_regions(program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    file = FOLDER.parents[1] / "docs" / "deployment" / FILES[program]
    command = [program, "-c", "-L", "proxy1", "-f", str(file)]
    if program == "nginx":
        main = tmp_path / "nginx.conf"
        places = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi")
        )
        places += f"scgi_temp_path {tmp_path}/scgi; access_log off;"
        main.write_text(f"pid {tmp_path}/pid; events {{}} http {{ {places} include {file}; }}")
        command = ["nginx", "-t", "-c", str(main), "-e", str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
