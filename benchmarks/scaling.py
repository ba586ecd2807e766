"""Check the model of the step time of several processes here, and project it to machines that are not here.

    python benchmarks/scaling.py -o runs/scaling texts/

Two gloo processes on the CPUs of this machine: measures the speed of their link and the time of the small messages of a
step, then trains networks in one process and in two, and compares the step time of two with that of the model, and with
one process of two threads on the same global batch. The projection for GPUs is `speed.communication` with vendors'
peaks and links. Writes scaling.json and prints both tables.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from maskwright.core.storage import write_json  # noqa: E402
from maskwright.speed.plan import make_plan  # noqa: E402
from maskwright.speed.plan_config import PlanConfig  # noqa: E402

PRESETS = ("bert-tiny", "bert-mini")
SIZES = (512, 2048)  # tokens of a micro-batch
LOGGED = 4  # steps per logged time
REPEATS = 15
LINK = f"""
import json, os, statistics, time, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
world = dist.get_world_size()
def seconds(act):
    found = []
    for _ in range({REPEATS}):
        dist.barrier()
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return statistics.median(found[2:])
small = seconds(lambda: dist.all_reduce(torch.zeros(5, dtype=torch.int64)))
sizes = [1 << 20, 25 << 20]
times = [seconds(lambda: dist.all_reduce(torch.ones(size // 4))) for size in sizes]
if dist.get_rank() == 0:
    print(json.dumps({{"small": small, "bytes_per_second": (sizes[1] - sizes[0]) / (times[1] - times[0])}}))
os._exit(0)
"""


def main() -> None:
    """Measure, compare and project."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("runs/scaling"))
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="tokens of a micro-batch")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    link = json.loads(launch([2], ["-c", LINK]).splitlines()[-1])
    print(f"link {link['bytes_per_second'] / 1e9:.2f} GB/s, small messages {link['small'] * 1e6:,.0f} us")
    checks = [
        check(preset, tokens, link, options)
        for preset in options.presets.split(",")
        for tokens in map(int, options.sizes.split(","))
    ]
    for row in checks:
        print("| {preset} | {tokens:,} | {alone:.1f} | {together:.1f} | {model:.1f} | {error:+.0%} | {threads:.1f} | "
              "{scaling:.2f} |".format(**row))  # fmt: skip
    projected = projections()
    for row in projected:
        print("| {gpus} | {link} | {batch:,} | {step:.1f} | {exposed:.1f} | {agreement:.1f} | {efficiency:.0%} | "
              "{rate:,.0f} |".format(**row))  # fmt: skip
    write_json(options.output / "scaling.json", {"link": link, "checks": checks, "projections": projected})


def check(preset: str, tokens: int, link: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The step time of two processes, measured and by the model, in milliseconds.

    threads: that of one process with two threads on the same global batch; scaling: its fraction of `together`.
    """
    alone = train(options, preset, 1, tokens)
    together = train(options, preset, 2, tokens)
    threads = train(options, preset, 1, tokens, threads=2)
    parameters = make_plan(PlanConfig(preset=preset, vocab_size=8000, gpu="h100")).parameters
    # On a CPU the reduction takes the cores that compute, so nothing of it is hidden; a small message is.
    model = alone + 4 * parameters / link["bytes_per_second"]
    milliseconds = {"alone": 1e3 * alone, "together": 1e3 * together, "model": 1e3 * model, "threads": 1e3 * threads}
    ratios = {"error": model / together - 1, "scaling": threads / together}
    return {"preset": preset, "tokens": tokens, "parameters": parameters, **milliseconds, **ratios}


def train(options: argparse.Namespace, preset: str, world: int, tokens: int, threads: int = 1) -> float:
    """Train with one micro-batch of `tokens` in each of two processes; returns the median seconds of a step.

    world: 2 for one training of both; 1 for a training of each, at the same time, so that memory and cores are as busy.
    Then a step takes as long as that of the slower one. threads: 2 for one process with both micro-batches instead.
    """
    jobs, micro_batches = (1, 2) if threads == 2 else (3 - world, world)
    outputs = [options.output / f"{preset}-{tokens}-{world}-{threads}-{number}" for number in range(jobs)]
    command = ["-m", "maskwright", "pretrain", "--preset", preset, "--steps", str(options.steps), "--batch-tokens"]
    command += [str(tokens * micro_batches), "--accumulation", str(micro_batches), "--set", f"log_every={LOGGED}"]
    command += ["--precision", "fp32", "--set", "compile=off", "--holdout", "0", "--restart", "--quiet"]
    prepared = options.output / "prepared"
    if not prepared.exists():
        launch([1], [*command, "--vocab-size", "8000", "-o", str(prepared), str(options.corpus)])
    command += ["--tokenizer", str(prepared / "tokenizer"), str(prepared / "data"), "-o"]
    launch([world] * jobs, command, [str(output) for output in outputs], threads)
    found = [
        [json.loads(line) for line in (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for output in outputs
    ]
    seconds = [[record["seconds"] for record in log if "seconds" in record][1:] for log in found]
    return statistics.median(map(max, zip(*seconds, strict=True))) / LOGGED


def launch(worlds: list[int], command: list[str], outputs: Sequence[str] = ("",), threads: int = 1) -> str:
    """Run Python in jobs, at once; returns what the first process prints. worlds: processes of each, with `threads`.

    outputs: the last word of each job's command.
    """
    running = []
    for world, output in zip(worlds, outputs, strict=True):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        for rank in range(world):
            own = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"}
            environment = {**os.environ, **own}
            if world > 1:
                facts = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "MASTER_PORT": port}
                environment |= {"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in facts.items()}}
            words = [sys.executable, *command, *filter(None, [output])]
            running.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True))
    printed = [process.communicate(timeout=900)[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit(f"error: {' '.join(command[:4])} ended with {[process.returncode for process in running]}.")
    return printed[0]


def projections() -> list[dict[str, Any]]:
    """BERT-base on H100, by GPUs, link and tokens per step."""
    rows = []
    for batch in (1 << 17, 1 << 20, 1 << 23):
        for gpus in (8, 64, 512):
            for name in ("nvlink",) if gpus == 8 else ("400gb", "100gb"):
                if batch < 128 * gpus:
                    continue
                plan = make_plan(PlanConfig("bert-base", gpu="h100", gpus=gpus, interconnect=name, batch_tokens=batch))
                found = plan.communication
                assert found is not None
                rows.append({"gpus": gpus, "link": name, "batch": batch, "step": 1e3 * found.step,
                             "exposed": 1e3 * found.exposed, "agreement": 1e3 * found.agreement,
                             "efficiency": found.efficiency, "rate": plan.tokens_per_second})  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
