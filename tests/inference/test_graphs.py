"""Small packs through recorded graphs: filled up to a size, they keep their numbers; a stand-in records here."""

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.inference.engine import engine as engine_room
from maskwright.inference.engine import graphs
from maskwright.inference.engine.choice import float_kernels
from maskwright.inference.engine.encoder import InferenceEncoder
from maskwright.inference.engine.engine import Engine
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn import attention as varlen
from maskwright.nn.attention import scaled_dot_product
from small_network import SMALL

CPU = torch.device("cpu")


def by_hand(query, key, value, ends, rate, causal):
    """As the GPU's kernel: empty sequences, and one beyond the pack's own, are part of its contract."""
    bounds = ends.offsets.tolist()
    assert bounds[-1] == len(query) and bounds == sorted(bounds)
    found = []
    for start, stop in zip(bounds, bounds[1:], strict=False):
        assert stop - start <= ends.longest
        parts = (x[start:stop].transpose(0, 1) for x in (query, key, value))
        found.append(scaled_dot_product(*parts, causal=causal)[0].transpose(0, 1))
    return torch.cat(found)


class Recording:
    """Replaces a CUDA graph: reruns the function into the tensor that it returned first."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, run):
        self.recorded += 1
        result = run().clone()

        def replay():
            self.replayed += 1
            return result.copy_(run())

        return replay


def pack(*lengths: int, types: bool = False) -> Batch:
    sequences = [[5 + (place * 7 + length) % 50 for place in range(length)] for length in lengths]
    return Batch.from_sequences(sequences, [[place % 2 for place in one] for one in sequences] if types else None)


@pytest.mark.parametrize(
    "changes", [{}, {"attention": "causal"}, {"positions": "rotary"}, {"norm": "pre", "type_vocab_size": 0}]
)
@pytest.mark.parametrize("types", [False, True])
def test_a_pack_filled_up_keeps_its_numbers(monkeypatch: pytest.MonkeyPatch, changes: dict, types: bool):
    monkeypatch.setattr(varlen, "flash", by_hand)
    monkeypatch.setattr(graphs, "USES", 1)
    model = build(ModelConfig(**(SMALL | changes))).eval()
    fixed = InferenceEncoder(model.encoder, float_kernels(torch.float32, CPU))
    recording = Recording()
    replayed = graphs.Graphs(fixed, recording)
    packs = [pack(3, 5, 9, types=types), pack(17, types=types), pack(1, 1, 30, types=types), pack(16, types=types)]
    with torch.inference_mode():
        for batch in [*packs, *reversed(packs)]:
            found = replayed.run(batch)
            torch.testing.assert_close(found, fixed(batch).hidden)
    assert recording.recorded == 3 and recording.replayed == 8  # two of the packs have one size


def test_a_size_is_recorded_once_it_is_used_often_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(varlen, "flash", by_hand)
    monkeypatch.setattr(graphs, "MAX_GRAPHS", 1)
    recording = Recording()
    model = build(ModelConfig(**SMALL)).eval()
    replayed = graphs.Graphs(InferenceEncoder(model.encoder, float_kernels(torch.float32, CPU)), recording)
    with torch.inference_mode():
        found = [replayed.run(pack(4)) is not None for _ in range(graphs.USES + 1)]
        assert found == [False] * (graphs.USES - 1) + [True, True] and recording.recorded == 1
        for _ in range(graphs.USES):
            replayed.run(pack(20))
        replayed.run(pack(4))
    assert recording.recorded == 3


def test_the_engine_takes_graphs_where_there_are_any_and_new_ones_for_new_weights(monkeypatch: pytest.MonkeyPatch):
    recording = Recording()
    monkeypatch.setattr(varlen, "flash", by_hand)
    monkeypatch.setattr(graphs, "USES", 1)
    monkeypatch.setattr(graphs, "CudaRecorder", lambda: recording)
    monkeypatch.setattr(engine_room, "why_no_graphs", lambda encoder, device: None)
    model = build(ModelConfig(**SMALL)).eval()
    batch = pack(3, 9)
    with torch.inference_mode():
        wanted = model.encode(batch).hidden
        model.engine = Engine()
        torch.testing.assert_close(model.encode(batch).hidden, wanted, rtol=1e-4, atol=1e-5)
        assert model.encode(batch, hidden_states=True).hidden_states is not None
    assert recording.recorded == 1
    with torch.no_grad():
        model.word_embeddings.mul_(2.0)
    with torch.inference_mode():
        model.engine, engine = None, model.engine
        wanted = model.encode(batch).hidden
        model.engine = engine
        torch.testing.assert_close(model.encode(batch).hidden, wanted, rtol=1e-4, atol=1e-5)
    assert recording.recorded == 2
