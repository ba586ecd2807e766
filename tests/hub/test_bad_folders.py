"""Invalid and damaged model folders: one error message, nothing executed, nothing allocated."""

from __future__ import annotations

import json
import pickle
import random
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from hub.folder_tools import foreign, make, tensors
from maskwright.core.errors import CorruptFileError, MaskwrightError, MissingFileError, ModelFolderError
from maskwright.hub.folders import load_model


@pytest.fixture
def folder(tmp_path):
    """A complete folder of ours."""
    make("pretraining").save(tmp_path / "m")
    return tmp_path / "m"


def refuses(folder, said, error=ModelFolderError):
    """Assert that loading fails with one sentence that says `said`."""
    with pytest.raises(error, match=said) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_folder_is_no_model(tmp_path):
    refuses(tmp_path, "not a model folder: it has no config.json")


def test_the_model_inside_is_pointed_at(folder):
    (folder.parent / "model").symlink_to(folder)
    refuses(folder.parent, "use that one")


def test_a_path_that_is_not_there(tmp_path):
    refuses(tmp_path / "nowhere", "does not exist", MissingFileError)
    refuses("runs/somewhere/model", "does not exist", MissingFileError)


def test_a_folder_without_weights(folder):
    foreign(folder)
    (folder / "model.safetensors").unlink()
    refuses(folder, "has no model.safetensors")


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return open, (str(self.canary), "w")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("how", ["pickle", "zip"])
def test_a_pickle_is_refused_and_never_opened(folder, name, how, tmp_path):
    foreign(folder)
    (folder / "model.safetensors").unlink()
    canary = tmp_path / "executed"
    if how == "pickle":
        (folder / name).write_bytes(pickle.dumps({"weight": Bomb(canary)}))
    else:
        torch.save({"weight": torch.zeros(3)}, folder / name)
    refuses(folder, "pickle")
    assert not canary.exists()


def test_a_header_whose_length_looks_like_a_pickle_is_still_safetensors(tmp_path):
    """0x80 0x02 begins a pickle, and a safetensors header of 640 bytes: the bytes after tell them apart."""
    from maskwright.hub.weights import Weights

    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).ljust(0x0280).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(4)
    assert data[:2] == b"\x80\x02"
    (tmp_path / "model.safetensors").write_bytes(data)
    with Weights(tmp_path) as file:
        assert file.shapes == {"x": (1,)}


def test_code_that_a_config_names_is_not_run(folder, tmp_path):
    canary = tmp_path / "executed"
    (folder / "modeling.py").write_text(f"open({str(canary)!r}, 'w')")
    foreign(folder, settings={"auto_map": {"AutoModel": "modeling.Model"}})
    model, _ = load_model(folder)
    assert type(model).__module__ == "maskwright.models.model" and not canary.exists()


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"hidden_size": 10**9}, "hidden_size"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"hidden_size": "768"}, "hidden_size"),
        ({"num_attention_heads": 5}, "num_attention_heads"),
        ({"hidden_act": "mystery"}, "hidden_act"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"problem_type": "guessing"}, "problem_type"),
        ({"id2label": {"0": "a", "7": "b"}}, "id2label"),
        ({"id2label": {"zero": "a"}}, "id2label"),
        ({"architectures": "BertModel"}, "architectures"),
        ({"architectures": ["LlamaForCausalLM"]}, "LlamaForCausalLM"),
    ],
)
def test_configurations_that_we_do_not_compute_are_named(folder, settings, said):
    refuses(foreign(folder, settings=settings), said)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "nul", "\x00", '{"a": NaN', "[" * 100_000])
def test_a_config_that_is_no_object_is_refused(folder, text):
    foreign(folder)
    (folder / "config.json").write_text(text)
    refuses(folder, "config.json")


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"vocab_size": 62}, r"word_embeddings.weight has shape \[61, 16\].* requires \[62, 16\]"),
        ({"hidden_size": 32}, r"\[61, 16\].*\[61, 32\]"),
        ({"intermediate_size": 25}, r"intermediate.dense.weight has shape \[24, 16\].*\[25, 16\]"),
        (
            {"num_hidden_layers": 3},
            r"lacks.*encoder.layer.2.attention.self.query.weight, .*encoder.layer.2.output.LayerNorm.bias\.",
        ),
        ({"max_position_embeddings": 512}, r"position_embeddings.weight has shape \[20, 16\]"),
        ({"vocab_size": 4_000_000, "hidden_size": 65_536}, r"requires \[4000000, 65536\]"),
    ],
)
def test_config_and_weights_that_disagree_name_the_tensor_and_both_shapes(folder, settings, said):
    refuses(foreign(folder, settings=settings), said)


