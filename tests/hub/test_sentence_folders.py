"""Sentence-transformers folders: the network, its pooling and its length are found, and kept on saving."""

from __future__ import annotations

import json
from itertools import cycle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from maskwright.api import open_embedder
from maskwright.core.errors import ConfigError, InputError, ModelFolderError
from maskwright.hub.folders import load_model
from maskwright.hub.sentence import declared_by
from maskwright.models.build import build
from maskwright.models.model import SentenceSettings
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer

TEXTS = ["a small text", "another one, with more words in it", "one"]
FAMILIES = ["bert-tiny", "roberta-base", "distilbert-base", "albert-base", "electra-base", "mpnet-base"]


# What a folder may declare, and what sentence-transformers 6.2.0 makes of it: files, modules, arguments of `reference`.
# With the package itself, on a grid of 413 such folders, the largest difference was 7e-6.
BERT, OWN, TOKENIZER = "sentence_bert_config.json", "config_sentence_transformers.json", "tokenizer_config.json"
V2, V6 = "sentence_transformers.models.{}", "sentence_transformers.base.modules.any.{}"
TOKENS = {"module_input_name": "token_embeddings"}
QUERY = {OWN: {"prompts": {"query": "a text: "}, "default_prompt_name": "query"}}
LONG_TEXTS = ["A small Text", "another One, " * 12, "ONE", ""]
LENGTHS = {
    "max_seq_length": ({BERT: {"max_seq_length": 12}, TOKENIZER: {"model_max_length": 20}}, 12),
    "only model_max_length": ({TOKENIZER: {"model_max_length": 12}}, 12),
    "max_seq_length null": ({BERT: {"max_seq_length": None}, TOKENIZER: {"model_max_length": 12}}, 12),
    "max_len": ({TOKENIZER: {"max_len": 12}}, 12),
    "no limit": ({TOKENIZER: {"model_max_length": int(1e30)}}, 64),
    "more than the model": ({BERT: {"max_seq_length": 64}, TOKENIZER: {"model_max_length": 9}}, 64),
    "tokenizer_args": ({BERT: {"max_seq_length": 20, "tokenizer_args": {"model_max_length": 12}}}, 12),
    "processor_kwargs": ({BERT: {"max_seq_length": 20, "processor_kwargs": {"model_max_length": 12}}}, 12),
    "processing_kwargs": ({BERT: {"max_seq_length": 20, "processing_kwargs": {"text": {"max_length": 12}}}}, 12),
    "older name": ({"sentence_roberta_config.json": {"max_seq_length": 12}}, 12),
}
DECLARATIONS = {
    **{name: (files, ["Pooling"], {"max_length": length}) for name, (files, length) in LENGTHS.items()},
    "lower case": ({BERT: {"do_lower_case": True}}, ["Pooling"], {"lower": True}),
    "lower case off": ({BERT: {"do_lower_case": False}}, ["Pooling"], {}),
    "truncated": ({OWN: {"truncate_dim": 6}}, ["Pooling", "Normalize"], {"normalize": True, "dimensions": 6}),
    "truncated, not normalized": ({OWN: {"truncate_dim": 6}}, ["Pooling"], {"dimensions": 6}),
    "tokens before": ({}, [TOKENS, "Pooling"], {"tokens": True}),
    "tokens before, and result": ({}, [TOKENS, "Pooling", "Normalize"], {"tokens": True, "normalize": True}),
    "tokens after": ({}, ["Pooling", TOKENS], {}),
    "result before": ({}, ["Normalize", "Pooling"], {}),
    "prompt": (
        {OWN: {"prompts": {"query": "a text: "}, "default_prompt_name": "query"}},
        ["Pooling"],
        {"prompt": "a text: "},
    ),
    "no prompt": ({OWN: {"prompts": {"query": None}, "default_prompt_name": "query"}}, ["Pooling"], {}),
    "left": (
        {TOKENIZER: {"model_max_length": 12, "truncation_side": "left"}},
        ["Pooling"],
        {"max_length": 12, "side": "left"},
    ),
    "all": (
        {BERT: {"do_lower_case": True, "max_seq_length": 14}, OWN: {"truncate_dim": 6, **QUERY[OWN]}},
        [TOKENS, "Pooling", "Normalize"],
        {"max_length": 14, "lower": True, "tokens": True, "normalize": True, "dimensions": 6, "prompt": "a text: "},
    ),
}


