"""Kill runs and compare what they end with: `python crash_harness.py pretrain --kills 50 --folder F`.

A run is a training, or the construction of a search index.

A warm parent (everything imported, no tensor touched, so that forking is safe) forks the trainer. Half of the kills
come at a random time, half inside a random disk operation: the child then kills itself at its n-th write, sync or
rename, which covers tokenizing, sharding, every save, the report and the export. After the kills the same command runs
to its end, and the SHA-256 of the weights and the log must equal those of a run that nobody disturbed.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # as an optimizer does, in 1 s; before the first fork

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script: tests/ is not on the path

from failing_disk import StoppingFileSystem
from maskwright.core import progress, storage
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import TIMES, corpus, labeled, sentence_teacher

TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
os.fsync = lambda descriptor: None  # a kill loses nothing that was written


def pretrain_run(folder: Path) -> Callable[[Path], None]:
    """Pre-training with everything that draws or adds up: dropout, accumulation over 4, bf16 where there is."""
    text = corpus(folder, 40)

    def run(output: Path) -> None:
        pretrain(
            PretrainConfig(
                corpus=(str(text),), output=output, preset="bert-tiny", model=TINY, vocab_size=120, steps=8,
                batch_tokens=4 * 4 * 32, accumulation=4, max_length=32, checkpoint_every=3, log_every=2, holdout=0.1,
            )
        )  # fmt: skip

    return run


def finetune_run(folder: Path) -> Callable[[Path], None]:
    """Two seeds of a classifier from scratch, with a dev set that chooses the epoch."""
    corpus(folder, 40)
    labeled(folder / "train.tsv", 64, 1)
    labeled(folder / "dev.tsv", 32, 2)
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    if not (folder / "tok").exists():
        Tokenizer.train([folder / "corpus.txt"], kind="wordpiece", vocab_size=120).save(folder / "tok")

    def run(output: Path) -> None:
        finetune(
            FinetuneConfig(
                train=folder / "train.tsv", dev=folder / "dev.tsv", output=output, preset="bert-tiny",
                tokenizer=folder / "tok", epochs=2, lr=1e-3, batch_size=16, accumulation=2, max_length=24, seeds=2,
                checkpoint_every=3, log_every=2,
            )
        )  # fmt: skip

    return run


def adapter_run(folder: Path) -> Callable[[Path], None]:
    """Two seeds of an adapter on a small model, with dropout of its own."""
    from dataclasses import replace

    from maskwright.models.build import build
    from maskwright.models.presets import preset
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    finetune_run(folder)  # its rows and tokenizer
    if not (folder / "base").exists():
        tokenizer = Tokenizer.load(folder / "tok")
        model = build(preset("bert-tiny", vocab_size=tokenizer.vocab_size, **TINY), None, seed=1)
        model.tokenizer = tokenizer
        model.save(folder / "base")
    config = FinetuneConfig(
        train=folder / "train.tsv", dev=folder / "dev.tsv", output=folder / "run", model=str(folder / "base"),
        adapter="lora", adapter_dropout=0.1, targets="all-linear", epochs=3, lr=3e-3, batch_size=16, accumulation=2,
        max_length=24, seeds=2, checkpoint_every=4, log_every=2,
    )  # fmt: skip

    def run(output: Path) -> None:
        finetune(replace(config, output=output))

    return run


def distill_run(folder: Path) -> Callable[[Path], None]:
    """A student of a classifier, which is trained first, in a separate process."""
    teach = finetune_run(folder)
    if not (folder / "teacher").exists() and finish(spawn(teach, folder / "teacher", None)):
        sys.exit(f"the teacher failed: {(folder / 'error.txt').read_text()}")

    def run(output: Path) -> None:
        distill(
            DistillConfig(
                teacher=str(folder / "teacher" / "model"), train=folder / "train.tsv", dev=folder / "dev.tsv",
                output=output, layers=1, epochs=3, lr=1e-3, batch_size=16, accumulation=2, max_length=24,
                checkpoint_every=4, log_every=2, prune_heads=0.5,
            )
        )  # fmt: skip

    return run


def embeddings_run(folder: Path) -> Callable[[Path], None]:
    """A student of a sentence encoder, which is made first, in a separate process."""
    text = corpus(folder, 40)
    if not (folder / "teacher").exists() and finish(spawn(partial(sentence_teacher, text), folder / "teacher", None)):
        sys.exit(f"the teacher failed: {(folder / 'error.txt').read_text()}")

    def run(output: Path) -> None:
        distill(
            DistillConfig(
                teacher=str(folder / "teacher"), corpus=(str(text),), output=output, preset="bert-tiny", model=TINY,
                vocab_size=120, steps=8, batch_tokens=4 * 32, accumulation=2, max_length=32, checkpoint_every=3,
                log_every=2, holdout=0.1,
            )
        )  # fmt: skip

    return run


def recurrent_run(folder: Path, preset: str, objective: str) -> Callable[[Path], None]:
    """Recurrent language models: stateful, or forward and backward."""
    text = corpus(folder, 40)

    def run(output: Path) -> None:
        pretrain(
            PretrainConfig(
                corpus=(str(text),), output=output, preset=preset, objective=objective, vocab_size=120, steps=10,
                model={"hidden_size": 32, "num_hidden_layers": 1}, batch_tokens=4 * 32, max_length=32,
                checkpoint_every=3, log_every=2, holdout=0.1,
            )
        )  # fmt: skip

    return run


def translation_run(folder: Path) -> Callable[[Path], None]:
    """A translation model from scratch, with the averaged weights of its last epochs."""
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    rng = random.Random(3)
    for part, count in (("train", 48), ("dev", 8)):
        rows = [" ".join(rng.choices(["one", "two", "red", "cat", "sees"], k=rng.randint(2, 6))) for _ in range(count)]
        (folder / f"{part}.source.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
        (folder / f"{part}.target.txt").write_text("\n".join(row.upper() for row in rows) + "\n", encoding="utf-8")
    if not (folder / "tok").exists():
        sides = [folder / f"train.{side}.txt" for side in ("source", "target")]
        Tokenizer.train(sides, kind="word", vocab_size=40, lowercase=False).save(folder / "tok")

    def run(output: Path) -> None:
        finetune(
            FinetuneConfig(
                task="translation", train=folder / "train.source.txt", train_target=folder / "train.target.txt",
                dev=folder / "dev.source.txt", dev_target=folder / "dev.target.txt", output=output,
                preset="transformer-mini", tokenizer=folder / "tok",
                network={**TINY, "num_hidden_layers": 1, "num_decoder_layers": 1, "hidden_size": 32},
                epochs=3, lr=1e-3, warmup=5, batch_tokens=128, max_length=16, average_checkpoints=2,
                checkpoint_every=4, log_every=2,
            )
        )  # fmt: skip

    return run


def search_run(folder: Path) -> Callable[[Path], None]:
    """An index of several shards, and what is found in it."""
    from maskwright.inference import search

    (folder / "texts").mkdir(exist_ok=True)
    for number, document in enumerate(corpus(folder, 40).read_text(encoding="utf-8").split("\n\n")[:6]):
        (folder / "texts" / f"{number}.txt").write_text(document, encoding="utf-8")
    search.SHARD_BYTES = 10  # a shard for each file

    def run(output: Path) -> None:
        from inference.samples import tiny
        from maskwright.inference.embed import TextEncoder

        torch.set_num_threads(1)
        searcher = search.Searcher(TextEncoder(tiny(seed=1), normalize=True), passage_tokens=12)
        hits = searcher.search(str(folder / "texts"), ["the red cat", "an old house"], 5, output / "index")
        storage.write_json(output / "hits.json", [[hit.to_json() for hit in found] for found in hits])

    return run


RUNS = {
    "pretrain": pretrain_run,
    "finetune": finetune_run,
    "adapter": adapter_run,
    "distill": distill_run,
    "embeddings": embeddings_run,
    "translation": translation_run,
    "lstm": partial(recurrent_run, preset="lstm-small", objective="clm"),
    "search": search_run,
    "bilm": partial(recurrent_run, preset="elmo-small", objective="bilm"),
}


def fingerprint(output: Path) -> dict[str, str]:
    """SHA-256 of the final weights, and of every logged number but the times; of an index, of its files and hits."""
    if (output / "hits.json").exists():
        files = sorted(path for path in output.rglob("*") if path.is_file() and path.name != ".lock")
        return {path.relative_to(output).as_posix(): storage.sha256(path) for path in files}
    logs = []
    for path in sorted(output.rglob("metrics.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            logs.append({key: value for key, value in json.loads(line).items() if key not in TIMES})
    weights = next((output / "model").glob("*model.safetensors"))
    return {
        "weights": storage.sha256(weights),
        "log": hashlib.sha256(json.dumps(logs).encode()).hexdigest(),
    }


def spawn(run: Callable[[Path], None], output: Path, kill_at: int | None, counted: Path | None = None) -> int:
    """Fork the trainer. Returns the child's process id."""
    child = os.fork()
    if child:
        return child
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        progress.set_quiet(True)
        storage.fs = StoppingFileSystem(kill_at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        run(output)
        if counted is not None:
            counted.write_text(str(storage.fs.calls))
        os._exit(0)
    except BaseException as error:
        (output.parent / "error.txt").write_text(repr(error), encoding="utf-8")
        os._exit(1)


def finish(child: int) -> int:
    """Wait for a child; its exit code, negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_after(child: int, seconds: float) -> int:
    """SIGKILL a child after a while, if it still runs."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return finish(child)


def main() -> None:
    """Run the trials and print what came of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(RUNS))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=0, help="undisturbed runs that must equal the first")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    run = RUNS[arguments.kind](folder)
    began = time.monotonic()
    if finish(spawn(run, folder / "reference", None, folder / "calls.txt")):
        sys.exit(f"the undisturbed run failed: {(folder / 'error.txt').read_text()}")
    seconds, calls = time.monotonic() - began, int((folder / "calls.txt").read_text())
    wanted = fingerprint(folder / "reference")
    rng = random.Random(arguments.seed)
    kills = identical = runs = 0
    failures: list[str] = []
    repeated = 0
    for number in range(arguments.repeats):
        output = folder / f"again-{number}"
        code = finish(spawn(run, output, None))
        repeated += code == 0 and fingerprint(output) == wanted
        shutil.rmtree(output, ignore_errors=True)
    if repeated < arguments.repeats:
        failures.append(f"{arguments.repeats - repeated} of {arguments.repeats} undisturbed runs differ from the first")
    while kills < arguments.kills:
        output = folder / f"run-{runs}"
        runs += 1
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.5:
                code = finish(spawn(run, output, rng.randint(1, calls)))
            else:
                code = kill_after(spawn(run, output, None), rng.uniform(0, seconds))
            kills += code == -signal.SIGKILL
            if code > 0:
                failures.append(f"run {runs}: {(folder / 'error.txt').read_text()}")
            if code == 0:
                break
        code = finish(spawn(run, output, None))
        if code:
            failures.append(f"run {runs}, last start: exit {code}, {(folder / 'error.txt').read_text()}")
        elif fingerprint(output) == wanted:
            identical += 1
        else:
            failures.append(f"run {runs}: {fingerprint(output)} instead of {wanted}")
        shutil.rmtree(output, ignore_errors=True)
    print(
        json.dumps(
            {
                "kind": arguments.kind,
                "kills": kills,
                "runs": runs,
                "identical": identical,
                "repeats": arguments.repeats,
                "repeated": repeated,
                "disk_operations": calls,
                "seconds_undisturbed": round(seconds, 2),
                "threads": torch.get_num_threads(),
                "weights": wanted.get("weights", ""),
                "failures": failures,
            }
        )
    )


if __name__ == "__main__":
    main()
