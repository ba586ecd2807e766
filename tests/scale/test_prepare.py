"""Workers prepare a corpus with the bytes of a local preparation, on any file system, after any interruption."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from data.test_prepare import contents
from data.toy_tokenizer import write_corpus
from maskwright.core.errors import InputError, MaskwrightError, MissingExtraError, MissingFileError, RowErrors, RunError
from maskwright.data import prepare as local
from maskwright.data import prepare as reading
from maskwright.data.prepare import ShardWriter
from maskwright.scale import parts
from maskwright.scale import prepare as preparing
from maskwright.scale.parts import Workers
from maskwright.scale.prepare import prepare
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.pretrain import pretrain
from scale.test_bulk import rows
from train.runs import pretraining

SHARD_TOKENS = 120


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder with files of several formats, which share documents, in a folder below it too."""
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    for number, name in enumerate(["a.txt", "c.txt", "more/e.txt"]):
        write_corpus(folder, 25, seed=number % 2, name=name)
    found = rows(60)
    parquet.write_table(pyarrow.Table.from_pylist(found[:40]), folder / "b.parquet")
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found[30:]))
    (folder / "empty.txt").write_text("\n")
    return folder


@pytest.fixture
def tokenizer(tmp_path: Path, texts: Path) -> Path:
    Tokenizer.train(str(texts / "a.txt"), vocab_size=80).save(tmp_path / "tok")
    return tmp_path / "tok"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_DOCUMENTS", 7)


def shards_of(texts: Path, tokenizer: Path, folder: Path, **options: Any) -> dict[str, str]:
    """The files of a local preparation."""
    local.prepare(texts, Tokenizer.load(tokenizer), folder, shard_tokens=SHARD_TOKENS, **options)
    return contents(folder)


def own_files(folder: Path) -> dict[str, str]:
    """The files that training reads."""
    return {name: digest for name, digest in contents(folder).items() if not name.startswith("_parts")}


@pytest.mark.parametrize("keep_duplicates", [False, True])
def test_the_bytes_are_those_of_a_local_preparation(texts, tokenizer, tmp_path, here, keep_duplicates):
    expected = shards_of(texts, tokenizer, tmp_path / "local", keep_duplicates=keep_duplicates)
    options = {"shard_tokens": SHARD_TOKENS, "keep_duplicates": keep_duplicates}
    facts = prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", **options)
    assert len(facts["shards"]) > 3 and len(here) == 6 and bool(facts["counts"]["duplicates"]) != keep_duplicates
    assert own_files(tmp_path / "out") == expected
    assert not list((tmp_path / "out/_parts").glob("part-*")), "the tokens are stored once"
    here.clear()
    assert prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", **options) == facts
    assert here == []
    with pytest.raises(RunError, match="prepared differently: shard_tokens"):
        prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", **{**options, "shard_tokens": 9})
    (texts / "a.txt").write_text("other\n")
    with pytest.raises(RunError, match="corpus of other text, settings or tokenizer: choose another folder"):
        prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", **options)


@pytest.mark.parametrize("shard", [0, 1, 4])
def test_a_preparation_killed_while_it_writes_shards_ends_with_the_same_bytes(
    texts, tokenizer, tmp_path, here, monkeypatch, shard
):
    expected = shards_of(texts, tokenizer, tmp_path / "local")
    write, left = ShardWriter._write, [shard]

    def dies(writer: ShardWriter) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write(writer)

    monkeypatch.setattr(ShardWriter, "_write", dies)
    with pytest.raises(KeyboardInterrupt):
        prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", shard_tokens=SHARD_TOKENS)
    monkeypatch.setattr(ShardWriter, "_write", write)
    here.clear()
    prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", shard_tokens=SHARD_TOKENS)
    assert here == [] and own_files(tmp_path / "out") == expected


def test_bad_rows_are_named_or_skipped(texts, tokenizer, tmp_path, here):
    with (texts / "d.jsonl").open("a") as file:
        file.write('{"id": 1}\n')
    with pytest.raises(RowErrors, match=r"d\.jsonl:31: column 'text': the text is missing"):
        prepare([str(texts)], str(tokenizer), f"{tmp_path}/out")
    facts = prepare([str(texts)], str(tokenizer), f"{tmp_path}/out", skip_bad_rows=True)
    assert facts["counts"]["skipped_rows"] == 1


@pytest.mark.parametrize(
    ("name", "content", "error", "sentence"),
    [
        ("absent.txt", None, MissingFileError, "does not exist"),
        ("a.parquet", b"no", InputError, r"a\.parquet"),
        ("a.csv", b"body\nx\n", InputError, r"a\.csv has no column 'text'"),
        ("empty.txt", b"\n", InputError, "contains no text"),
        ("-", None, InputError, "save it to a file first"),
    ],
)
def test_what_cannot_be_prepared_is_named(tokenizer, tmp_path, here, name, content, error, sentence):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=sentence):
        prepare(["-" if name == "-" else str(path)], str(tokenizer), f"{tmp_path}/out")
    assert not (tmp_path / "out/shards.json").exists()