def cased_folder(tmp_path, name="bert-tiny", **more):
    """A network with a tokenizer that keeps case, whose folder transformers reads."""
    tokenizer = Tokenizer.train_from_iterator([*LONG_TEXTS, *TEXTS] * 3, vocab_size=90, lowercase=False)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    sizes |= {"embedding_size": 8 if name.startswith("albert") else None, "max_position_embeddings": 64}
    model = build(preset(name, vocab_size=100, initializer_range=0.3, **sizes | more))
    model.tokenizer = tokenizer
    model.save(tmp_path / "st")
    for unwanted in ("manifest.json", "maskwright.json"):
        (tmp_path / "st" / unwanted).unlink()
    return tmp_path / "st"


def declare(folder, files, modules, types, pooling="mean"):
    """Write the files of a declaration. modules: after the transformer; a dict is the file of a Normalize."""
    names = ["Transformer", *("Normalize" if isinstance(one, dict) else one for one in modules)]
    listed = [
        {"idx": index, "name": str(index), "path": f"{index}_{name}" if index else "", "type": types.format(name)}
        for index, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    flag = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}[pooling]
    by_name = {"Pooling": {f"pooling_mode_{flag}": True} if types == V2 else {"pooling_mode": pooling}, "Normalize": {}}
    for module, one in zip(listed[1:], modules, strict=True):
        (folder / module["path"]).mkdir()
        content = one if isinstance(one, dict) else by_name[one]
        (folder / module["path"] / "config.json").write_text(json.dumps(content))
    tokenizer = json.loads((folder / TOKENIZER).read_text())
    tokenizer.pop("maskwright", None)
    for name, content in {**files, TOKENIZER: tokenizer | files.get(TOKENIZER, {})}.items():
        (folder / name).write_text(json.dumps(content))


POOLED = {
    "cls": lambda rows: rows[0],
    "max": lambda rows: rows.amax(0),
    "mean": lambda rows: rows.mean(0),
    "mean_sqrt_len_tokens": lambda rows: rows.sum(0) / len(rows) ** 0.5,
    "weightedmean": lambda rows: (rows * torch.arange(1, len(rows) + 1)[:, None]).sum(0) / sum(range(len(rows) + 1)),
    "lasttoken": lambda rows: rows[-1],
}


def reference(
    folder,
    *,
    max_length=64,
    lower=False,
    tokens=False,
    normalize=False,
    dimensions=None,
    prompt="",
    side="right",
    pooling="mean",
):
    """Embeddings of LONG_TEXTS, written out with transformers."""
    import transformers

    network = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), truncation_side=side
    )
    unit = torch.nn.functional.normalize
    found = []
    for text in [prompt + text for text in LONG_TEXTS]:
        ids = tokenizer(text.lower() if lower else text, truncation=True, max_length=max_length)["input_ids"]
        with torch.no_grad():
            hidden = network(torch.tensor([ids])).last_hidden_state[0]
        pooled = POOLED[pooling](unit(hidden, dim=-1) if tokens else hidden)
        found.append((unit(pooled, dim=-1) if normalize else pooled)[:dimensions].numpy())
    return np.stack(found)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_vectors_are_those_that_transformers_and_the_declaration_give(name, pooling, tmp_path):
    folder = cased_folder(tmp_path, name)
    wanted = reference(folder, pooling=pooling, normalize=True, max_length=30)
    declare(folder, {BERT: {"max_seq_length": 30}}, ["Pooling", "Normalize"], V2, pooling)
    assert np.abs(open_embedder(folder, device="cpu", precision="fp32").vectors(LONG_TEXTS) - wanted).max() < 1e-5


