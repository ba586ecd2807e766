"""Semantic search: hits and their offsets, the index, and rejected input."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from failing_disk import FailingFileSystem
from inference.samples import tiny
from maskwright.core import storage
from maskwright.core.errors import CorruptFileError, MaskwrightError, RowErrors, RunError, StorageError
from maskwright.inference import search as search_module
from maskwright.inference.embed import TextEncoder
from maskwright.inference.late import LateEncoder
from maskwright.inference.search import Searcher
from maskwright.models.model import LateInteraction, SentenceSettings

TEXTS = {
    "cats.txt": "\ufeffthe cat sat on the mat .\r\n\r\ndogs chase cats 🙂 in the garden\n",
    "rain.txt": "rain fell\n\npenguins are flightless birds ! the the the\n",
    "sub/milk.jsonl": json.dumps({"text": "she bought a gallon of milk. Naïve café テスト"}) + "\n",
}


def folder_of(root: Path, texts: dict[str, str] = TEXTS) -> Path:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("utf-8"))
    return root


def searcher(seed: int = 1, **options) -> Searcher:
    return Searcher(TextEncoder(tiny(seed=seed), normalize=True), **options)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "texts")


def test_a_passage_finds_itself_and_its_span_is_the_sources_characters(texts: Path):
    queries = ["dogs chase cats 🙂 in the garden", "she bought a gallon of milk. Naïve café テスト"]
    found = searcher().search(str(texts), queries, top_k=2)
    first, second = found[0][0], found[1][0]
    assert first.score == pytest.approx(1.0, abs=1e-5) and Path(first.file).name == "cats.txt"
    source = (texts / "cats.txt").read_bytes().decode("utf-8")
    own = first.passage
    assert source[own.start : own.end] == own.text == queries[0] and own.line == 3
    row = json.loads((texts / "sub/milk.jsonl").read_text(encoding="utf-8"))["text"]
    assert row[second.passage.start : second.passage.end] == queries[1]
    start, end = second.sentence
    assert row[start:end] in ("she bought a gallon of milk.", "Naïve café テスト")


def test_all_passages_are_compared_exactly(texts: Path):
    one = searcher(passage_tokens=6)
    hits = one.search(str(texts), ["the garden"], top_k=100)[0]
    assert len(hits) == one.passages
    vectors = one.encoder.vectors(["the garden", *(hit.passage.text for hit in hits)])
    scores = vectors[1:] @ vectors[0]
    assert [hit.score for hit in hits] == pytest.approx(scores.tolist(), abs=1e-5)
    assert np.all(np.diff(scores) <= 1e-6)


def test_late_interaction_ranks_by_maxsim_with_and_without_an_index(texts: Path, tmp_path: Path):
    model = tiny(seed=1)
    late = LateInteraction(query_length=9, fill_to=9, skipped=(".", "!"))
    encoder = LateEncoder(model, SentenceSettings(normalize_tokens=True, late=late))
    queries = ["the garden", "milk ."]
    first = Searcher(encoder, passage_tokens=6).search(str(texts), queries, 100)
    for query, hits in zip(queries, first, strict=True):
        scores = encoder.scores([query], [hit.passage.text for hit in hits])[0]
        assert [hit.score for hit in hits] == pytest.approx(scores.tolist(), abs=1e-5)
        assert np.all(np.diff(scores) <= 1e-6) and len(hits) > 4
    for _ in range(2):  # built, then read
        again = Searcher(encoder, passage_tokens=6)
        found = again.search(str(texts), queries, 100, index=tmp_path / "index")
        assert [[hit.score for hit in hits] for hits in found] == [
            pytest.approx([hit.score for hit in hits], abs=1e-5) for hits in first
        ]
    assert again.embedded == 0
    with pytest.raises(RunError, match="late"):
        other = SentenceSettings(normalize_tokens=True, late=replace(late, skipped=()))
        Searcher(LateEncoder(model, other), passage_tokens=6).search(str(texts), queries, index=tmp_path / "index")


@pytest.mark.compatibility(
    "sentence-transformers 6.2",
    theirs="`encode_document` never puts a prompt named `passage` or `corpus` before texts: an empty one named "
    "`document` is always found first.",
    ours="`search`, `/rerank` and `for_role` put it before passages.",
)
def test_queries_and_passages_have_their_own_prompts(texts: Path, tmp_path: Path):
    model, prompts = tiny(seed=1), {"query": "the ", "passage": "cat "}
    encoder = TextEncoder(model, normalize=True, declared=SentenceSettings(prompts=prompts))
    hit = Searcher(encoder).search(str(texts), ["rain"], 1)[0][0]
    plain = TextEncoder(model, normalize=True)
    vectors = plain.vectors(["the rain", "cat " + hit.passage.text])
    assert hit.score == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    for one, other in ((encoder, plain), (plain, encoder)):
        Searcher(one).search(str(texts), ["rain"], index=tmp_path / str(id(one)))
        with pytest.raises(RunError, match="prompt"):
            Searcher(other).search(str(texts), ["rain"], index=tmp_path / str(id(one)))


def test_blocks_shards_and_an_index_change_nothing(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    queries = ["the cat", "rain"]
    plain = searcher(passage_tokens=5).search(str(texts), queries, 3)
    monkeypatch.setattr(search_module, "BLOCK_PASSAGES", 2)
    monkeypatch.setattr(search_module, "SHARD_BYTES", 10)
    monkeypatch.setattr("maskwright.inference.search.BLOCK_ROWS", 1)
    kept = searcher(passage_tokens=5).search(str(texts), queries, 3, tmp_path / "index")
    for one, other in zip(plain, kept, strict=True):
        assert [(hit.file, hit.passage) for hit in one] == [(hit.file, hit.passage) for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6)


def test_only_new_content_is_embedded_again(texts: Path, tmp_path: Path):
    index = tmp_path / "index"

    def counted() -> tuple[int, int]:
        own = searcher()
        own.search(str(texts), ["cat"], 1, index)
        return own.embedded, own.unchanged

    assert counted() == (3, 0) and counted() == (0, 3)
    (texts / "twin.txt").write_bytes((texts / "rain.txt").read_bytes())
    assert counted() == (0, 4), "equal files are embedded once"
    (texts / "twin.txt").unlink()
    (texts / "rain.txt").rename(texts / "weather.txt")
    assert counted() == (0, 3), "a renamed file has its vectors"
    (texts / "weather.txt").write_text("snow fell on the garden\n", encoding="utf-8")
    assert counted() == (1, 2)
    hits = searcher().search(str(texts), ["snow fell on the garden", "penguins are flightless birds"], 20, index)
    assert hits[0][0].passage.text == "snow fell on the garden"
    assert not any("penguins" in hit.passage.text for hit in hits[1]), "what is gone is not found"
    (texts / "cats.txt").unlink()
    assert counted() == (0, 2) and len(list((index / "shards").glob("*"))) == 2


def test_another_model_or_setting_is_refused_until_restart(texts: Path, tmp_path: Path):
    index = tmp_path / "index"
    searcher().search(str(texts), ["cat"], 1, index)
    with pytest.raises(RunError, match="another model"):
        searcher(seed=2).search(str(texts), ["cat"], 1, index)
    with pytest.raises(RunError, match="other settings .passage_tokens"):
        searcher(passage_tokens=5).search(str(texts), ["cat"], 1, index)
    anew = searcher(seed=2)
    anew.search(str(texts), ["cat"], 1, index, restart=True)
    assert anew.embedded == 3


def test_a_folder_that_is_no_index_is_left_alone(texts: Path, tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    for restart in (False, True):
        with pytest.raises(RunError, match="not an index"):
            searcher().search(str(texts), ["cat"], 1, tmp_path / "mine", restart=restart)
    assert (tmp_path / "mine" / "thesis.txt").read_text(encoding="utf-8") == "years of work"


@pytest.mark.parametrize(
    "change",
    [{"shard": "../../secret"}, {"start": -1}, {"count": "3"}, {"count": 10**6}, {"other": 1}, {"sha256": None}],
)
def test_an_index_that_was_tampered_with_is_not_followed(texts: Path, tmp_path: Path, change: dict):
    index = tmp_path / "index"
    searcher().search(str(texts), ["cat"], 1, index)
    stored = json.loads((index / "index.json").read_text(encoding="utf-8"))
    for entry in stored["files"].values():
        entry.update(change)
    del stored["sha256"]
    storage.write_checked_json(index / "index.json", stored)
    with pytest.raises(CorruptFileError, match="--restart"):
        searcher().search(str(texts), ["cat"], 1, index)


def damage(path: Path, other: Path, rng: random.Random) -> None:
    """Change a file of an index as disks and people do: a bit, a cut, another file's content, no content, no file."""
    data = bytearray(path.read_bytes())
    how = rng.choice(["flip", "flip", "cut", "swap", "empty", "remove"])
    if how == "flip":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[rng.randrange(len(data)) :]
    elif how == "swap":
        data[:] = other.read_bytes()
    else:
        data.clear()
    path.write_bytes(data)
    if how == "remove":
        path.unlink()