def test_a_store_without_rights_is_one_sentence(monkeypatch):
    class Denied:
        type_name = "s3"

        def get_file_info(self, path: str) -> Any:
            raise OSError("When listing: AWS Error ACCESS_DENIED during HeadObject\nmore")

    monkeypatch.setattr(preparing, "file_system", lambda uri: (Denied(), "bucket/texts"))
    with pytest.raises(MaskwrightError, match=r"^s3://bucket/texts: When .*HeadObject\. Check the address, the cred"):
        preparing.corpus_inputs(["s3://bucket/texts"])


def test_ray_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[scale\]'"), parts._session():
        pass


def test_ray_that_cannot_start_is_one_sentence(monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra 'scale' is not installed")

    def fails(**options: Any) -> None:
        raise ConnectionError("ray head node not found\nmore")

    monkeypatch.setattr(ray, "init", fails)
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    with (
        pytest.raises(RunError, match="^Ray cannot be reached at RAY_ADDRESS=head:6379: ray head node not found$"),
        parts._session(),
    ):
        pass


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a local S3 server."""
    server = pytest.importorskip("moto.server", reason="moto, a local S3 server, is not installed")
    from pyarrow import fs

    running = server.ThreadedMotoServer("127.0.0.1", 0)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    fs.S3FileSystem(endpoint_override=f"http://{host}:{port}", allow_bucket_creation=True).create_dir("corpora")
    yield "s3://corpora"
    running.stop()


def test_an_object_store_gives_the_bytes_of_a_local_preparation(texts, tokenizer, tmp_path, here, bucket):
    shards_of(texts, tokenizer, tmp_path / "local")
    preparing.upload(texts, f"{bucket}/texts", "")
    facts = prepare([f"{bucket}/texts"], str(tokenizer), f"{bucket}/out", shard_tokens=SHARD_TOKENS)
    assert [source["name"] for source in facts["sources"]][:2] == [f"{bucket}/texts/a.txt", f"{bucket}/texts/b.parquet"]
    system, place = preparing.file_system(f"{bucket}/out")
    for name in ("shard-00002/tokens.bin", "shard-00003/digests.bin", "unigram_counts.bin"):
        with system.open_input_stream(f"{place}/{name}") as stored:
            assert stored.read() == (tmp_path / "local" / name).read_bytes()
    assert len(here) == 6
    here.clear()
    assert prepare([f"{bucket}/texts"], str(tokenizer), f"{bucket}/out", shard_tokens=SHARD_TOKENS) == facts
    assert here == []
    with pytest.raises(MaskwrightError, match=r"s3://absent.*does not exist|s3://absent/texts: .*Check the address"):
        prepare(["s3://absent/texts"], str(tokenizer), f"{bucket}/other")


def test_training_reads_the_shards_of_an_object_store(texts, tokenizer, tmp_path, here, bucket, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shards_of(texts, tokenizer, tmp_path / "local")
    prepare([str(texts)], str(tokenizer), f"{bucket}/trained", shard_tokens=SHARD_TOKENS)
    weights = []
    for corpus in (str(tmp_path / "local"), f"{bucket}/trained/"):
        output = tmp_path / f"run-{len(weights)}"
        changes = {"corpus": (corpus,), "tokenizer": tokenizer, "steps": 4, "output": output}
        pretrain(pretraining(tmp_path, **changes))
        weights.append((output / "model/model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert len(list((tmp_path / "cache").glob("maskwright/shards/*/shard-*"))) > 3
    without = pretraining(tmp_path, corpus=(f"{bucket}/trained",), output=tmp_path / "other")
    with pytest.raises(InputError, match=r"s3://corpora/trained contains token ids: pass the tokenizer .* --tokenizer"):
        pretrain(without)
    for corpus, sentence in (
        ((f"{bucket}/texts",), "contains no token shards: shards.json is missing"),
        ((f"{bucket}/trained", str(texts)), "are the only corpus of a run"),
        (("s3://absent/out",), "s3://absent/out"),
    ):
        with pytest.raises(MaskwrightError, match=sentence) as refused:
            pretrain(replace(without, corpus=corpus, tokenizer=tokenizer, output=tmp_path / "other"), restart=True)
        assert refused.value.exit_code == 2


@pytest.mark.slow
def test_with_ray_the_command_finishes_what_an_interrupted_one_began(texts, tokenizer, tmp_path, monkeypatch):
    pytest.importorskip("ray.data", reason="the extra 'scale' is not installed")
    local.prepare(texts, Tokenizer.load(tokenizer), tmp_path / "local")

    def dies(workers: Workers, items: list[dict[str, Any]]) -> Any:
        worker = workers.kind(**workers.arguments("cpu", 1))
        for item in items[:2]:
            worker.compute(item)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Workers, "compute", dies)
        prepare([str(texts)], str(tokenizer), f"{tmp_path}/out")
    command = ["scale", "prepare", str(texts), "--tokenizer", str(tokenizer), "-o", f"{tmp_path}/out"]
    ended = subprocess.run(
        [sys.executable, "-m", "maskwright", *command], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0 and "2 of 6 parts were finished before" in ended.stderr, ended.stderr
    assert f"duplicates removed: {tmp_path}/out" in ended.stdout
    assert own_files(tmp_path / "out") == contents(tmp_path / "local")
