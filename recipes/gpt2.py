"""GPT-2 from raw text, compared with transformers' GPT-2 on the same batches (Radford et al. 2019).

    MASKWRIGHT_DATA=path python recipes/gpt2.py small-characters --seeds 3 -o runs/gpt2-small      nanoGPT's CPU recipe
    MASKWRIGHT_DATA=path python recipes/gpt2.py characters -o runs/gpt2-characters                 nanoGPT's GPU recipe
    MASKWRIGHT_DATA=path python recipes/gpt2.py english -o runs/gpt2-english                       60 million tokens
    MASKWRIGHT_DATA=path python recipes/gpt2.py characters --steps 20 --hidden 32 --layers 1 -o runs/try

characters: the bytes of Shakespeare's plays with the sizes of nanoGPT's train_shakespeare_char.py, and small-characters
with those that its README recommends for a CPU: 1.5 million bytes, minutes. The other two take hours. english: the five
texts of `pretraining_text` with 16,000 subword tokens. Both sides have the same number of parameters, batches, training
loop, learning rates and precision; transformers' network computes padded rows, under autocast in bfloat16. Both are
scored by the same code on text that was not used for any choice: the dev text of the plays, or every 200th document
and WikiText-2. It prints the perplexities and a sample of each; table.json has the numbers. Rerun the same command to
resume. --sides trains only one of them, so that two processes can run in parallel; --sides none only prepares the data.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import TEXTS, data_file, documents_of, made_once, minutes_of, options_of, read_options, run_main, spread
from torch import Tensor, nn

from maskwright.core import registry, storage
from maskwright.core.config import to_dict
from maskwright.data.batch import Batch
from maskwright.data.prepare import prepare
from maskwright.hub.folders import load_model
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.inference.held_out_text import score_text
from maskwright.inference.ready import place
from maskwright.models.decoding.rules import Rules
from maskwright.models.device import resolve_device, resolve_precision
from maskwright.models.model import Model
from maskwright.objectives.outcome import LossSums
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.loop import train
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.job import PretrainJob
from maskwright.train.pretraining.pretrain import PretrainingSetup, pretrain
from maskwright.train.run import open_run

SIDES = ("maskwright", "transformers")
HELD_OUT_EVERY, HELD_OUT = 200, 300  # documents of each English text, and how many at most


@dataclass(frozen=True)
class Recipe:
    """Sizes and rates; start: what a sample begins with."""

    vocab_size: int
    layers: int
    hidden: int
    heads: int
    max_length: int
    batch_tokens: int
    steps: int
    lr: float
    warmup: int
    dropout: float
    start: str


RECIPES = {
    "small-characters": Recipe(261, 4, 128, 4, 64, 12 * 64, 2000, 1e-3, 100, 0.0, "KING"),
    "characters": Recipe(261, 6, 384, 6, 256, 64 * 256, 5000, 1e-3, 100, 0.2, "KING"),
    "english": Recipe(16_000, 6, 384, 6, 256, 64 * 256, 3700, 1e-3, 200, 0.0, "The history of the town"),
}


def main() -> None:
    """Train both, score both."""
    options = options_of(__doc__)
    options.add_argument("recipe", choices=list(RECIPES))
    for name in ("steps", "layers", "hidden", "heads", "max-length", "batch-tokens"):
        options.add_argument(f"--{name}", type=int, help="instead of the recipe's")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--sides", default=",".join(SIDES), help="one of the two, or none")
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="auto")
    chosen = read_options(options)
    own = {name: value for name, value in vars(chosen).items() if name in vars(RECIPES["english"]) and value}
    recipe = replace(RECIPES[chosen.recipe], **own)
    write = write_english if chosen.recipe == "english" else write_characters
    sizes = {"recipe": chosen.recipe, "vocab_size": recipe.vocab_size}
    data = made_once(chosen.output / "data", sizes, partial(write_data, write, recipe))
    if chosen.sides == "none":
        return
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(chosen.seeds):
        for side in chosen.sides.split(","):
            config = config_of(recipe, data, chosen.output / f"{side}-{seed}", seed, chosen)
            folder = pretrain(config).model if side == "maskwright" else train_theirs(config)
            model = place(load_model(folder)[0], chosen.device, "fp32")
            row = {"seed": seed, "parameters": model.num_parameters, "minutes": minutes_of(config.output)}
            found.setdefault(side, []).append(row | score(model, data, recipe.max_length))
            if seed == 0:
                print(f"-- {side}\n{sample(model, recipe.start)}\n")
    table = chosen.output / "table.json"  # the other side may be there
    storage.write_json(table, (storage.read_json(table) if table.exists() else {}) | found)
    for side, runs in found.items():
        scores = (f"{name} {spread([run[name] for run in runs], 3)}" for name in runs[0] if name not in ("seed",))
        print(f"{side:<14}{'   '.join(scores)}")


# -- data -------------------------------------------------------------------------------------------------------------


def write_data(write: Callable[[Path], None], recipe: Recipe, new: Path) -> None:
    """Training text, dev texts (dev-*.txt), tokenizer and token shards into a new folder."""
    write(new)
    text = str(new / "train.txt")
    tokenizer = Tokenizer.train([text], kind="byte-bpe", vocab_size=recipe.vocab_size)
    tokenizer.save(new / "tokenizer")
    joint = registry.resolve("objective", "clm").line_separator(tokenizer)
    prepare([text], tokenizer, new / "shards", keep_duplicates=True, joint=joint)


def write_characters(new: Path) -> None:
    """The plays as one document, without empty lines, so that a prediction can use the speeches before it."""
    for part, name in (("train", "train"), ("dev", "dev-plays")):
        text = data_file(f"char_lm/tinyshakespeare_{part}.txt").read_text(encoding="utf-8")
        storage.write_text(new / f"{name}.txt", "\n".join(line for line in text.splitlines() if line) + "\n")


def write_english(new: Path) -> None:
    """All documents but the held-out ones, and WikiText-2 in addition to these."""
    kept: list[str] = []
    held_out: list[str] = []
    for name in TEXTS:
        documents = list(documents_of(data_file(f"pretraining_text/{name}.txt.xz")))
        own = set(range(0, len(documents), HELD_OUT_EVERY)[:HELD_OUT])
        held_out += [documents[number] for number in sorted(own)]
        kept += [document for number, document in enumerate(documents) if number not in own]
    storage.write_text(new / "train.txt", "\n\n".join(kept) + "\n")
    storage.write_text(new / "dev-held-out.txt", "\n\n".join(held_out) + "\n")
    wikitext = "\n\n".join(documents_of(data_file("wikitext2/valid.txt.xz")))
    storage.write_text(new / "dev-wikitext2.txt", wikitext + "\n")


# -- training ---------------------------------------------------------------------------------------------------------


def config_of(recipe: Recipe, data: Path, output: Path, seed: int, chosen: argparse.Namespace) -> PretrainConfig:
    """What is trained and how."""
    network = {
        "num_hidden_layers": recipe.layers,
        "hidden_size": recipe.hidden,
        "num_attention_heads": recipe.heads,
        "intermediate_size": 4 * recipe.hidden,
        "max_position_embeddings": recipe.max_length,
        "hidden_dropout": recipe.dropout,
        "attention_dropout": recipe.dropout,
    }
    return PretrainConfig(
        corpus=(str(data / "shards"),),
        output=output,
        preset="gpt2",
        objective="clm",
        tokenizer=data / "tokenizer",
        model=network,
        steps=recipe.steps,
        batch_tokens=recipe.batch_tokens,
        max_length=recipe.max_length,
        lr=recipe.lr,
        warmup=min(recipe.warmup, recipe.steps),
        schedule="cosine",
        weight_decay=0.1,
        short_share=0.0,
        holdout=0.0,
        keep_duplicates=True,
        seed=seed,
        device=chosen.device,
        precision=chosen.precision,
    )


class TheirJob(PretrainJob):
    """The batches of the product for transformers' network."""

    half = False

    def outcome(self, batch: Batch) -> LossSums:
        """Summed loss over the same labels."""
        rows = list(batch.input_ids.long().split(batch.lengths))
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        is_token = (torch.arange(ids.shape[1]) < torch.tensor(batch.lengths)[:, None]).to(ids.device)
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.half):
            logits: Tensor = self.model(input_ids=ids, attention_mask=is_token.long()).logits
        loss = F.cross_entropy(
            logits[is_token][batch.labels["clm_positions"]].float(), batch.labels["clm"], reduction="sum"
        )
        return LossSums({"clm": loss}, self.counts(batch))


