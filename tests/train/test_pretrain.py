"""A pre-training run as a user meets it: files, continuing, refusing, failing."""

import io
from dataclasses import replace

import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import CorruptFileError, InputError, RowErrors, RunError, StorageError, TrainingError
from maskwright.train.pretraining.pretrain import first_batch, pretrain
from train.runs import continues_exactly, corpus, pretraining, records


def test_a_run_leaves_what_the_interface_promises(tmp_path):
    result = pretrain(pretraining(tmp_path))
    run = tmp_path / "run"
    for name in ("config.toml", "metrics.jsonl", "model/model.safetensors", "model/vocab.txt", "report.html"):
        assert (run / name).is_file(), name
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-4", "step-6"]
    assert not [path for path in run.rglob("*") if ".tmp-" in path.name or ".old-" in path.name]
    assert set(result.scores) >= {"mlm_accuracy", "nsp_accuracy", "mlm_loss", "nsp_loss"}
    model = mw.load(result.model)
    assert model.head_name == "pretraining"
    storage.verify_folder(result.model)
    logged = [record for record in records(run) if "loss" in record]
    assert len(logged) == 6
    for record in logged:
        assert record["loss"] == pytest.approx(record["mlm_loss"] + record["nsp_loss"], rel=1e-12)


def test_other_settings_are_refused_by_name_and_restart_starts_over(tmp_path):
    pretrain(pretraining(tmp_path))
    changed = pretraining(tmp_path, steps=4, lr=1e-3)
    with pytest.raises(RunError, match=r"lr \(was 0.0005, now 0.001\); steps \(was 6, now 4\).*--restart"):
        pretrain(changed)
    assert pretrain(changed, restart=True).steps == 4
    assert records(tmp_path / "run")[-1]["step"] == 4


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    for restart in (False, True):
        with pytest.raises(RunError, match="does not contain a run"):
            pretrain(pretraining(tmp_path), restart=restart)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, monkeypatch):
    continues_exactly(pretrain, pretraining(tmp_path), monkeypatch)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, capsys):
    whole = pretrain(pretraining(tmp_path))
    wanted = storage.sha256(whole.model / "model.safetensors")
    run = tmp_path / "run"
    for name in ("result.json", "report.html"):
        (run / name).unlink()
    storage.remove_folder(run / "model")
    victim = run / "checkpoints" / "step-6" / "optimizer.safetensors"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 4
    victim.write_bytes(content)
    with pytest.raises(CorruptFileError):
        storage.verify_folder(victim.parent)
    resumed = pretrain(pretraining(tmp_path))
    assert "optimizer.safetensors" in capsys.readouterr().err
    assert storage.sha256(resumed.model / "model.safetensors") == wanted


def test_a_gradient_that_is_not_finite_stops_the_run_and_is_not_saved(tmp_path, monkeypatch):
    poisoned = {"steps": 0}
    clip = torch.nn.utils.clip_grad_norm_

    def poison(parameters, norm):
        poisoned["steps"] += 1
        return torch.tensor(float("nan")) if poisoned["steps"] == 4 else clip(parameters, norm)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", poison)
    with pytest.raises(TrainingError, match="not finite at step 4"):
        pretrain(pretraining(tmp_path))
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-2"]
    storage.verify_folder(tmp_path / "run" / "checkpoints" / "step-2")


def test_a_full_disk_stops_with_a_sentence_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    class FullDisk(storage.FileSystem):
        def write(self, handle, data):  # type: ignore[no-untyped-def]
            if "step-4" in str(getattr(handle, "name", "")):
                raise OSError(28, "No space left on device")
            super().write(handle, data)

    monkeypatch.setattr(storage, "fs", FullDisk())
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        pretrain(pretraining(tmp_path))
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-2"]
    monkeypatch.setattr(storage, "fs", storage.FileSystem())
    assert pretrain(pretraining(tmp_path)).steps == 6


