"""Bulk embedding in bfloat16 on the CPU, family by family, compared with transformers (in docs/results/speed.md).

    python benchmarks/speed/families.py [FAMILY ...]

Each family has BERT-base's width, four layers, random weights and MiniLM's tokenizer. Both run from text, in turns, in
one process: transformers with its best attention on batches of 32 sorted by length, ours `maskwright.Embedder`. The
time is CPU time of one thread, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from cpu import cpu_name  # noqa: E402
from encoders import CONTENDERS  # noqa: E402
from run import commit, minilm, read_texts, shifted  # noqa: E402
from tables import table, write_part  # noqa: E402

from maskwright.hub.folders import load_model, save_model  # noqa: E402
from maskwright.speed.backend import centered_cosines  # noqa: E402
from maskwright.speed.bench import text_of_length  # noqa: E402
from maskwright.text.tokenizers.tokenizer import Tokenizer  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "results" / "speed.md"
SIZES = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "intermediate_size": 3_072,
    "max_position_embeddings": 514,
    "pad_token_id": 0,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
SPECIAL = {"bos_token_id": 101, "eos_token_id": 102, "cls_token_id": 101, "sep_token_id": 102}
FAMILIES: dict[str, dict[str, object]] = {
    "bert": {},
    "camembert": {},
    "data2vec-text": {},
    "deberta": RELATIVE,
    "deberta-v2": RELATIVE | {"position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True},
    "ernie": {},
    "esm": {"position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 103},
    "eurobert": SPECIAL,
    "gte": {},
    "jina_embeddings_v3": {},
    "longformer": {"attention_window": [256] * 4},
    "megatron-bert": {},
    "modernbert": SPECIAL,
    "nomic_bert": {},
    "rembert": {"input_embedding_size": 256},
    "roberta-prelayernorm": {},
    "roformer": {},
}
NAMES = ("transformers-bf16", "maskwright-bf16")


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--count", type=int, default=256, help="texts of natural lengths")
    parser.add_argument("--long", type=int, default=32, help="texts of 512 tokens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.load(minilm())
    texts = read_texts(None, options.count)
    long = [text_of_length(tokenizer, own, 512) for own in shifted(texts, options.long)]
    parts = {"natural": texts, "512 tokens": long}
    lengths = [len(ids) for ids in tokenizer.encode_ids(texts, 512)[0]]
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, commit {commit()}"
    sizes = f"{len(texts)} texts of {np.mean(lengths):.0f} tokens on average, and {options.long} of 512 tokens"
    rounds = f"Texts per second of CPU time, medians of {options.rounds} rounds"
    head = f"{cpu_name()}, one thread, {versions}. {sizes}. {rounds}."
    rows: dict[str, dict[str, float | str]] = {}
    for name in options.families:
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows[name] = measured(make_folder(name, Path(folder), tokenizer), parts, options.rounds)
            except RuntimeError as error:  # transformers' DeBERTa 1, loaded in bfloat16
                rows[name] = {"natural, x": f"fails: {str(error)[:60]}"}
        print(name, rows[name], flush=True)
        write_part(options.page, "families", ["## Families", "", head, "", *table(rows)], "Speed")


def make_folder(name: str, folder: Path, tokenizer: Tokenizer) -> Path:
    """A checkpoint of transformers that both read."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **SIZES | FAMILIES[name])
    transformers.AutoModel.from_config(config).save_pretrained(folder / "theirs")
    model, _ = load_model(folder / "theirs", head=None)
    model.tokenizer = tokenizer
    save_model(model, folder / "ours")
    return folder / "ours"


def measured(folder: Path, parts: dict[str, list[str]], rounds: int) -> dict[str, float | str]:
    """Texts a second of both, their ratio, and the least similarity of the vectors."""
    shared = {"model": str(folder), "max_length": 512, "batch": 32, "calibration": None}
    backends = {name: CONTENDERS[name][0]({**shared, **CONTENDERS[name][1]}) for name in NAMES}
    found: dict[str, float | str] = {}
    for part, texts in parts.items():
        seconds: dict[str, list[float]] = {name: [] for name in NAMES}
        vectors = {name: backend(texts) for name, backend in backends.items()}  # warm
        for _ in range(rounds):
            for name, backend in backends.items():
                start = time.process_time()
                backend(texts)
                seconds[name].append(time.process_time() - start)
        ratios = [theirs / ours for theirs, ours in zip(*seconds.values(), strict=True)]
        found |= {f"{part}, {name}": len(texts) / median(own) for name, own in seconds.items()}
        found |= {f"{part}, x": median(ratios), f"{part}, cosine": float(centered_cosines(*vectors.values()).min())}
    return found


if __name__ == "__main__":
    main()