def test_absurd_sizes_are_refused_before_anything_is_allocated(folder, monkeypatch):
    """The largest configuration that the limits allow, with weights that do not fit it."""
    foreign(folder, settings={"vocab_size": 4_000_000, "hidden_size": 65_536, "intermediate_size": 524_288})
    largest = 0
    empty = torch.empty

    def watched(*size, **options):
        nonlocal largest
        result = empty(*size, **options)
        largest = max(largest, 0 if result.is_meta else result.numel())
        return result

    monkeypatch.setattr(torch, "empty", watched)
    refuses(folder, "requires")
    assert largest < 1_000_000


def test_a_flipped_bit_anywhere_is_found(folder):
    """Every file that we wrote, at random bits, the manifest included."""
    chance = random.Random(0)
    files = sorted(file for file in folder.iterdir() if file.is_file())
    for trial in range(60):
        file = files[trial % len(files)]
        good = file.read_bytes()
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        file.write_bytes(bytes(bad))
        try:
            load_model(folder)
        except MaskwrightError as error:
            assert file.name in str(error) or file.name == "manifest.json"
        else:
            # Only whitespace or a file's own digits in the manifest may differ without changing its meaning.
            assert file.name == "manifest.json"
        finally:
            file.write_bytes(good)
    load_model(folder)


@pytest.mark.parametrize("keep", [0, 5, 8, 100, 2000, -1])
@pytest.mark.parametrize("ours", [True, False])
def test_truncated_weights_are_found_with_and_without_a_manifest(folder, keep, ours):
    if not ours:
        foreign(folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:keep] if keep >= 0 else data[:-1])
    refuses(folder, "model.safetensors", CorruptFileError)


@pytest.mark.parametrize("length", [2**63 - 1, 10**10, 99_999_999])
def test_a_header_that_claims_too_much_is_refused(folder, length):
    foreign(folder)
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    refuses(folder, "header claims", CorruptFileError)


@pytest.fixture(scope="module")
def foreign_folder(tmp_path_factory):
    """One folder without a manifest, for tests that replace its weights."""
    folder = tmp_path_factory.mktemp("foreign") / "m"
    make().save(folder)
    return foreign(folder)


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_random_bytes_are_never_weights(foreign_folder, data):
    (foreign_folder / "model.safetensors").write_bytes(data)
    with pytest.raises(ModelFolderError):
        load_model(foreign_folder)


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/hostname", "sub/x.safetensors", "..", "."])
def test_an_index_cannot_lead_out_of_the_folder(folder, name):
    foreign(folder)
    save_file(tensors(folder), folder.parent / "outside.safetensors")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"bert.embeddings.word_embeddings.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refuses(folder, "outside the folder|is missing")


def test_a_linked_shard_cannot_lead_out_of_the_folder(folder):
    foreign(folder)
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    (folder / "shard.safetensors").symlink_to(folder.parent / "outside.safetensors")
    names = load_file(folder.parent / "outside.safetensors")
    index = {"weight_map": dict.fromkeys(names, "shard.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refuses(folder, "outside the folder")


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 5}}'])
def test_an_index_that_says_nothing_is_refused(folder, content):
    foreign(folder)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(content)
    refuses(folder, "does not map", CorruptFileError)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
)
KEYS = ["architectures", "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"]
KEYS += ["intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps"]
KEYS += ["classifier_dropout", "max_position_embeddings", "type_vocab_size", "initializer_range", "pad_token_id"]
KEYS += ["tie_word_embeddings", "id2label", "label2id", "num_labels", "problem_type", "is_decoder", "pruned_heads"]


@pytest.fixture(scope="module")
def good_config(tmp_path_factory):
    """A foreign classifier's folder and its configuration."""
    folder = tmp_path_factory.mktemp("config") / "m"
    make("classification", labels=["a", "b"]).save(folder)
    foreign(folder)
    return folder, json.loads((folder / "config.json").read_text())


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_any_configuration_loads_or_is_refused_in_words(good_config, changes):
    folder, config = good_config
    (folder / "config.json").write_text(json.dumps(config | changes))
    try:
        load_model(folder)
    except MaskwrightError as error:
        assert str(error)


def test_a_nul_in_an_index_of_shards_is_reported(folder):
    foreign(folder)
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "a\0.safetensors"}}))
    said = refuses(folder, "NUL character", CorruptFileError)
    assert said.isprintable() and "model.safetensors.index.json" in said


def test_equal_labels_are_counted_and_not_repeated(tmp_path):
    folder = tmp_path / "m"
    make("classification").save(folder)
    foreign(folder, settings={"id2label": {str(number): "x" for number in range(99_999)}})
    with pytest.raises(MaskwrightError, match="'x' occurs 99,999 times") as caught:
        load_model(folder)
    assert len(str(caught.value)) < 200
