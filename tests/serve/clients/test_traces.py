"""Traces with OpenTelemetry's launcher: a span for each request, in the trace of the client, without its text."""

import shutil
import sys
from pathlib import Path

import pytest

from serve.server_process import running
from serve.small_models import write_models

pytestmark = pytest.mark.slow
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_request_is_a_span_of_the_clients_trace(tmp_path):
    launcher = shutil.which("opentelemetry-instrument", path=str(Path(sys.executable).parent))
    if launcher is None:
        pytest.skip("needs the extra traces")
    exporters = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    command = (launcher, "--service_name", "maskwright")
    with running(*write_models(tmp_path, "vectors"), launcher=command, **exporters) as server:
        server.post("/embed", {"inputs": "planted text"}, traceparent=f"00-{TRACE}-{PARENT}-01")
        assert server.stop() == 0
        written = server.text()
    assert f'"parent_id": "0x{PARENT}"' in written and '"name": "POST /embed"' in written
    assert f'"trace_id":"{TRACE}"' in written  # the line of the server's own log
    assert "planted" not in written
