"""Case B-37 and hygiene: what the compose files say, after docker compose has read them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from router.config.units import parse_duration
from tests.deploy.container import duration, grace
from tests.deploy.tools import (
    DEMO,
    DEPLOY,
    PAIR,
    ROOT,
    SINGLE,
    TWO_HOSTS,
    compose,
    env_blocks,
    files_of,
    tool,
)

ENGINES = {"speculative", "baseline"}
FILES = sorted({*SINGLE, *TWO_HOSTS, *DEMO})


@pytest.mark.parametrize("block", env_blocks(), ids=["pair", "single"])
def test_worked_block_is_accepted(block: dict[str, str]) -> None:
    done = compose(files_of(block), block, "config", "-q")
    assert (done.returncode, done.stderr) == (0, "")


def test_demo_needs_no_variable() -> None:
    done = compose(DEMO, {}, "config", "-q")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "name",
    [
        "SPEC_ROUTER_ADMIN_TOKEN",
        "GRAFANA_ADMIN_PASSWORD",
        "SPEC_ROUTER_MODELS",
        "SPEC_ROUTER_MODEL",
        "SPEC_ROUTER_TP",
    ],
)
def test_missing_variable_is_told(name: str) -> None:
    done = compose(PAIR, {**env_blocks()[0], name: ""}, "config", "-q")
    assert done.returncode != 0
    assert name in done.stderr
    assert ".env.example" in done.stderr


@pytest.mark.parametrize("file", FILES)
def test_file_follows_the_compose_schema(file: str) -> None:
    subprocess.run(
        [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", file], cwd=ROOT, check=True
    )


def test_every_variable_is_explained(stacks: dict[str, Any]) -> None:
    used = {
        name
        for file in FILES
        for name in re.findall(r"\$\{([A-Z_]+)", (ROOT / file).read_text())
        if name not in {"SPECULATIVE_ADDRESS", "BASELINE_ADDRESS", "SPEC_ROUTER_ENGINE_KEY"}
    }
    told = (ROOT / ".env.example").read_text() + (DEPLOY / "README.md").read_text()
    assert [name for name in sorted(used) if name not in told] == []
    page = (DEPLOY / "two-hosts.md").read_text()
    assert all(name in page for name in ("SPECULATIVE_ADDRESS", "BASELINE_ADDRESS", "SPEC_ROUTER_ENGINE_KEY"))


def test_both_engines_get_the_same_gpus(stacks: dict[str, Any]) -> None:
    services = stacks["pair"]["services"]
    reserved = [services[name]["deploy"]["resources"]["reservations"]["devices"] for name in sorted(ENGINES)]
    assert reserved[0] == reserved[1]
    # As written: where a count is missing, this compose fills one in, and others give no GPU.
    written = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for engine in ENGINES:
        (device,) = written[engine]["deploy"]["resources"]["reservations"]["devices"]
        assert device["driver"] == "nvidia"
        assert device["capabilities"] == ["gpu"]
        assert ("count" in device) != ("device_ids" in device)


def test_the_demo_reserves_no_gpu(stacks: dict[str, Any]) -> None:
    assert all("deploy" not in service for service in stacks["demo"]["services"].values())


def test_engines_have_shared_memory_and_time_to_load(stacks: dict[str, Any]) -> None:
    for name in ("pair", "single"):
        services = stacks[name]["services"]
        for engine in ENGINES & services.keys():
            assert int(services[engine]["shm_size"]) >= 8 << 30 or services[engine].get("ipc") == "host"
            assert 20 * 60 <= duration(services[engine]["healthcheck"]["start_period"]) <= 60 * 60
            assert re.fullmatch(r"on-failure:\d", services[engine]["restart"]), (
                "exit 3 must not loop for ever"
            )
            assert services[engine]["environment"]["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


def test_the_second_engine_waits_for_the_first_and_the_router_for_none(stacks: dict[str, Any]) -> None:
    services = stacks["pair"]["services"]
    assert services["baseline"]["depends_on"]["speculative"]["condition"] == "service_healthy"
    assert "depends_on" not in services["speculative"]
    for name in ("pair", "single", "two hosts"):
        assert "depends_on" not in stacks[name]["services"]["router"]


def test_one_engine_alone_has_no_trace_of_the_other(stacks: dict[str, Any]) -> None:
    services = stacks["single"]["services"]
    assert "baseline" not in services
    targets = (DEPLOY / "prometheus/single.yml").read_text()
    assert "--config.file=/etc/prometheus/single.yml" in services["prometheus"]["command"]
    assert "targets: [baseline" not in targets


def test_prometheus_files_differ_by_the_baseline_only() -> None:
    pair, single = (
        yaml.safe_load((DEPLOY / f"prometheus/{name}.yml").read_text()) for name in ("prometheus", "single")
    )
    pair["scrape_configs"][1]["static_configs"].pop()
    assert pair == single


def test_grace_periods_are_longer_than_drains(stacks: dict[str, Any]) -> None:
    for stack, config in (
        ("pair", "router"),
        ("single", "single"),
        ("two hosts", "separate"),
        ("demo", "demo"),
    ):
        drain = yaml.safe_load((DEPLOY / f"config/{config}.yaml").read_text())["server"]["drain_timeout"]
        assert grace(stacks[stack]["services"]["router"]) >= parse_duration(drain) + 5
    for engine, config in (("speculative", "router"), ("baseline", "router"), ("speculative", "single")):
        stop = yaml.safe_load((DEPLOY / f"config/{config}.yaml").read_text())["launch"]["start"]["stop"]
        assert parse_duration(stop) > 300
        assert grace(stacks["pair"]["services"][engine]) > parse_duration(stop) + 10


def test_published_ports_are_loopback_unless_the_docs_say_otherwise(stack: dict[str, Any]) -> None:
    page = (DEPLOY / "two-hosts.md").read_text()
    for name, service in stack["services"].items():
        for port in service.get("ports", []):
            if port["host_ip"] != "127.0.0.1":
                assert name in ENGINES
                assert str(port["target"]) in page
            assert port["target"] != 29000, "the admin port stays inside"


def test_engine_ports_are_published_for_two_hosts_only(stacks: dict[str, Any]) -> None:
    for name in ("pair", "single"):
        for engine in ENGINES & stacks[name]["services"].keys():
            assert "ports" not in stacks[name]["services"][engine]


def test_every_mounted_file_is_in_the_repository(stack: dict[str, Any]) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    there = {str(ROOT / file) for file in tracked.stdout.splitlines()}
    for service in stack["services"].values():
        for mount in service.get("volumes", []):
            source = mount["source"]
            if mount["type"] == "volume":
                assert source in stack["volumes"]
                continue
            assert mount["read_only"]
            if mount["target"] != "/models":
                assert any(file.startswith(f"{source}/") for file in there), f"{source} is not committed"


def test_named_configurations_and_pages_exist(stack: dict[str, Any]) -> None:
    for service in stack["services"].values():
        mounts = {mount["target"]: mount["source"] for mount in service.get("volumes", [])}
        for word in [*(service.get("entrypoint") or []), *(service.get("command") or [])]:
            path = word.rpartition("=")[2]
            for target, source in mounts.items():
                if path.startswith(f"{target}/"):
                    assert (Path(source) / path.removeprefix(f"{target}/")).exists(), word


def test_images_are_pinned(stack: dict[str, Any]) -> None:
    for service in stack["services"].values():
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), service["image"]
    assert {service["image"] for service in stack["services"].values()} & {"prom/prometheus:v3.5.0"}


def test_services_that_take_strangers_bytes_have_few_rights(stack: dict[str, Any]) -> None:
    router = stack["services"]["router"]
    assert router["init"]
    assert router["read_only"]
    assert router["cap_drop"] == ["ALL"]
    assert all("no-new-privileges:true" in service["security_opt"] for service in stack["services"].values())


def test_grafana_is_closed_and_its_sources_are_known(stack: dict[str, Any]) -> None:
    grafana = stack["services"]["grafana"]
    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
    mounts = {
        mount["target"]: Path(mount["source"]) for mount in grafana["volumes"] if mount["type"] == "bind"
    }
    provisioning = mounts["/etc/grafana/provisioning"]
    sources = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    providers = yaml.safe_load((provisioning / "dashboards/spec-router.yml").read_text())["providers"]
    for provider in providers:
        boards = mounts[provider["options"]["path"]]
        for file in boards.glob("*.json"):
            board = json.loads(file.read_text())
            used = set(re.findall(r'"datasource": \{[^}]*"uid": "([^"]+)"', file.read_text()))
            assert used
            assert used <= {source["uid"] for source in sources}
            assert board["uid"]
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].startswith(
        tuple(provider["options"]["path"] for provider in providers)
    )
    assert sources[0]["url"] == "http://prometheus:9090"
    assert set(grafana["networks"]) & set(stack["services"]["prometheus"]["networks"])


def test_prometheus_and_router_share_a_network_with_the_scraped_names(stacks: dict[str, Any]) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    hosts = {
        target.partition(":")[0]
        for job in config["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    }
    for name in ("pair", "demo"):
        services = stacks[name]["services"]
        reached = set()
        for service, body in services.items():
            if set(body["networks"]) & set(services["prometheus"]["networks"]):
                reached |= {service}
                for network in body["networks"].values():
                    reached |= set((network or {}).get("aliases", []))
        assert hosts <= reached