@pytest.mark.parametrize("head", ["mlm", "pretraining"])
def test_a_model_that_fills_masks_may_declare_sentence_embeddings(head, tmp_path):
    declared = SentenceSettings("mean", True, 30)
    model = build(load_model(cased_folder(tmp_path))[0].config, head)
    model.tokenizer, model.sentence = Tokenizer.load(tmp_path / "st"), declared
    model.save(tmp_path / "saved")
    again, report = load_model(tmp_path / "saved")
    assert (again.head_name, again.sentence) == (head, declared) and not report.new
    vectors = open_embedder(tmp_path / "saved", device="cpu").vectors(TEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-3)  # as declared
    again.save(tmp_path / "twice")
    assert declared_by(tmp_path / "twice") == declared
    assert load_model(tmp_path / "saved", "classification", labels=2)[0].sentence is None


def test_a_network_outside_the_folder_is_not_read(tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": "../elsewhere"}]))
    with pytest.raises(InputError, match="is outside"):
        load_model(tmp_path)


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="The length of a folder may be only `model_max_length` of tokenizer_config.json; `do_lower_case`, "
    "`truncate_dim` (not normalized again), default prompts and a Normalize of tokens change vectors.",
    ours="The same vectors to 1e-5 for every combination, with the same order of precedence; saving keeps it.",
)
@pytest.mark.parametrize(("name", "types"), zip(DECLARATIONS, cycle([V6, V2]), strict=False))
def test_a_declaration_gives_the_vectors_of_sentence_transformers(name, types, tmp_path):
    files, modules, expected = DECLARATIONS[name]
    folder = cased_folder(tmp_path)
    wanted = reference(folder, **expected)
    declare(folder, files, modules, types)
    encoder = open_embedder(folder, device="cpu", precision="fp32")
    found = encoder.vectors(LONG_TEXTS)
    assert found.shape == wanted.shape == (4, encoder.size)
    assert np.abs(found - wanted).max() < 1e-5
    load_model(folder)[0].save(tmp_path / "saved")
    again = open_embedder(tmp_path / "saved", device="cpu", precision="fp32").vectors(LONG_TEXTS)
    assert np.array_equal(found, again)


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="Saving drops `do_lower_case`: with a cased BERT tokenizer the saved folder reads upper-case letters again.",
    ours="Saving keeps it, for sentence-transformers and for transformers.",
)
def test_saving_keeps_lower_case_for_transformers_too(tmp_path):
    from transformers import AutoTokenizer

    folder = cased_folder(tmp_path)
    bert = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    declare(folder, {BERT: {"do_lower_case": True}, TOKENIZER: bert}, ["Pooling"], V2)
    model = load_model(folder)[0]
    model.save(tmp_path / "saved")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert theirs("ONE")["input_ids"] == model.tokenizer("ONE").ids == model.tokenizer("one").ids
    assert declared_by(tmp_path / "saved").lower_case


def test_truncated_vectors_are_normalized_on_request_and_whole_for_other_layers(tmp_path):
    folder = cased_folder(tmp_path)
    files, modules, expected = DECLARATIONS["truncated"]
    cut = reference(folder, **expected)
    declare(folder, files, modules, V6)
    unit = open_embedder(folder, normalize=True, device="cpu", precision="fp32").vectors(LONG_TEXTS)
    assert np.abs(unit - cut / np.linalg.norm(cut, axis=1, keepdims=True)).max() < 1e-5
    assert np.linalg.norm(cut, axis=1).max() < 0.99  # as declared, they have no unit length
    assert open_embedder(folder, layers=1, device="cpu").vectors(LONG_TEXTS).shape == (4, 16)
    assert open_embedder(folder, pooling="max", device="cpu").vectors(LONG_TEXTS).shape == (4, 16)


@pytest.mark.parametrize("long", ["cut", "windows"])
def test_a_prompt_is_before_a_text_and_not_in_its_tokens(long, tmp_path):
    folder = cased_folder(tmp_path)
    plain = open_embedder(folder, device="cpu", precision="fp32", max_length=64)
    declare(folder, *DECLARATIONS["prompt"][:2], V6)
    encoder = open_embedder(folder, device="cpu", precision="fp32", long=long)
    assert np.abs(encoder.vectors(["one"]) - plain.vectors(["a text: one"])).max() < 1e-6
    assert np.abs(encoder.vectors([("one", "text")]) - plain.vectors([("a text: one", "text")])).max() < 1e-6
    assert [one.words for one in encoder.word_vectors(["one small"])] == [["one", "small"]]


