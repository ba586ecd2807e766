"""The demos, run as `make demo` runs them, on a few rows."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    with (EXAMPLES / "support_tickets.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))[:100]
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, ["text", "label"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows[:60])
    documents = [row["text"].replace(". ", ".\n") for row in rows[60:]]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--from-scratch"]], ids=["english", "from scratch"])
def test_a_demo_compares_classifiers_and_writes_its_report(more: list[str], files: Path, tmp_path: Path):
    words = ["--corpus", files / "corpus.txt", "--labels", files / "rows.csv", "--steps", "3", "--seeds", "1"]
    command = [sys.executable, EXAMPLES / "demo.py", *words, "-o", tmp_path / "out", *more]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "TF-IDF" in result.stdout and "The report:" in result.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(results) >= 3 and all(0 <= score <= 1 for scores in results.values() for score in scores)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Maskwright demo" in page and "TF-IDF" in page
