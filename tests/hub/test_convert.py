"""`convert`: a folder with a pickle becomes one that loads, with every tensor bit for bit, or nothing appears."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from hub.bin_samples import attacks, contained, saved
from hub.folder_tools import CONFIG, foreign, make, tensors
from maskwright.core.errors import CorruptFileError, InputError, MissingFileError, ModelFolderError, RunError
from maskwright.hub.convert import convert
from maskwright.hub.folders import load_model, read_facts

pytestmark = pytest.mark.usefixtures("unconfined")


@pytest.fixture
def confined():
    """Files are read in the confined process, as by users."""


def old(folder, head="pretraining", form="zip", change=lambda table: table, config=CONFIG, **options):
    """A foreign folder as it was published before safetensors; returns the table in its .bin."""
    make(head, config, **options).save(folder)
    foreign(folder)
    table = change(tensors(folder))
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(saved(table, form))
    return table


def sharded(folder, table, parts=3):
    """The same table as shards with an index."""
    (folder / "pytorch_model.bin").unlink()
    names, where = list(table), {}
    for part in range(parts):
        file = f"pytorch_model-{part + 1:05}-of-{parts:05}.bin"
        (folder / file).write_bytes(saved({name: table[name] for name in names[part::parts]}))
        where |= dict.fromkeys(names[part::parts], file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def same(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in expected.items()
    )


def refuses(source, out, said, error=ModelFolderError):
    """Assert that nothing is written and one error message gives the reason."""
    with pytest.raises(error, match=said) as caught:
        convert(source, out)
    assert "\n" not in str(caught.value) and str(out) not in str(caught.value)
    assert not list(out.parent.glob(f"*{out.name}*"))


@pytest.mark.parametrize("form, given", [("zip", "folder"), ("legacy", "file")])
def test_every_tensor_comes_out_bit_for_bit_and_the_folder_loads(confined, form, given, tmp_path):
    table = old(tmp_path / "old", form=form)
    expected = load_model(foreign_with(tmp_path / "expected", table))[0]
    convert(tmp_path / "old" / ("pytorch_model.bin" if given == "file" else ""), tmp_path / "new")
    model, report = load_model(tmp_path / "new")
    assert same(tensors(tmp_path / "new"), table)
    assert model.head_name == "pretraining" and not report.new and not report.unused
    assert same(model.state_dict(), expected.state_dict())


def foreign_with(folder, table):
    """A folder with this table as safetensors."""
    make("pretraining").save(folder)
    return foreign(folder, lambda _: table)


def test_shards_become_shards_with_an_index(tmp_path):
    table = old(tmp_path / "old")
    sharded(tmp_path / "old", table)
    done = convert(tmp_path / "old", tmp_path / "new")
    assert done.files == [f"model-0000{part}-of-00003.safetensors" for part in (1, 2, 3)]
    index = json.loads((tmp_path / "new/model.safetensors.index.json").read_text())
    stored = {name: load_file(tmp_path / "new" / file)[name] for name, file in index["weight_map"].items()}
    assert same(stored, table) and index["metadata"]["total_size"] == done.num_bytes
    assert load_model(tmp_path / "new")[0].head_name == "pretraining"


def test_dtypes_old_names_buffers_and_views_stay_as_they_are(tmp_path):
    def change(table):
        turned = {name: value.T.contiguous().T if value.ndim == 2 else value for name, value in table.items()}
        halves = {name: value.half() for name, value in turned.items()}
        gamma = "bert.embeddings.LayerNorm.weight"
        halves[gamma.replace("weight", "gamma")] = halves.pop(gamma).bfloat16()
        return halves | {"bert.embeddings.position_ids": torch.arange(20)[None]}

    table = old(tmp_path / "old", change=change)
    done = convert(tmp_path / "old", tmp_path / "new")
    assert same(tensors(tmp_path / "new"), table)
    assert done.dtypes == {"float16": len(table) - 2, "bfloat16": 1, "int64": 1}
    assert done.num_tensors == len(table) and done.num_bytes == sum(value.nbytes for value in table.values())


def test_a_tied_decoder_is_stored_once_and_other_sharing_is_written_out(tmp_path):
    words, decoder = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
    bias, decoder_bias = "cls.predictions.bias", "cls.predictions.decoder.bias"

    def change(table):
        table["bert.encoder.layer.1.output.dense.bias"] = table["bert.encoder.layer.0.output.dense.bias"]
        return table | {decoder: table[words], decoder_bias: table[bias]}

    table = old(tmp_path / "old", change=change)
    done = convert(tmp_path / "old", tmp_path / "new")
    assert sorted(done.tied) == [decoder_bias, decoder]
    assert same(tensors(tmp_path / "new"), {name: value for name, value in table.items() if name not in done.tied})


def test_the_rest_of_the_folder_comes_along_without_code_and_without_what_names_it(tmp_path):
    folder = tmp_path / "old"
    old(folder, head="classification", labels=["no", "yes"])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "code.Model"}}))
    for name in ("README.md", "LICENSE", "generation_config.json", "modeling.py", "tf_model.h5", ".hidden.json"):
        (folder / name).write_text("{}")
    (folder / "optimizer.pt").write_bytes(b"")
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    convert(folder, tmp_path / "new")
    made = {file.name for file in (tmp_path / "new").iterdir()}
    assert made == {
        "config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "generation_config.json",
        "README.md", "LICENSE", "maskwright.json", "manifest.json",
    }  # fmt: skip
    assert json.loads((tmp_path / "new/config.json").read_text()) == config
    model, _ = load_model(tmp_path / "new")
    assert model.labels == ("no", "yes") and model.tokenizer("The cat").tokens[1:-1] == ["The", "cat"]


def tokens():
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "The", "cat"]


def test_a_sentence_transformers_folder_keeps_its_shape(tmp_path):
    folder = tmp_path / "old"
    old(folder / "0_Transformer", head=None)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    modules = [
        {"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    convert(folder, tmp_path / "new")
    assert (tmp_path / "new/0_Transformer/model.safetensors").is_file()
    assert load_model(tmp_path / "new")[0].sentence.pooling == "cls"


def test_the_new_folder_says_what_it_was_made_of_and_is_verified_on_loading(tmp_path):
    from maskwright.core.storage import sha256

    old(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new")
    digest = sha256(tmp_path / "old/pytorch_model.bin")
    assert read_facts(tmp_path / "new")["converted_from"] == {"pytorch_model.bin": digest}
    path = tmp_path / "new/model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptFileError, match="SHA-256"):
        load_model(tmp_path / "new")


def test_transformers_reads_the_same_from_the_bin_and_from_the_new_folder(confined, tmp_path):
    """The whole way with a checkpoint that another program made."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.AlbertConfig(embedding_size=8, intermediate_size=20, num_hidden_groups=2, **sizes)
    theirs = transformers.AlbertForMaskedLM(config).eval()
    theirs.save_pretrained(tmp_path / "old")
    (tmp_path / "old/model.safetensors").unlink()
    (tmp_path / "old/pytorch_model.bin").write_bytes(saved(theirs.state_dict()))
    done = convert(tmp_path / "old", tmp_path / "new")
    again, loading = transformers.AlbertForMaskedLM.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert same(again.state_dict(), theirs.state_dict()) and not loading["missing_keys"]
    assert "predictions.decoder.weight" in done.tied
    ids = torch.tensor([[2, 7, 9, 3]])
    ours = load_model(tmp_path / "new")[0]
    assert torch.allclose(ours(input_ids=ids).logits, theirs(input_ids=ids).logits, atol=1e-5)


