"""Translation as a training load: pairs of texts of equal length, as in `finetune translation`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..objectives.cost import TrainedNetwork
from ..objectives.denoising import Denoising
from ..objectives.segments import Example
from ..objectives.stream import Tokens


class Translation(Denoising):
    """Each text is its own target, so source and target have as many tokens."""

    @classmethod
    def trained_networks(
        cls, config: ModelConfig, mask_rate: float, generator_share: float
    ) -> tuple[TrainedNetwork, ...]:
        """Return the network, which scores every token of the target."""
        return (TrainedNetwork(config, words=0.5, source=0.5, target=0.5),)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples as pairs."""
        texts = [
            np.asarray(documents.document_tokens(one.a_document)[one.a_start : one.a_stop], dtype=np.int64)
            for one in sorted(examples, key=lambda one: one.a_stop - one.a_start)
        ]
        begin, end = [self.recipe.cls_id], [self.recipe.sep_id]
        labels = {"denoise": torch.from_numpy(np.concatenate([np.concatenate([text, end]) for text in texts]))}
        batch = Batch.from_sequences([np.concatenate([begin, text, end]) for text in texts], None, labels)
        return replace(batch, target=Batch.from_sequences([np.concatenate([begin, text]) for text in texts]))
