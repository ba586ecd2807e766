"""The probe on given vectors: shapes, packs, seeds."""

from __future__ import annotations

import pytest
import torch

from maskwright.models.probes import TokenProbe


@pytest.mark.parametrize("kind", ["linear", "bilstm"])
def test_a_sentence_is_scored_alike_alone_and_beside_others(kind):
    probe = TokenProbe(6, 3, kind, hidden_size=4, num_layers=2, seed=1).eval()
    vectors, lengths = torch.randn(9, 6, generator=torch.Generator().manual_seed(0)), [4, 1, 4]
    together = probe(vectors, lengths)
    apart = torch.cat([probe(part, [len(part)]) for part in vectors.split(lengths)])
    assert together.shape == (9, 3)
    torch.testing.assert_close(together, apart)


def test_every_parameter_learns():
    probe = TokenProbe(6, 3, "bilstm", hidden_size=4, dropout_rate=0.0, crf=True)
    vectors, tags = torch.randn(5, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0, 1])
    probe.crf.losses(probe(vectors, [3, 2]), tags, [3, 2]).sum().backward()
    idle = [name for name, parameter in probe.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert idle == []
    assert probe.num_parameters == sum(parameter.numel() for parameter in probe.parameters())
