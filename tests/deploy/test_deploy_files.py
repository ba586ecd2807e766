"""The files of deploy/: safe defaults of the image, probes, and the proxy's limits; linted where the programs are."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from conventions.sources import REPOSITORY
from maskwright.nn.native import library

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = REPOSITORY / "deploy"
sys.path.insert(0, str(REPOSITORY / "tools"))

from image_steps import first_stage, instructions  # noqa: E402

DOCKERFILE = instructions((DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
UNPRIVILEGED = 10001


def program(name: str) -> str:
    """The path of a program of the environment or the system; skips the test without it."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def last(name: str) -> str:
    return [rest for one, rest in DOCKERFILE if one == name][-1]


def test_the_image_runs_unprivileged_without_a_shell_and_checks_itself():
    assert last("USER") == f"{UNPRIVILEGED}:{UNPRIVILEGED}"
    assert json.loads(last("ENTRYPOINT"))[:2] == ["maskwright", "serve"], "signals must reach the server itself"
    assert json.loads(last("HEALTHCHECK").partition("CMD ")[2])[0] == "python"
    assert not [one for one, _ in DOCKERFILE if one == "ADD"]
    assert all(":" in rest and ":latest" not in rest for one, rest in DOCKERFILE if one == "FROM")


def test_every_package_of_the_image_is_verified_and_every_copied_file_exists():
    installed = [rest for one, rest in first_stage(DOCKERFILE) if one == "RUN" and "-m pip" in rest]
    assert len(installed) == 2 and "--require-hashes" in installed[0] and "--no-deps ." in installed[1]
    allowed = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8")
    for one, rest in DOCKERFILE:
        if one == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (REPOSITORY / source).exists(), source
                assert f"!{source}\n" in allowed or f"!{source.partition('/')[0]}\n" in allowed, source


def test_the_image_has_the_layers_in_c_plus_plus_where_they_are_looked_for():
    (step,) = [rest for one, rest in DOCKERFILE if one == "RUN" and "g++" in rest]
    sources = " ".join(f"/native/{one.name}" for one in library.SOURCES)
    assert f"g++ {' '.join(library.OPTIONS)} {sources} -o /{library.READY.name};" in " ".join(step.split())
    (copied,) = [rest.split()[-1] for one, rest in DOCKERFILE if one == "COPY" and library.READY.name in rest]
    assert copied.endswith(str(library.READY.relative_to(library.READY.parents[3])))


def test_the_dockerfile_has_no_findings():
    done = subprocess.run([program("hadolint"), DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_is_the_status_of_the_server(status: int, code: int):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        command = [sys.executable, DEPLOY / "healthcheck.py", str(server.server_port)]
        assert subprocess.run(command, check=False, timeout=60).returncode == code
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 1  # nobody listens


def test_compose_is_read_only_private_and_stops_with_grace():
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["maskwright"]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert all(one.startswith("127.0.0.1:") for one in service["ports"])
    assert all(one.endswith(":ro") for one in service["volumes"])
    assert int(service["stop_grace_period"].removesuffix("s")) > settings()["grace"]


def test_kubernetes_probes_drains_and_scales():
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
    found = {one["kind"]: one["spec"] for one in documents}
    pod = found["Deployment"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/ready", "liveness": "/health", "readiness": "/ready"}
    waited = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > waited + settings()["grace"]
    assert pod["securityContext"]["runAsUser"] == UNPRIVILEGED and pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert found["Deployment"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    mounted, declared = ({one["name"] for one in place} for place in (container["volumeMounts"], pod["volumes"]))
    assert mounted == declared
    (metric,) = found["HorizontalPodAutoscaler"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "maskwright_queued_tokens"


def settings() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((DEPLOY / "serve.toml").read_text(encoding="utf-8"))["serve"]
    return found


def test_nginx_accepts_its_file_and_waits_longer_than_the_server(tmp_path: Path):
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", text)
    assert int(seconds) > settings()["timeout"] and "least_conn;" in text
    command = [program("nginx"), "-t", "-c", DEPLOY / "nginx.conf", "-p", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_dashboard_has_a_query_in_every_panel():
    board = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    panels = board["panels"]
    assert len({one["id"] for one in panels}) == len({one["title"] for one in panels}) == len(panels)
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert re.search(r"\b(maskwright|process)_\w+\{", target["expr"]), target["expr"]
            assert target["expr"].count("(") == target["expr"].count(")")


# -- clusters ----------------------------------------------------------------------------------------------------------

FLAGS: dict[str, list[str]] = json.loads((REPOSITORY / "tests/conventions/flags.json").read_text(encoding="utf-8"))


def commands() -> dict[str, list[str]]:
    (line,) = re.findall(r"-m (maskwright .*)", (DEPLOY / "slurm.sh").read_text("utf-8").replace("\\\n", " "))
    ray = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text("utf-8"))["spec"]["entrypoint"]
    replicas = yaml.safe_load((DEPLOY / "pytorchjob.yaml").read_text("utf-8"))["spec"]["pytorchReplicaSpecs"]
    (job,) = replicas["Master"]["template"]["spec"]["containers"]
    words = {"slurm.sh": shlex.split(line), "rayjob.yaml": shlex.split(ray)}
    words["pytorchjob.yaml"] = [*job["command"], *job["args"]]
    return {name: found[found.index("maskwright") + 1 :] for name, found in words.items()}


@pytest.mark.parametrize("name", ["slurm.sh", "pytorchjob.yaml", "rayjob.yaml"])
def test_the_options_exist(name: str):
    words = commands()[name]
    command = " ".join(words[:2]) if " ".join(words[:2]) in FLAGS else words[0]
    given = [word for word in words if re.fullmatch(r"-{1,2}[a-z][a-z-]*", word)]
    assert given and set(given) <= set(FLAGS[command])


def test_the_script_is_bash():
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("bash is not installed")
    done = subprocess.run([shell, "-n", str(DEPLOY / "slurm.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
