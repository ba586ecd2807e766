"""Preparing a corpus takes memory that does not grow with it."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

MEASURED = """
import pathlib, re, sys
from maskwright.data.prepare import prepare
from maskwright.text.tokenizers.tokenizer import Tokenizer
tokenizer = Tokenizer.train(sys.argv[1], "wordpiece", 500)
prepare(sys.argv[1], tokenizer, sys.argv[2], shard_tokens=1 << 18)
print(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
"""


def _peak(folder: Path, megabytes: int) -> float:
    """Peak memory in MB of preparing a corpus of documents that are all different."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 6))) for _ in range(3000)]
    source = folder / f"{megabytes}.txt"
    with source.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write("\n".join(" ".join(rng.choices(words, k=20)) for _ in range(8)) + "\n\n")
    command = [sys.executable, "-c", MEASURED, str(source), str(folder / f"{megabytes} MB")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(found.stdout.split()[-1]) / 1000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_four_times_the_text_takes_little_more_memory(tmp_path: Path):
    small, large = _peak(tmp_path, 6), _peak(tmp_path, 24)
    assert large - small < 18, f"{small:.0f} MB for 6 MB of text, {large:.0f} MB for 24 MB"
