"""The recipes of the model english and of its task heads, at a size of seconds."""

from __future__ import annotations

import json
import lzma
import random
import sys
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from maskwright.core import storage
from maskwright.hub.folders import load_model, read_facts
from maskwright.hub.sentence import declared_by
from maskwright.text.tokenizers.tokenizer import Tokenizer
from train.runs import corpus, sentence_teacher

WORDS = "the a cat dog bird sees likes finds small red old house tree river and then it was here he she".split()  # noqa: SIM905


@pytest.fixture
def english(monkeypatch: pytest.MonkeyPatch):
    """The recipe as a module."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    import english

    return english


def write_data(folder: Path) -> Path:
    """The files that the recipe and its scores read, small."""
    draws = random.Random(3)

    def text() -> str:
        return " ".join(draws.choices(WORDS, k=draws.randint(4, 9))) + " ."

    def table(*columns: str, rows: int = 12) -> bytes:
        return "\n".join(["\t".join(columns), *("\t".join(text() for _ in columns) for _ in range(rows))]).encode()

    def labeled(rows: int) -> bytes:
        lines = [f"{text()}\t{draws.choice(['World', 'Sports'])}" for _ in range(rows)]
        return "\n".join(["text\tlabel", *lines]).encode()

    def plain() -> bytes:
        return "\n\n".join("\n".join(text() for _ in range(draws.randint(2, 25))) for _ in range(20)).encode()

    def squad() -> bytes:
        paragraphs = [{"context": f"{text()} {text()}", "qas": [{"question": "What is here?"}]} for _ in range(4)]
        return json.dumps({"data": [{"paragraphs": paragraphs}]}).encode()

    def lines(*names: str) -> bytes:
        return "\n".join(json.dumps({name: text() for name in names}) for _ in range(12)).encode()

    files = {f"pretraining_text/{name}.txt.xz": plain() for name in ("wikipedia", "novels", "textbooks", "speeches")}
    files |= {
        f"{name}/train.json.xz": squad() for name in ("squad1", "squad2", "squadshifts_wiki", "squadshifts_amazon")
    }
    files |= {
        "qnli/train.tsv": table("question", "sentence", "label"),
        "snli/train.tsv": table("premise", "hypothesis", "label"),
        "banking77/train.tsv": table("text", "label"),
        "sms_spam/train.tsv": table("text", "label"),
        "tatoeba_en_fr/train.tsv.xz": table("en", "fr"),
        "arc_easy/train.jsonl": lines("question", "context"),
        "codah/train.jsonl": lines("context"),
        "agnews/train.tsv": labeled(600),
        "agnews/dev.tsv": labeled(30),
    }
    pairs = [f"{text()}\t{text()}\t{draws.uniform(0, 5):.2f}" for _ in range(20)]
    files["stsb/dev.tsv"] = "\n".join(["sentence1\tsentence2\tscore", *pairs]).encode()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    return folder


@pytest.mark.slow
def test_the_stages_make_a_model_and_the_same_command_does_nothing_twice(
    english, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    data = write_data(tmp_path / "data")
    text = corpus(tmp_path)
    with text.open("a", encoding="utf-8") as lines:
        lines.write("\n" + "he she " * 50 + "\n")  # whose probabilities the card compares
    teacher = sentence_teacher(text, tmp_path / "teacher")
    monkeypatch.setenv("MASKWRIGHT_DATA", str(data))
    monkeypatch.setattr(english, "teacher_folder", lambda: teacher)
    monkeypatch.setattr(english, "LAYERS", (0, 1))
    monkeypatch.setattr(english, "VOCAB_SIZE", 90)
    words = ["english.py", "-o", str(tmp_path / "out"), "--files", "3", "--tokens", "3000"]
    monkeypatch.setattr(sys, "argv", words)
    printed = []
    for _ in range(2):
        english.main()
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1] == json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    assert {"stsb_dev_spearman", "agnews_500_probe", "agnews_500_tfidf", "cosine", "mlm_accuracy"} <= set(printed[0])
    folder = tmp_path / "out" / "model"
    model, report = load_model(folder)
    assert model.head_name == "mlm" and not report.new and declared_by(folder).normalize
    facts = read_facts(folder)
    assert facts["tokens"] > 3000 and facts["text"] and facts["teacher"]["license"] == "Apache-2.0"
    assert str(tmp_path) not in (folder / "maskwright.json").read_text(encoding="utf-8")
    shared = ["--text", str(tmp_path / "out/text"), "--embeddings", str(tmp_path / "out/embeddings")]
    start = ["--start", str(tmp_path / "out/run/model")]
    monkeypatch.setattr(sys, "argv", ["english.py", "-o", str(tmp_path / "more"), *words[3:], *shared, *start])
    english.main()
    more, _ = load_model(tmp_path / "more" / "model")
    assert more.tokenizer.files() == model.tokenizer.files()
    later = read_facts(tmp_path / "more" / "model")
    assert (
        later["initialization"] == facts["initialization"] == "the teacher's 2 layers, and its embeddings of 90 tokens"
    )
    assert later["tokens"] > facts["tokens"]


def test_the_student_starts_with_layers_and_subword_embeddings_of_the_teacher(english, tmp_path: Path):
    import english_start

    folder = sentence_teacher(corpus(tmp_path), tmp_path / "teacher")
    teacher, _ = load_model(folder)
    tokenizer = Tokenizer.train([str(tmp_path / "corpus.txt")], kind="wordpiece", vocab_size=60)
    student = english_start.teachers_layers(folder, (1,), tokenizer)
    theirs, ours = dict(teacher.named_parameters()), dict(student.named_parameters())
    last = "ffn.down.weight"
    assert ours[f"encoder.layers.0.{last}"].equal(theirs[f"encoder.layers.1.{last}"])
    for index in range(tokenizer.vocab_size):
        token = tokenizer.id_to_token(index)
        known = teacher.tokenizer.token_to_id(token)
        ids = [known] if known is not None else teacher.tokenizer.encode_plain([token.removeprefix("##")])[0]
        assert student.word_embeddings[index].allclose(teacher.word_embeddings[ids].mean(dim=0)), token


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch):
    """The recipe as a module."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    import english_heads

    return english_heads


@pytest.mark.slow
def test_a_head_is_an_adapter_with_data_license_and_scores(heads, tmp_path, monkeypatch, capsys):
    rows = [("call now and win a prize", "spam"), ("see you at home tonight", "ham")] * 8
    for part in ("train", "dev"):
        lines = ["text\tlabel", *(f"{text} {number}\t{label}" for number, (text, label) in enumerate(rows))]
        storage.write_text(tmp_path / "data" / "sms_spam" / f"{part}.tsv", "\n".join(lines) + "\n")
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "argv", ["english_heads.py", "spam", "-o", str(tmp_path / "out"), "--epochs", "1"])
    heads.main()
    assert "| `english-spam` | accuracy |" in capsys.readouterr().out
    folder = tmp_path / "out" / "spam" / "model"
    facts = read_facts(folder)
    assert facts["data"]["license"] and facts["about"] and facts["scores"]["low"] <= facts["scores"]["score"]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1e6
    model, _ = load_model(folder)
    assert model.adapter is not None and model.adapter.base == "english" and model.labels == ("ham", "spam")
    before = (folder / "adapter_model.safetensors").stat().st_mtime_ns
    heads.main()
    assert (folder / "adapter_model.safetensors").stat().st_mtime_ns == before
