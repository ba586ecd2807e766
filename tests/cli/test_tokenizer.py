"""The tokenizer commands: JSON alone on standard output, faults in one sentence with exit code 2, no half files."""

import json

import pytest

from maskwright.core import registry
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS, KINDS


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(CORPUS * 3), encoding="utf-8")
    return path


@pytest.fixture
def command(maskwright):
    """Run `maskwright tokenizer ...`; returns what `maskwright` does."""
    return lambda *words: maskwright("tokenizer", *words)


@pytest.mark.parametrize("kind", KINDS)
def test_train_writes_a_folder_and_prints_its_facts(command, corpus, tmp_path, kind):
    code, out, _ = command("train", "--kind", kind, "--vocab-size", 300, "-o", tmp_path / "tok", corpus, "--json")
    facts = json.loads(out)
    tokenizer = Tokenizer.load(tmp_path / "tok")
    assert (code, facts["kind"], facts["vocab_size"]) == (0, kind, tokenizer.vocab_size)
    assert tokenizer.kind == kind and facts["texts"] == len(CORPUS) * 3


def test_training_twice_into_one_folder_is_refused_and_changes_nothing(command, corpus, tmp_path):
    command("train", "--kind", "word", "-o", tmp_path / "tok", corpus)
    before = {path.name: path.read_bytes() for path in (tmp_path / "tok").iterdir()}
    code, _, err = command("train", "--kind", "char", "-o", tmp_path / "tok", corpus)
    assert code == 2 and "not empty" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "tok").iterdir()} == before


def test_bad_rows_are_listed_or_skipped_and_counted(command, tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = ['{"text": "the old man"}', '{"other": 1}', "no json", '{"text": "the road"}']
    path.write_text("\n".join(rows), encoding="utf-8")
    code, _, err = command("train", "--kind", "word", "-o", tmp_path / "tok", path)
    assert code == 2 and "rows.jsonl:2" in err and "rows.jsonl:3" in err and not (tmp_path / "tok").exists()
    code, out, _ = command("train", "--kind", "word", "-o", tmp_path / "tok", path, "--skip-bad-rows", "--json")
    assert code == 0 and json.loads(out)["skipped_rows"] == 2
    assert Tokenizer.load(tmp_path / "tok").facts["skipped_rows"] == 2


def test_encode_and_decode_give_what_python_gives(command, corpus, tmp_path):
    command("train", "--vocab-size", 200, "-o", tmp_path / "tok", corpus)
    tokenizer = Tokenizer.load(tmp_path / "tok")
    words = ("encode", tmp_path / "tok", "The oldest man", "walked zzz☃", "--max-length", 7)
    code, out, _ = command(*words, "--json")
    expected = tokenizer("The oldest man", "walked zzz☃", max_length=7)
    found = json.loads(out)
    assert code == 0 and found["ids"] == expected.ids and found["num_truncated"] == expected.num_truncated > 0
    assert [tuple(place) for place in found["offsets"]] == expected.offsets
    _, out, err = command(*words)
    assert "[CLS]" in out and "0-3" in out and f"Left out: {expected.num_truncated}" in err
    _, out, _ = command("encode", tmp_path / "tok", "unlearned", "--marks", "left")
    assert "## " in out and out.replace("## ", "").strip() == "unlearned"
    ids = [str(id) for id in tokenizer("the oldest man").ids]
    assert command("decode", tmp_path / "tok", *ids)[1] == "the oldest man\n"
    assert json.loads(command("decode", tmp_path / "tok", *ids, "--keep-special", "--json")[1])["text"].endswith(
        "[SEP]"
    )
    code, _, err = command("decode", tmp_path / "tok", "99999")
    assert code == 2 and "not in the vocabulary" in err


def test_explain_prints_the_lectures_steps(command):
    words = ("explain", "--kind", "bpe", "--words", "old:7,older:3,finest:9,lowest:4", "--merges", 5)
    code, out, _ = command(*words, "--encode", "oldest,estimate")
    assert code == 0 and "Merges in order: es, est, est</w>, ol, old" in out
    assert "e                16 - 13 = 3" in out and "-> old est</w>" in out and "est i m a t e </w>" in out
    found = json.loads(command(*words, "--json")[1])
    assert [merge["merged"] for merge in found["merges"]] == ["es", "est", "est</w>", "ol", "old"]
    assert list(found["symbols"].values()) == [23, 14, 14, 10, 16, 3, 9, 9, 9, 13, 13, 4]
    scored = json.loads(command(*words[:2], "wordpiece-score", *words[3:], "--json")[1])
    assert (scored["merges"][0]["merged"], scored["merges"][0]["score"]) == ("lo", 0.25)
    code, _, err = command("explain", "--words", "old")
    assert code == 2 and "WORD:COUNT" in err


def test_compare_prints_every_kind(command, corpus):
    found = json.loads(command("train", "--compare", corpus, "--vocab-size", 300, "--json", "--quiet")[1])
    assert [measures["name"] for measures in found["measures"]] == registry.names("tokenizer")
    assert all(0 <= measures["unk_rate"] <= 1 for measures in found["measures"])
    code, out, _ = command("train", "--compare", corpus, "--vocab-size", 60, "--kind", "word", "--kind", "char")
    assert code == 0 and "every tenth document was held out" in out
