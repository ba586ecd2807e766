"""The graphs of the real MiniLM, in float32 and int8, opened by the library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.samples import TEXTS
from maskwright.api import open_embedder
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from minilm import minilm_folder

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.fixture(scope="module")
def expected():
    """The embeddings of the library in float32."""
    return open_embedder(minilm_folder(), precision="fp32").vectors(TEXTS)


@pytest.mark.slow
def test_float32_gives_the_embeddings_of_the_library(expected, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    found = export_model(ExportConfig(model=str(minilm_folder()), output=tmp_path / "out"))
    np.testing.assert_allclose(open_embedder(found.folder).vectors(TEXTS), expected, atol=1e-5)


@pytest.mark.slow
def test_int8_passes_its_gate_and_is_opened(expected, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    lines = [line for page in sorted(PAGES.glob("*.md")) for line in page.read_text(encoding="utf-8").split("\n")]
    texts = [line for line in lines if line[:1].isalpha() and len(line.split()) > 6][:64]
    (tmp_path / "typical.txt").write_text("\n".join(texts), encoding="utf-8")
    config = ExportConfig(
        model=str(minilm_folder()),
        output=tmp_path / "out",
        precision="int8",
        calibrate_on=tmp_path / "typical.txt",
        min_cosine=0.95,
    )
    found = export_model(config)
    assert found.spec["agreement"]["outputs"]["sentence_embedding"]["min_cosine"] >= 0.95
    assert found.spec["size_bytes"] < 0.45 * found.spec["float32_size_bytes"]
    cosines = (open_embedder(found.folder).vectors(TEXTS) * expected).sum(axis=1)
    assert cosines.min() > 0.9
