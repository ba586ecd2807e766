"""Reading old weights without the process that is confined."""

from __future__ import annotations

import io
from contextlib import contextmanager

import pytest

from maskwright.hub import pickled


@pytest.fixture
def unconfined(request, monkeypatch):
    """Files are read without starting a process, except where a test asks for `confined`."""

    @contextmanager
    def here(work, file, limits, paths):
        answer, data = io.BytesIO(), file.read()
        pickled.read_and_send(memoryview(data), io.BytesIO(data), answer)
        answer.seek(0)
        yield answer

    if "confined" not in request.fixturenames:
        monkeypatch.setattr(pickled, "isolated", here)
