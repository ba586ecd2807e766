"""Marian folders with an invalid tokenizer: one error message; weights of a .bin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("sentencepiece", reason="the library trains the models of these tests")

import maskwright as mw
from hub.bin_samples import saved
from hub.folder_tools import tensors
from maskwright.core.errors import CorruptFileError, InputError, MaskwrightError, ModelFolderError
from maskwright.hub.convert import convert
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.marian_samples import marian_files
from text.sentencepiece_samples import piece

CODES = ("fra", "spa", "zho_Hans")
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_decoder_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


def marian(folder: Path, codes: tuple[str, ...] = ()) -> Path:
    """Save a translation model with the tokenizers of a Marian folder."""
    marian_files(folder / "files", codes)
    tokenizer = Tokenizer.load(folder / "files")
    ids = {"decoder_start_token_id": tokenizer.pad_id, "eos_token_id": tokenizer.eos_id, "vocab_size": len(tokenizer)}
    model = build(preset("transformer-mini", pad_token_id=tokenizer.pad_id, **SMALL, **ids), "seq2seq", seed=1)
    model.tokenizer = tokenizer
    model.target_tokenizer = Tokenizer.load(folder / "files/target.spm")
    model.save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    marian_files(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("source.spm", None, "lacks source.spm"),
        ("target.spm", None, "lacks target.spm: a Marian tokenizer consists of source.spm, target.spm"),
        ("vocab.json", None, "lacks vocab.json"),
        ("source.spm", b"no model", "source.spm is not a usable vocabulary"),
        ("target.spm", b"", "target.spm is not a usable vocabulary"),
        ("vocab.json", b"[1, 2]", "vocab.json is not a mapping of tokens to IDs"),
        ("vocab.json", b"{}", "vocab.json is not a mapping"),
        ("vocab.json", b'{"</s>": 0}', "vocab.json has no <unk>"),
        ("vocab.json", b"{", "vocab.json"),
        ("tokenizer_config.json", b'{"separate_vocabs": true}', "lacks target_vocab.json"),
        ("source.spm", piece("<s>", 0.0, 3), "source.spm is not a usable vocabulary"),
    ],
)
def test_what_is_missing_or_foreign_is_said_in_one_sentence(files: Path, tmp_path: Path, name, content, said):
    for path in files.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises((ModelFolderError, CorruptFileError), match=said) as caught:
        Tokenizer.load(tmp_path / "target.spm" if name == "target.spm" and content is not None else tmp_path)
    assert "\n" not in str(caught.value)


def test_a_table_of_only_ids_is_distinguished_from_byte_level_bpe(files: Path, tmp_path: Path):
    (tmp_path / "vocab.json").write_bytes((files / "vocab.json").read_bytes())
    with pytest.raises(ModelFolderError, match="source.spm and target.spm"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_a_flipped_bit_is_found(tmp_path: Path, name: str):
    folder = marian(tmp_path)
    data = bytearray((folder / name).read_bytes())
    data[-2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(CorruptFileError, match=name):
        mw.load(folder)


def test_any_damage_of_a_model_is_one_sentence_or_none(files: Path, tmp_path: Path):
    marian_files(tmp_path)
    data = (files / "source.spm").read_bytes()
    for place in range(0, len(data), len(data) // 60):
        (tmp_path / "source.spm").write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            Tokenizer.load(tmp_path)("the ﬁne ½ old man")
        except MaskwrightError as error:
            assert "source.spm" in str(error) and "\n" not in str(error)


@pytest.mark.usefixtures("unconfined")
def test_a_bin_and_its_tokenizers_are_converted(tmp_path: Path):
    folder = marian(tmp_path, CODES)
    (folder / "pytorch_model.bin").write_bytes(saved(tensors(folder), "zip"))
    for name in ("model.safetensors", "maskwright.json", "manifest.json"):
        (folder / name).unlink()
    convert(folder, tmp_path / "new")
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "files" / name).read_bytes()
    texts = [">>spa<< the old man", ">>fra<< the finest road"]
    assert mw.Translator(tmp_path / "new").predict(texts) == mw.Translator(marian(tmp_path / "b", CODES)).predict(texts)


def test_a_language_is_requested_by_its_code_and_must_be_known(tmp_path: Path):
    translating = TextTranslator(mw.load(marian(tmp_path, CODES)))
    few = {"beams": 2, "max_new_tokens": 6}
    wanted = translating.translate([">>fra<< the old man"], TranslationSettings(**few))
    assert translating.translate(["the old man"], TranslationSettings(**few, to="fra")) == wanted
    assert "<<" not in wanted[0][0].text
    with pytest.raises(InputError, match="cannot translate to 'de', only to fra, spa, zho_Hans"):
        translating.translate(["the old man"], TranslationSettings(to="de"))
    with pytest.raises(InputError, match=r"has no target language.*--to fra.*>>fra<<, >>spa<<, >>zho_Hans<<"):
        translating.translate(["the old man"])
    with pytest.raises(InputError, match="cannot translate to 'xx'"):
        translating.translate([">>xx<< the old man"])


def test_training_further_keeps_the_folder_and_new_tags_get_rows(tmp_path: Path):
    from maskwright.train.finetuning.config import FinetuneConfig
    from maskwright.train.finetuning.finetune import finetune

    folder = marian(tmp_path)
    rows = "".join(f"<to-{to}> the old man {number}\tder alte Mann\n" for number in range(6) for to in ("de", "nl"))
    (tmp_path / "train.tsv").write_text("source\ttarget\n" + rows, encoding="utf-8")
    settings = {"epochs": 1, "max_length": 32, "batch_tokens": 128, "precision": "fp32", "warmup": 2, "lr": 1e-4}
    result = finetune(
        FinetuneConfig(
            task="translation",
            model=str(folder),
            train=tmp_path / "train.tsv",
            dev=tmp_path / "train.tsv",
            output=tmp_path / "run",
            **settings,
        )
    )
    model = mw.load(result.model)
    assert model.config.vocab_size == json.loads((folder / "config.json").read_text())["vocab_size"] + 2
    for tokenizer in (model.tokenizer, model.target_tokenizer):
        assert tokenizer.token_to_id("<to-de>") is not None and tokenizer.vocab_size == model.config.vocab_size
    translating = TextTranslator(model)
    (found,) = translating.translate(["the old man"], TranslationSettings(2, to="nl", max_new_tokens=5))
    assert "<to-" not in found[0].text
    assert (Path(result.model) / "source.spm").is_file() and not (Path(result.model) / "target_tokenizer").exists()