def test_one_document_is_enough_for_mlm_and_too_little_for_next_sentence(tmp_path):
    single = tmp_path / "single.txt"
    single.write_text("\n".join(corpus(tmp_path).read_text().replace("\n\n", "\n").splitlines()[:40]) + "\n")
    config = pretraining(tmp_path, corpus=(str(single),), steps=2)
    with pytest.raises(InputError, match="at least two documents.*--objective mlm"):
        pretrain(config)
    assert not (tmp_path / "run").exists(), "a rejected input left something"
    result = pretrain(replace(config, objective="mlm"))
    assert "nsp_accuracy" not in result.scores


def test_bad_rows_are_left_out_of_tokenizer_and_shards(tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(corpus(tmp_path).read_bytes() + b"\nnot \xff text\n")
    with pytest.raises(RowErrors, match="not valid UTF-8"):
        first_batch(pretraining(tmp_path, corpus=(str(bad),)))
    assert first_batch(pretraining(tmp_path, corpus=(str(bad),), skip_bad_rows=True))


def test_standard_input_trains_what_the_same_file_trains(tmp_path, monkeypatch):
    from_file = pretrain(pretraining(tmp_path, steps=2))
    piped = replace(pretraining(tmp_path, steps=2), corpus=("-",), output=tmp_path / "piped")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "corpus.txt").read_bytes())))
    first_batch(piped)
    monkeypatch.setattr("sys.stdin", None)  # a later start of the same run needs it no more
    digests = [storage.sha256(result.model / "model.safetensors") for result in (from_file, pretrain(piped))]
    assert digests[0] == digests[1]


def test_a_tokenizer_that_knows_nothing_of_the_text_is_refused(tmp_path):
    first_batch(pretraining(tmp_path))
    path = tmp_path / "faces.txt"
    path.write_text("\N{GRINNING FACE} \N{CRYING FACE}\n\n" * 12)
    config = pretraining(
        tmp_path, corpus=str(path), tokenizer=tmp_path / "run" / "tokenizer", output=tmp_path / "faces"
    )
    with pytest.raises(InputError, match="All tokens of the corpus are unknown"):
        pretrain(config)
    assert not (tmp_path / "faces").exists()


def test_a_restart_that_would_discard_its_own_input_is_refused(tmp_path):
    run = tmp_path / "run"
    first_batch(pretraining(tmp_path))
    again = pretraining(tmp_path, tokenizer=run / "tokenizer")
    with pytest.raises(RunError, match="'tokenizer' reads"):
        pretrain(again, restart=True)
    assert (run / "tokenizer" / "tokenizer.json").is_file()


def test_the_audit_shows_each_position_and_each_pair(tmp_path):
    sequences = first_batch(pretraining(tmp_path))
    tokens = [token for sequence in sequences for token in sequence.tokens]
    fates = {fate: [token for token in tokens if token.fate == fate] for fate in ("masked", "random", "kept", "")}
    assert fates["masked"]
    assert all(token.shown == "[MASK]" != token.original for token in fates["masked"])
    assert all(token.shown == token.original for token in [*fates["kept"], *fates[""]])
    assert {sequence.follows for sequence in sequences} <= {True, False}
    for sequence in sequences:
        assert [token.segment for token in sequence.tokens] == sorted(token.segment for token in sequence.tokens)


def test_a_prepared_corpus_serves_another_run(tmp_path):
    pretrain(pretraining(tmp_path))
    again = pretraining(
        tmp_path,
        output=tmp_path / "second",
        corpus=(str(tmp_path / "run" / "data"),),
        tokenizer=tmp_path / "run" / "tokenizer",
    )
    assert pretrain(again).scores == mw.pretrain(pretraining(tmp_path)).scores
    with pytest.raises(InputError, match="--tokenizer"):
        pretrain(replace(again, output=tmp_path / "third", tokenizer=None))


def test_a_labeled_file_is_scored_by_a_probe_at_every_evaluation(tmp_path):
    from train.runs import labeled

    rows = labeled(tmp_path / "rows.tsv", 60, 3)
    result = pretrain(pretraining(tmp_path, eval=(str(rows),)))
    assert 0 <= result.scores["probe_accuracy"] <= 1
    assert sum("eval_probe_accuracy" in record for record in records(tmp_path / "run")) == 3
