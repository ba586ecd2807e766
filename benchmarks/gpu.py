"""Compare training and inference of BERT-base and -large with transformers on one GPU, in at most eight minutes.

Masked-LM pre-training at 128 and 512 tokens, fine-tuning, bulk inference and small requests: tokens per second, and
model FLOPs utilization (the operations for the real tokens, relative to the manufacturer's peak and to plain matrix
products measured in the same run). Each side runs in a separate process; they alternate. If the time is too short, the
last parts are skipped; skipped and failed parts are reported.

It runs from a checkout with the installed torch (2.5 or newer, built for CUDA), without installing the project. In the
folder of the checkout:

    python3 -c "import torch; print(torch.__version__, torch.cuda.get_device_name())"   # the torch that is used
    python3 -m pip install numpy tokenizers safetensors scikit-learn typer rich tomli-w  # what is missing of these
    python3 -m pip install transformers                                                  # optional, for the comparison
    python3 benchmarks/gpu.py --output gpu-run                                           # synthetic texts
    python3 benchmarks/gpu.py --output gpu-run --texts sentences.txt.xz                  # or one sentence per line
    python3 benchmarks/gpu.py --output gpu-run --earlier ../earlier                      # and another checkout of it
    python3 benchmarks/gpu.py --output try --device cpu --sizes tiny --seconds 0.5       # a test run

Results: OUTPUT/gpu.json and OUTPUT/gpu.md, rewritten after every measurement. OUTPUT/work may be deleted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Timer
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "on_gpu"), str(HERE.parent / "src")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from inputs import prepare_inputs  # noqa: E402
from tables import commit, table, version, write_part  # noqa: E402

from maskwright.core.gpus import gpu_from_driver_name  # noqa: E402
from maskwright.core.progress import note, set_quiet  # noqa: E402
from maskwright.core.storage import write_json  # noqa: E402
from maskwright.models.device import resolve_device, resolve_precision  # noqa: E402
from maskwright.models.presets import preset  # noqa: E402
from maskwright.speed.backend import BackendError, BackendProcess, centered_cosines  # noqa: E402
from maskwright.speed.workload import matrix_ceiling  # noqa: E402

OURS, EARLIER, PEER = "maskwright", "maskwright of --earlier", "transformers"
SIZES = {"base": "bert-base", "large": "bert-large", "tiny": "bert-tiny"}
TOKENS = {"base": 32_768, "large": 16_384, "tiny": 512}  # of a micro-batch
VOCABULARY = {"tiny": 2_000}
REQUESTS = [1, 8, 32]  # texts of a small request
LEAST = 2.0  # seconds of the steps or calls that count, in one measurement
OVERHEAD = 25.0  # seconds that a measurement takes besides: loading, warm-up, compiling
HALVINGS = 3  # of the batch, when memory does not suffice
PACKAGES = ("torch", "transformers", "tokenizers", "triton", "numpy")


@dataclass(frozen=True)
class Measurement:
    """part: "pretrain", "finetune" or "embed"; kind: "auto", or another way of the same contender (see ours, peer)."""

    part: str
    size: str
    contender: str
    length: int = 0
    kind: str = "auto"

    @property
    def name(self) -> str:
        """For people."""
        length = f" {self.length}" if self.length else ""
        return f"{self.part}{length} {self.size}, {self.contender}{'' if self.kind == 'auto' else f' ({self.kind})'}"


def plan(sizes: list[str], contenders: Sequence[str]) -> list[Measurement]:
    """What is measured, the most wanted first: where the time ends, what is left is cut."""
    first, others = sizes[0], sizes[1:]
    found = [Measurement("pretrain", first, who, 128) for who in contenders]
    found += [Measurement("embed", first, who) for who in contenders]
    found += [Measurement("pretrain", first, who, 512) for who in contenders]
    found += [Measurement("finetune", first, who) for who in contenders]
    found += [Measurement("pretrain", first, PEER, 128, "compiled"), Measurement("pretrain", first, OURS, 128, "plain")]
    for size in others:
        found += [Measurement("pretrain", size, who, length) for length in (128, 512) for who in contenders]
        found += [Measurement(part, size, who) for part in ("embed", "finetune") for who in contenders]
    return [one for one in found if one.contender in contenders]


class Contest:
    """Sends requests to the backends; one that fails is restarted for the next measurement."""

    def __init__(self, options: argparse.Namespace, precision: str, device: torch.device) -> None:
        self.options, self.precision, self.device = options, precision, device
        self.children: dict[str, BackendProcess] = {}

    def measure(self, one: Measurement, seconds: float, limit: float) -> dict[str, Any]:
        """Return the figures of a measurement. A batch that does not fit is halved with a note. Raises BackendError."""
        settings: dict[str, Any] = {
            "folder": str(self.options.output / "work"), "size": one.size, "seconds": seconds,
            "device": str(self.device), "precision": self.precision, "kind": one.kind,
        }  # fmt: skip
        if one.part == "embed":
            return self._ask(one, limit, **settings, requests=REQUESTS)
        if one.part == "finetune":
            return self._ask(one, limit, **settings)
        tokens = self.options.tokens or TOKENS[one.size]
        for halvings in range(HALVINGS + 1):
            sequences = max((tokens >> halvings) // one.length, 1)
            try:
                return self._ask(one, limit, **settings, length=one.length, sequences=sequences)
            except BackendError as error:
                if "OutOfMemory" not in str(error) or halvings == HALVINGS:
                    raise
                note(f"{one.name}: {sequences} sequences do not fit")
        raise AssertionError("every way out of the loop returns or raises")

    def close(self) -> None:
        """End the children."""
        for child in self.children.values():
            child.close()
        self.children.clear()

    def _ask(self, one: Measurement, limit: float, **settings: Any) -> dict[str, Any]:
        if one.contender not in self.children:
            home = HERE.parent if one.contender != EARLIER else self.options.earlier
            script = home / "benchmarks" / "on_gpu" / ("peer.py" if one.contender == PEER else "ours.py")
            command = ["env", f"PYTHONPATH={home / 'src'}", sys.executable, str(script)]
            self.children[one.contender] = BackendProcess(one.contender, command, self.options.threads)
        child = self.children[one.contender]
        given_up = Event()
        watch = Timer(limit, lambda: (given_up.set(), child.stop()))
        watch.start()
        try:
            found: dict[str, Any] = child.ask(one.part, **settings)
            return found
        except BackendError as error:
            if "OutOfMemory" not in str(error):  # a GPU error spoils the process that met it
                self.children.pop(one.contender).close()
            if given_up.is_set():
                raise BackendError(f"given up after {limit:.0f} seconds") from None
            raise
        finally:
            watch.cancel()


def main() -> None:
    """Prepare, measure until the time is up, write."""
    options = parse()
    set_quiet(options.quiet)
    end = time.monotonic() + 60 * options.minutes
    device = resolve_device(options.device)
    precision = resolve_precision(options.precision, device, training=True)
    sizes = options.sizes.split(",")
    options.output = options.output.resolve()
    options.earlier = options.earlier and options.earlier.resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    vocab_size = min(VOCABULARY.get(size, 30_522) for size in sizes)
    note("preparing texts, tokenizer, shards and models")
    named = {size: SIZES[size] for size in sizes}
    prepare_inputs(options.output / "work", named, options.texts, options.count, vocab_size)
    found: dict[str, Any] = {
        "machine": machine(options, device, precision, sizes),
        "measured": [],
        "cut": [],
        "failed": [],
    }
    contest = Contest(options, precision, device)
    contenders = [OURS, *([EARLIER] if options.earlier else []), *([PEER] if find_spec(PEER) else [])]
    wanted = [one for one in plan(sizes, contenders) if options.only in one.name]
    if PEER not in contenders:
        found["failed"].append({"name": PEER, "why": "it is not installed"})
    try:
        for number, one in enumerate(wanted):
            remaining = end - time.monotonic()
            if remaining < OVERHEAD + LEAST:
                found["cut"].append(one.name)
                continue
            note(f"{one.name} ({remaining:.0f} s left)")
            try:
                seconds = min(max(remaining / (len(wanted) - number) - OVERHEAD, LEAST), options.seconds)
                own = contest.measure(one, seconds, min(remaining, options.limit))
                found["measured"].append({**vars(one), "name": one.name, **own})
            except BackendError as error:
                found["failed"].append({"name": one.name, "why": str(error)})
                note(f"failed: {error}")
            write(found, options.output)
    finally:
        contest.close()
    found["machine"]["seconds"] = 60 * options.minutes - (end - time.monotonic())
    write(found, options.output)
    note(f"{options.output / 'gpu.md'}")


def write(found: dict[str, Any], output: Path) -> None:
    """The results so far."""
    write_json(output / "gpu.json", found)
    facts = found["machine"]
    lines = [f"## {facts['name']}, {facts['precision']}, commit {facts['commit']}", ""]
    lines += table({"": {"peak": facts["peak"] or "not known", **facts["ceilings"], **facts["versions"]}})
    for part in dict.fromkeys(one["part"] for one in found["measured"]):
        rows = {one["name"]: {**one, **shares(one, facts)} for one in found["measured"] if one["part"] == part}
        lines += ["", f"## {part}", "", *table(rows, "tokens per second")]
    for size in dict.fromkeys(one["size"] for one in found["measured"]):
        embedded = [one for one in found["measured"] if one["size"] == size and "vectors" in one]
        own = {one["contender"]: np.array(one["vectors"]) for one in embedded}
        for who in set(own) - {OURS} if OURS in own else ():
            cosine = centered_cosines(own[OURS], own[who]).min()
            lines += [f"\nVectors compared: {size}, {who}, lowest centered cosine {cosine:.4f}."]
    lines += [f"\nCut, because the time was up: {'; '.join(found['cut'])}."] if found["cut"] else []
    lines += [f"\nFailed: {one['name']}: {one['why']}" for one in found["failed"]]
    write_part(output / "gpu.md", "gpu", lines, "On one GPU")


def shares(one: dict[str, Any], facts: dict[str, Any]) -> dict[str, float | None]:
    """Model FLOPs utilization: of the manufacturer's peak, and of plain matrix products; None if unknown."""
    of = {"of the peak": facts["peak"], "of plain products": facts["ceilings"].get(one["size"])}
    return {name: one["flops_per_second"] / most if most else None for name, most in of.items()}


