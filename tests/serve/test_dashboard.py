"""Every metric that the dashboard and the autoscaling of deploy/ use exists at the start, before any request."""

from __future__ import annotations

import re

import pytest

from conventions.sources import REPOSITORY
from serve.server_process import running
from serve.small_models import write_models


@pytest.mark.slow
def test_the_metrics_of_the_dashboard_exist(tmp_path):
    used = set()
    for name in ("grafana.json", "kubernetes.yaml"):
        used |= set(re.findall(r"\b(?:maskwright|process)_\w+", (REPOSITORY / "deploy" / name).read_text("utf-8")))
    assert len(used) > 15
    with running(*write_models(tmp_path, "vectors")) as server:
        found = {name.partition("{")[0] for name in server.metrics()}
    assert used <= found, used - found