@pytest.mark.parametrize("attack, form", [("os.system", "zip"), ("INST", "legacy")])
def test_a_hostile_file_is_refused_and_nothing_happens(confined, attack, form, tmp_path):
    old(tmp_path / "old")
    content = attacks(str(tmp_path / "canary"))[attack]
    (tmp_path / "old/pytorch_model.bin").write_bytes(contained(content, form))
    refuses(tmp_path / "old", tmp_path / "out/new", "nothing in it was executed", CorruptFileError)
    assert not (tmp_path / "canary").exists()


def test_a_hostile_shard_leaves_nothing_behind(tmp_path):
    sharded(tmp_path / "old", old(tmp_path / "old"))
    content = attacks(str(tmp_path / "canary"))["os.system"]
    (tmp_path / "old/pytorch_model-00003-of-00003.bin").write_bytes(contained(content, "zip"))
    refuses(tmp_path / "old", tmp_path / "out/new", "00003-of-00003.bin refers to", CorruptFileError)
    assert not (tmp_path / "canary").exists()


def test_weights_that_do_not_belong_to_the_config_are_refused(tmp_path):
    old(tmp_path / "old", change=lambda table: {n: v for n, v in table.items() if "layer.1" not in n})
    refuses(tmp_path / "old", tmp_path / "out/new", "old lacks encoder weights that its config.json describes")