def machine(options: argparse.Namespace, device: torch.device, precision: str, sizes: list[str]) -> dict[str, Any]:
    """Where and with what it was measured; peaks and ceilings in operations a second."""
    is_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if is_gpu else "no GPU: CPU"
    known = gpu_from_driver_name(name) if is_gpu else None
    networks = {size: preset(SIZES[size]) for size in sizes}
    return {
        "device": str(device),
        "name": name,
        "memory": torch.cuda.get_device_properties(device).total_memory if is_gpu else None,
        "peak": None if known is None else known.peak(precision),
        "peak_source": None if known is None else f"{known.title}: {known.source}, not looked up again",
        "ceilings": {
            size: matrix_ceiling(network.hidden_size, network.intermediate_size, precision, device, seconds=0.5)
            for size, network in networks.items()
        },
        "precision": precision,
        "cuda": torch.version.cuda,
        "versions": {name: version(name) for name in PACKAGES},
        "commit": commit(),
        "python": sys.version.split()[0],
        "options": {name: str(value) for name, value in vars(options).items()},
    }


def parse() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("gpu-run"))
    parser.add_argument("--device", default="auto", help="auto, cuda, or cpu to try the script")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--sizes", default="base,large", help=f"of {', '.join(SIZES)}; the first matters most")
    parser.add_argument("--only", default="", help="measurements whose name has this, such as 'pretrain 128'")
    parser.add_argument("--earlier", type=Path, help="folder of another checkout to measure as well")
    parser.add_argument("--texts", type=Path, help="one sentence per line, optionally .xz; default: synthetic")
    parser.add_argument("--count", type=int, default=20_000, help="sentences")
    parser.add_argument("--tokens", type=int, help="of a pre-training step  [default: 32,768, large 16,384]")
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything")
    parser.add_argument("--seconds", type=float, default=12.0, help="of one measurement at most, once it is warm")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a measurement is given up")
    parser.add_argument("--threads", type=int, help="of each process on the CPU")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