class TheirSetup(PretrainingSetup):
    """A run of the product that trains transformers' network."""

    job_type = TheirJob

    def job(self) -> PretrainJob:
        """The job of this run, at its first step."""
        import transformers

        job, own = super().job(), self.network
        transformers.set_seed(self.config.seed)
        config = transformers.GPT2Config(
            vocab_size=own.vocab_size,
            n_positions=own.max_position_embeddings,
            n_embd=own.hidden_size,
            n_layer=own.num_hidden_layers,
            n_head=own.num_attention_heads,
            resid_pdrop=own.hidden_dropout,
            embd_pdrop=own.hidden_dropout,
            attn_pdrop=own.attention_dropout,
            bos_token_id=self.tokenizer.bos_id,
            eos_token_id=self.tokenizer.eos_id,
        )
        theirs: nn.Module = transformers.GPT2LMHeadModel(config).to(self.device)
        job.model, job.half = theirs, self.config.precision == "bf16"  # type: ignore[attr-defined]
        return job


def train_theirs(config: PretrainConfig) -> Path:
    """The model folder of transformers' network, trained by the same loop; resumes."""
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    folder = config.output / "theirs"
    with open_run(config.output, to_dict(config)) as run:
        if run.result is None:
            setup = TheirSetup(config, run, device)
            job = setup.job()
            train(job, setup.loop_settings(), run, name="transformers")
            with storage.new_folder(folder) as new:
                setup.tokenizer.save(new)
                job.model.save_pretrained(new)  # type: ignore[operator]
            run.finish({"steps": config.steps})
    return folder


# -- scores -----------------------------------------------------------------------------------------------------------


def score(model: Model, data: Path, max_length: int) -> dict[str, float]:
    """Loss and perplexity of a token of each dev text."""
    found: dict[str, float] = {}
    for path in sorted(data.glob("dev-*.txt")):
        perplexity = score_text(model, path, max_length=max_length).metrics["perplexity"]
        name = path.stem.removeprefix("dev-")
        found |= {f"{name} loss": math.log(perplexity), f"{name} perplexity": perplexity}
    return found


def sample(model: Model, start: str) -> str:
    """A continuation at temperature 0.8."""
    how = Generation(200, Rules(temperature=0.8, top_k=50))
    return start + TextGenerator(model).generate([start], how)[0][0].text


if __name__ == "__main__":
    run_main(main)
