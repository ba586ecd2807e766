"""One memorized sentence: a recurrent network trained on "This is deep learning" generates it, token by token.

    python recipes/one_sentence.py                                  characters, then words
    python recipes/one_sentence.py --text "dogs chase cats" --cell lstm --steps 200

The network predicts the next character (or word) from its hidden state. Trained only on this sentence, it reproduces
it. The prediction after each character is printed with its probability. This takes seconds on a laptop.
"""

from __future__ import annotations

import argparse
import sys

import torch
from running import run_main

from maskwright.data.batch import Batch
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.models.build import build
from maskwright.models.decoding.rules import Rules
from maskwright.models.model import Model
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer

SENTENCE = "This is deep learning"


def main() -> None:
    """Learn the sentence twice: as characters, and as words."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--text", default=SENTENCE)
    options.add_argument("--cell", choices=["rnn", "gru", "lstm"], default="rnn")
    options.add_argument("--hidden", type=int, default=32)
    options.add_argument("--steps", type=int, default=150)
    chosen = options.parse_args()
    for kind in ("char", "word"):
        model = learn(chosen.text, kind, chosen.cell, chosen.hidden, chosen.steps)
        written = write(model, chosen.text)
        print(f"\n{kind}: written from its first {kind}: {written}")
        if written != chosen.text:
            print("not yet the sentence: raise --steps")
            sys.exit(1)


def learn(text: str, kind: str, cell: str, hidden: int, steps: int) -> Model:
    """Train a network on one text. kind: of the tokenizer, "char" or "word"."""
    tokenizer = Tokenizer.train_from_iterator(iter([text]), kind=kind, vocab_size=200, lowercase=False)
    config = preset(
        f"{cell}-small", vocab_size=tokenizer.vocab_size, hidden_size=hidden, num_hidden_layers=1, hidden_dropout=0.0
    )
    model = build(config, "clm", seed=0)
    model.tokenizer = tokenizer
    opening = tokenizer.opening_ids or [tokenizer.bos_id]
    ids = [*opening, *tokenizer.encode_plain([text])[0], tokenizer.eos_id]
    read, wanted = Batch.from_sequences([ids[:-1]]), torch.tensor(ids[1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        loss, right = model.mlm_loss(model.encode(read).hidden, wanted)
        (loss / len(wanted)).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % max(steps // 5, 1) == 0 or step == steps - 1:
            print(f"{kind} step {step:4}: loss {loss.item() / len(wanted):6.3f}, {int(right)} of {len(wanted)} right")
    print_predictions(model.eval(), ids)
    return model


@torch.inference_mode()
def print_predictions(model: Model, ids: list[int]) -> None:
    """Print the prediction after each token with its probability."""
    shares = model.mlm_logits(model.encode(Batch.from_sequences([ids[:-1]])).hidden).softmax(dim=-1)  # [tokens, vocab]
    for piece, row in zip(ids[:-1], shares, strict=True):
        best = int(row.argmax())
        print(
            f"  {model.tokenizer.id_to_token(piece)!r:>14} -> {model.tokenizer.id_to_token(best)!r:<14} {row[best]:.3f}"
        )


def write(model: Model, text: str) -> str:
    """Generate greedily from the first token of a text."""
    first = model.tokenizer.encode_plain([text])[0][:1]
    start = model.tokenizer.decode(first)
    (found,) = TextGenerator(model).generate([start], Generation(2 * len(text), Rules(greedy=True)))
    return start + found[0].text


if __name__ == "__main__":
    run_main(main)