@pytest.mark.parametrize(
    ("files", "modules", "sentence"),
    [
        ({OWN: {"truncate_dim": 0}}, ["Pooling"], "truncate_dim is 0"),
        ({OWN: {"truncate_dim": "16"}}, ["Pooling"], "truncate_dim is '16'"),
        ({BERT: {"max_seq_length": -3}}, ["Pooling"], "max_seq_length is -3"),
        ({OWN: {"prompts": {"query": ""}, "default_prompt_name": "web"}}, ["Pooling"], "'web'"),
        ({OWN: {"model_type": "MultiVectorEncoder"}}, ["Pooling"], "'Pooling'"),
        ({OWN: {"model_type": "Unknown"}}, ["Pooling"], "model_type is 'Unknown'"),
        ({}, ["Pooling", {"module_input_name": "scores"}], "normalizes 'scores'"),
        ({}, ["Pooling", "CNN"], "'CNN'"),
    ],
)
def test_a_declaration_that_is_not_supported_is_refused(files, modules, sentence, tmp_path):
    folder = cased_folder(tmp_path)
    declare(folder, files, [{} if one == "CNN" else one for one in modules], V6)
    if "CNN" in modules:
        listed = (folder / "modules.json").read_text()
        (folder / "modules.json").write_text(listed.replace("any.Normalize", "any.CNN"))
    with pytest.raises(ModelFolderError, match=sentence):
        load_model(folder)


