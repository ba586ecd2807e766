"""A server with a small model of each kind, for real clients."""

from __future__ import annotations

import pytest

from serve.server_process import running
from serve.small_models import write_models


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The models, by name."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def server(folder):
    """All models, in float32."""
    with running(*write_models(folder), "--precision", "fp32") as found:
        yield found