def test_shards_that_do_not_belong_together_are_named(tmp_path):
    table = old(tmp_path / "old")
    sharded(tmp_path / "old", table)
    second = tmp_path / "old/pytorch_model-00002-of-00003.bin"
    good = second.read_bytes()
    second.write_bytes(saved({"other": torch.zeros(2)}))
    refuses(tmp_path / "old", tmp_path / "out/new", "00002-of-00003.bin lacks .*, which the index lists")
    second.write_bytes(saved(table))
    refuses(tmp_path / "old", tmp_path / "out/new", "00002-of-00003.bin contains .* a second time")
    second.write_bytes(good)
    index = json.loads((tmp_path / "old/pytorch_model.bin.index.json").read_text())
    index["weight_map"]["more"] = "../elsewhere.bin"
    (tmp_path / "old/pytorch_model.bin.index.json").write_text(json.dumps(index))
    refuses(tmp_path / "old", tmp_path / "out/new", "outside the folder")


def test_a_model_that_is_not_supported_is_refused_before_its_weights_are_looked_at(tmp_path):
    old(tmp_path / "old")
    (tmp_path / "old/pytorch_model.bin").write_bytes(b"whatever")
    config = json.loads((tmp_path / "old/config.json").read_text())
    (tmp_path / "old/config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    refuses(tmp_path / "old", tmp_path / "out/new", "'llama'; supported: bert")
    (tmp_path / "old/config.json").unlink()
    refuses(tmp_path / "old", tmp_path / "out/new", "no config.json")


def test_a_link_that_leads_out_of_the_folder_is_not_copied(tmp_path):
    old(tmp_path / "old")
    (tmp_path / "secret.json").write_text('{"key": 1}')
    (tmp_path / "old/special_tokens_map.json").symlink_to(tmp_path / "secret.json")
    refuses(tmp_path / "old", tmp_path / "out/new", "special_tokens_map.json is a link to a path outside")


def test_what_needs_no_conversion_says_so(tmp_path):
    make("mlm").save(tmp_path / "ours")
    refuses(tmp_path / "ours", tmp_path / "out/new", "no conversion needed", InputError)
    refuses(tmp_path / "ours/model.safetensors", tmp_path / "out/new", "already safetensors", InputError)
    refuses(tmp_path / "nowhere", tmp_path / "out/new", "does not exist", MissingFileError)
    (tmp_path / "ours/model.safetensors").unlink()
    refuses(tmp_path / "ours", tmp_path / "out/new", "nothing to convert", InputError)
    (tmp_path / "ours/weights.pt").write_bytes(b"")
    refuses(tmp_path / "ours", tmp_path / "out/new", "weights.pt, specify that file", InputError)


def test_an_output_that_is_not_empty_is_left_alone(tmp_path):
    old(tmp_path / "old")
    with pytest.raises(RunError, match="not empty"):
        convert(tmp_path / "old", tmp_path / "old")
    assert (tmp_path / "old/pytorch_model.bin").is_file()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "weights.pt"])
def test_a_folder_with_a_pickle_alone_points_to_the_command(name, tmp_path):
    old(tmp_path / "old")
    (tmp_path / "old/pytorch_model.bin").rename(tmp_path / "old" / name)
    named = tmp_path / "old" / ("weights.pt" if name == "weights.pt" else "")
    with pytest.raises(ModelFolderError, match=f"run maskwright export {named} --to folder -o OUT"):
        load_model(tmp_path / "old")