def test_every_corruption_is_detected_and_names_the_file(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """25 changes; a removed index.json is an index that was never finished, and is built again with equal results."""
    monkeypatch.setattr(search_module, "SHARD_BYTES", 10)
    index, own = tmp_path / "index", searcher()
    hits = own.search(str(texts), ["cat"], 3, index)
    whole = tmp_path / "whole"
    shutil.copytree(index, whole)
    files = sorted(path.relative_to(whole) for path in whole.rglob("*.*") if path.name != ".lock")
    assert len(files) == 1 + 3 * 3  # index.json; vectors, passages and manifest of three shards
    rng, undetected = random.Random(4), 0
    for _ in range(25):
        name = rng.choice(files)
        others = [file for file in files if file.name == name.name and file != name]
        damage(index / name, whole / rng.choice(others or files[:1]), rng)
        changed = (index / name).read_bytes() if (index / name).exists() else None
        if changed == (whole / name).read_bytes() or (changed is None and name.name == "index.json"):
            assert own.search(str(texts), ["cat"], 3, index) == hits
            undetected += 1
        else:
            with pytest.raises(CorruptFileError, match=name.name) as caught:
                own.search(str(texts), ["cat"], 3, index)
            assert "--restart" in str(caught.value)
        if rng.random() < 0.2:
            assert own.search(str(texts), ["cat"], 3, index, restart=True) == hits
        shutil.rmtree(index)
        shutil.copytree(whole, index)
    assert undetected < 5


def test_a_full_disk_leaves_an_index_that_is_resumed_or_replaced(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search_module, "SHARD_BYTES", 10)
    counting = FailingFileSystem(fail_at=0)
    monkeypatch.setattr(storage, "fs", counting)
    own = searcher()
    hits = own.search(str(texts), ["cat"], 3, tmp_path / "counted")
    assert counting.calls > 60
    for fail_at in range(1, counting.calls + 1, 8):
        index = tmp_path / f"at-{fail_at}"
        monkeypatch.setattr(storage, "fs", FailingFileSystem(fail_at))
        with pytest.raises(StorageError, match="No space left"):
            own.search(str(texts), ["cat"], 3, index)
        monkeypatch.setattr(storage, "fs", storage.FileSystem())
        assert own.search(str(texts), ["cat"], 3, index, restart=fail_at % 2 == 0) == hits


def test_bad_lines_of_all_files_are_named_before_anything_is_embedded(tmp_path: Path):
    folder = folder_of(tmp_path / "texts", {"a.txt": "the cat\n"})
    (folder / "b.txt").write_bytes(b"na\xefve\nrain fell\n")
    (folder / "c.jsonl").write_bytes(b'{"text": "dogs"}\n{"text": 3}\n')
    with pytest.raises(RowErrors) as caught:
        searcher().search(str(folder), ["cat"], 1, tmp_path / "index")
    assert [(Path(error.file).name, error.line) for error in caught.value.rows] == [("b.txt", 1), ("c.jsonl", 2)]
    assert not (tmp_path / "index" / "index.json").exists()
    for source, queries, top_k, error in (
        ("-", ["cat"], 1, "requires files"),
        (str(folder), [" "], 1, "empty"),
        (str(folder), ["a"], 0, "top_k"),
    ):
        with pytest.raises(MaskwrightError, match=error):
            searcher().search(source, queries, top_k)
    own = searcher(skip_bad_rows=True)
    own.search(str(folder), ["cat"], 1)
    assert own.passages == 3
