"""A server with a small model of each kind, for real clients."""

import pytest

from serve.server_process import running
from serve.small_models import write_models


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def server(folder):
    with running(*write_models(folder), "--precision", "fp32") as found:
        yield found
