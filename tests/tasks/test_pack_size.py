"""The number of tokens in a pack, by precision and CPU."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.tasks import examples as module


@pytest.mark.parametrize(
    ("dtype", "amx", "largest"),
    [(torch.float32, True, 2048), (torch.bfloat16, False, 2048), (torch.bfloat16, True, 4096)],
)
def test_packs_of_bfloat16_are_larger_with_amx(
    dtype: torch.dtype, amx: bool, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "cpu_has", lambda name: amx and name == "amx_bf16")
    sizes: list[int] = []

    class Sizes(module.Forward):
        def __call__(self, batch: Batch) -> list[torch.Tensor]:
            sizes.append(sum(batch.lengths))
            return [torch.zeros(1)] * len(batch.lengths)

    model: Any = SimpleNamespace(word_embeddings=torch.zeros(1, 1, dtype=dtype))
    rows: Any = SimpleNamespace(input_ids=[[1] * 64] * 100, token_types=None, groups=lambda: [range(100)])
    assert len(module.compute(Sizes(model), rows)) == 100
    assert max(sizes) == largest and sum(sizes) == 6400