WITHOUT_PROMPT = {  # of the vectors [tokens, size] and how many of the first are the prompt's
    "mean": lambda rows, first: rows[first:].mean(0),
    "cls": lambda rows, first: rows[first],
    "max": lambda rows, first: rows[first:].amax(0),
    "lasttoken": lambda rows, first: rows[-1],
    "weightedmean": lambda rows, first: (
        torch.arange(first + 1.0, len(rows) + 1) @ rows[first:] / sum(range(first + 1, len(rows) + 1))
    ),
}


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="A Pooling with include_prompt false leaves the tokens of the prompt out of every pooling.",
    ours="The same vectors to 1e-5, also of the folder that is written again.",
)
def test_the_tokens_of_a_prompt_may_be_left_out_of_the_pooling(tmp_path):
    folder = cased_folder(tmp_path)
    plain = open_embedder(folder, device="cpu", precision="fp32", max_length=64)
    prompt = QUERY[OWN]["prompts"]["query"]
    first = len(plain.tokenizer(prompt)) - 1  # with [CLS], without [SEP]
    rows = [torch.from_numpy(one.vectors) for one in plain.token_vectors([prompt + text for text in LONG_TEXTS])]
    wanted = torch.stack([torch.cat([one(row, first) for one in WITHOUT_PROMPT.values()]) for row in rows]).numpy()
    declare(folder, *DECLARATIONS["prompt"][:2], V6)
    pooling = {"pooling_mode": list(WITHOUT_PROMPT), "include_prompt": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    load_model(folder)[0].save(tmp_path / "saved")
    for one in (folder, tmp_path / "saved"):
        found = open_embedder(one, device="cpu", precision="fp32").vectors(LONG_TEXTS)
        assert np.abs(found - wanted).max() < 1e-5
    with pytest.raises(ConfigError, match="--long cut"):
        open_embedder(folder, device="cpu", long="windows").vectors(LONG_TEXTS)


GELU, SAME = "torch.nn.modules.activation.GELU", "torch.nn.modules.linear.Identity"
CHAINS = {  # poolings in order, then modules: sizes and further settings of a Dense, "norm" or "unit"
    **{name: ([name], []) for name in POOLED},
    "two poolings": (["cls", "mean"], ["unit"]),
    "in another order": (["mean", "lasttoken", "cls"], []),
    "dense": (["cls"], [(16, 8, {}), "unit"]),
    "without bias": (["mean"], [(16, 24, {"bias": False, "activation_function": SAME})]),
    "residual": (["mean"], [(16, 8, {"activation_function": GELU, "use_residual": True}), "unit"]),
    "residual of equal size": (["mean"], [(16, 16, {"use_residual": True})]),
    "all": (["mean", "max"], ["unit", (32, 20, {}), "norm", (20, 4, {}), "unit"]),
}


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="Poolings of six kinds are concatenated; Dense (also with a residual), LayerNorm and Normalize may follow, "
    "in any order.",
    ours="The same vectors to 1e-5, also of the folder that is written again, in both packages.",
)
@pytest.mark.parametrize("name", CHAINS)
def test_modules_after_the_network_give_the_vectors_of_their_formulas(name, tmp_path):
    poolings, chain = CHAINS[name]
    folder = cased_folder(tmp_path)
    plain = open_embedder(folder, device="cpu", precision="fp32", max_length=64)
    vectors = [
        torch.cat([POOLED[one](torch.from_numpy(tokens.vectors)) for one in poolings])
        for tokens in plain.token_vectors(LONG_TEXTS)
    ]
    wanted = torch.stack(vectors)
    declare(folder, {}, ["Pooling", *({} for _ in chain)], V6)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": poolings, "embedding_dimension": 16}))
    torch.manual_seed(3)
    for module, step in zip(modules[2:], chain, strict=True):
        if step == "unit":
            wanted = torch.nn.functional.normalize(wanted, dim=-1)
            continue
        size = wanted.shape[1]
        module["type"] = V6.format("LayerNorm" if step == "norm" else "Dense")
        if step == "norm":
            config, tensors = {"dimension": size}, {"norm.weight": torch.rand(size), "norm.bias": torch.rand(size)}
            wanted = torch.nn.functional.layer_norm(wanted, (size,), *tensors.values())
        else:
            inputs, outputs, more = step
            config = {"in_features": inputs, "out_features": outputs, **more}
            tensors = {"linear.weight": torch.randn(outputs, inputs), "linear.bias": torch.randn(outputs)}
            if more.get("bias") is False:
                del tensors["linear.bias"]
            act = {GELU: torch.nn.functional.gelu, SAME: lambda x: x}.get(more.get("activation_function"), torch.tanh)
            before, wanted = wanted, act(torch.nn.functional.linear(wanted, *tensors.values()))
            if more.get("use_residual"):
                if inputs != outputs:
                    tensors["residual.weight"] = torch.randn(outputs, inputs)
                wanted = wanted + before @ tensors.get("residual.weight", torch.eye(inputs)).T
        (folder / module["path"] / "config.json").write_text(json.dumps(config))
        save_file(tensors, folder / module["path"] / "model.safetensors")
    (folder / "modules.json").write_text(json.dumps(modules))
    encoder = open_embedder(folder, device="cpu", precision="fp32", max_length=64)
    found = encoder.vectors(LONG_TEXTS)
    assert found.shape == wanted.shape == (4, encoder.size)
    assert np.abs(found - wanted.numpy()).max() < 1e-5
    load_model(folder)[0].save(tmp_path / "saved")
    again = open_embedder(tmp_path / "saved", device="cpu", precision="fp32", max_length=64).vectors(LONG_TEXTS)
    assert np.array_equal(found, again)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"in_features": 16}, "out_features is None"),
        (
            {"in_features": 16, "out_features": 8, "activation_function": "mine.Act"},
            "activation_function is 'mine.Act'",
        ),
        ({"in_features": 16, "out_features": 8, "module_input_name": "token_embeddings"}, "token_embeddings"),
        ({"in_features": 16, "out_features": 9}, "weights"),
    ],
)
def test_a_dense_layer_that_is_not_supported_is_refused(config, sentence, tmp_path):
    folder = cased_folder(tmp_path)
    declare(folder, {}, ["Pooling", config], V6)
    listed = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(listed.replace("any.Normalize", "any.Dense"))
    save_file(
        {"linear.weight": torch.rand(8, 16), "linear.bias": torch.rand(8)}, folder / "2_Normalize/model.safetensors"
    )
    with pytest.raises(ModelFolderError, match=sentence):
        load_model(folder)
