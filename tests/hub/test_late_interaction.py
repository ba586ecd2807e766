"""Folders of late interaction (ColBERT), and routers with modules of their own for queries."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from hub.test_sentence_folders import BERT, OWN, TOKENS, cased_folder
from maskwright import api
from maskwright.core.errors import ConfigError, ModelFolderError
from maskwright.hub.folders import load_model
from maskwright.inference.late import LateEncoder
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer

HERE = {"device": "cpu", "precision": "fp32"}
TEXTS = ["one small text", "another one, with more words in it, and more", "one", ""]
MASK = "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask"
NATIVE = ["sentence_transformers.base.modules.x.Dense", MASK, "sentence_transformers.base.modules.x.Normalize"]
PYLATE = ["pylate.models.Dense.Dense"]
PROMPTS = {"prompts": {"query": "a: ", "document": "it: "}}
MARKS = {"query_prefix": "[Q] ", "document_prefix": "[D] "}
COMMAS = {"skiplist_words": [",", "no such word"]}


def filled(strategy="fixed", **more):
    return {"query_expansion": {"strategy": strategy, "length": 9, **more}}


# Modules, sentence_bert_config.json, config_sentence_transformers.json, the file of the mask (or artifact.metadata);
# then what `reference` needs for queries and for documents.
FOLDERS = {
    "lengths": (NATIVE, {"query_length": 5, "document_length": 7}, {}, {}, {"cut": 5}, {"cut": 7}),
    "filled": (
        NATIVE,
        {**filled(), "document_length": 9},
        PROMPTS,
        COMMAS,
        {"cut": 9, "fill": 9, "prompt": "a: "},
        {"cut": 9, "prompt": "it: ", "without": ","},
    ),
    "attended": (
        NATIVE,
        filled(attend=True, token="[UNK]"),
        {},
        COMMAS | {"skiplist_tasks": "query"},
        {"cut": 9, "fill": 9, "with": "[UNK]", "attend": True, "without": ","},
        {},
    ),
    "at least": (
        NATIVE[:2],
        {**filled("min"), "query_length": 12},
        {"similarity_fn_name": "meanmaxsim"},
        {},
        {"cut": 12, "fill": 9, "unit": False},
        {"unit": False},
    ),
    "pylate": (
        PYLATE,
        {},
        {**MARKS, "query_length": 8, "document_length": 10, "model_type": "ColBERT"},
        {},
        {"cut": 8, "fill": 8, "mark": "[Q] "},
        {"cut": 10, "mark": "[D] ", "without": ","},
    ),
    "pylate, not filled": (
        PYLATE,
        {},
        {"query_length": 8, "do_query_expansion": False, "skiplist_words": [], "model_type": "ColBERT"},
        {},
        {"cut": 8},
        {},
    ),
    "colbert": (
        [],
        {},
        {},
        {"query_maxlen": 10, "query_token_id": "[UNK]", "doc_token_id": "[MASK]"},
        {"cut": 10, "fill": 10, "mark": "[UNK]"},
        {"mark": "[MASK]", "without": ","},
    ),
}


def folder_of(tmp_path, modules, bert, own, mask, network="bert-tiny"):
    folder = cased_folder(tmp_path, network, pad_token_id=0)
    torch.manual_seed(5)
    weight = {"linear.weight": torch.randn(8, 16)}
    if "query_prefix" in own:
        backend = Backend.from_file(str(folder / "tokenizer.json"))
        backend.add_tokens([AddedToken(mark) for mark in MARKS.values()])
        backend.save(str(folder / "tokenizer.json"))
    files = {BERT: bert, OWN: {"model_type": "MultiVectorEncoder", **own}}
    if not modules:
        stored = load_file(folder / "model.safetensors")
        save_file(stored | weight, folder / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        files = {"config.json": config | {"architectures": ["HF_ColBERT"]}, "artifact.metadata": mask}
    else:
        contents = [{"in_features": 16, "out_features": 8, "bias": False}, mask, TOKENS]
        contents[0] |= {"activation_function": "torch.nn.modules.linear.Identity"}
        listed = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
        for index, (kind, content) in enumerate(zip(modules, contents, strict=False), start=1):
            listed.append({"path": f"{index}_module", "type": kind})
            files[f"{index}_module/config.json"] = content
            (folder / f"{index}_module").mkdir()
        save_file(weight, folder / "1_module/model.safetensors")
        files["modules.json"] = listed
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder, weight["linear.weight"]


def reference(
    folder, weight, text, cut=64, fill=0, prompt="", mark=None, without=None, attend=False, unit=True, **more
):
    """Vectors of the tokens of a text, written out with transformers."""
    import transformers

    network = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.load(folder)
    ids = tokenizer(prompt + text, max_length=cut - (mark is not None)).ids
    if mark is not None:
        ids = [ids[0], tokenizer.token_to_id(mark), *ids[1:]]
    count = len(ids)
    ids = ids + [tokenizer.token_to_id(more.get("with", "[MASK]"))] * (fill - count)
    attended = torch.tensor([[int(attend or place < count) for place in range(len(ids))]])
    with torch.no_grad():
        vectors = network(torch.tensor([ids]), attention_mask=attended).last_hidden_state[0] @ weight.T
    vectors = torch.nn.functional.normalize(vectors, dim=-1) if unit else vectors
    dropped = None if without is None else tokenizer.token_to_id(without)
    return vectors[[one != dropped for one in ids]].numpy()


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="A MultiVectorEncoder (also PyLate's and ColBERT's folders) fills queries with mask tokens, to which tokens "
    "may not attend, and leaves punctuation out of documents.",
    ours="The same vectors and MaxSim to 1e-5, in `search`, `/rerank` and `pipeline`; saved folders open there.",
)
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_of_late_interaction_gives_a_vector_per_token(name, tmp_path):
    *files, asked, searched = FOLDERS[name]
    folder, weight = folder_of(tmp_path, *files)
    wanted = {
        role: [reference(folder, weight, text, **settings) for text in TEXTS]
        for role, settings in (("query", asked), ("document", searched))
    }
    load_model(folder)[0].save(tmp_path / "saved")
    for one in (folder, tmp_path / "saved"):
        encoder = api.pipeline(one, **HERE)
        assert isinstance(encoder, LateEncoder) and encoder.size == 8
        for role, expected in wanted.items():
            for found, vectors in zip(encoder.for_role(role).vectors(TEXTS), expected, strict=True):
                assert found.shape == vectors.shape and np.abs(found - vectors).max() < 1e-5
    scores = [[(query @ text.T).max(1).sum() for text in wanted["document"]] for query in wanted["query"]]
    if name == "at least":
        scores = [np.array(row) / len(query) for row, query in zip(scores, wanted["query"], strict=True)]
    assert np.allclose(encoder.scores(TEXTS, TEXTS), scores, atol=1e-4)


@pytest.mark.parametrize("attend", [False, True])
@pytest.mark.parametrize("token", ["[MASK]", "[PAD]"])
def test_positions_of_filled_tokens_are_those_of_roberta(token, attend, tmp_path):
    settings = filled(token=token, attend=attend)
    folder, weight = folder_of(tmp_path, NATIVE, settings, {}, {}, network="roberta-base")
    encoder = api.open_late_encoder(folder, **HERE).for_role("query")
    for text, found in zip(TEXTS, encoder.vectors(TEXTS), strict=True):
        wanted = reference(folder, weight, text, cut=9, fill=9, attend=attend, **{"with": token})
        assert np.abs(found - wanted).max() < 1e-5


def test_late_interaction_is_no_embedding_of_a_text(tmp_path):
    folder, _ = folder_of(tmp_path, *FOLDERS["filled"][:4])
    with pytest.raises(ModelFolderError, match="MaxSim"):
        api.open_embedder(folder, **HERE)
    with pytest.raises(ModelFolderError, match="ColBERT"):
        api.open_late_encoder(cased_folder(tmp_path / "other"), **HERE)
    relative = build(preset("mpnet-base", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=100))
    model = load_model(folder)[0]
    relative.tokenizer, relative.sentence = model.tokenizer, model.sentence
    with pytest.raises(ConfigError, match="relative positions"):
        LateEncoder(relative, relative.sentence).for_role("query").vectors(["one"])


@pytest.mark.parametrize(
    ("name", "path", "content"),
    [
        ("filled", "2_module/config.json", {"keep_only_token_ids": [3]}),
        ("filled", "2_module/config.json", {"skiplist_words": 3}),
        ("filled", BERT, {"query_expansion": {"strategy": "max", "length": 3}}),
        ("filled", BERT, {"document_length": -2}),
        ("filled", "1_module/config.json", {"in_features": 16, "out_features": 9}),
        ("pylate", "modules.json", [{"path": "", "type": "x.Transformer"}, {"path": "", "type": "x.Pooling"}]),
    ],
)
def test_what_is_not_supported_is_refused(name, path, content, tmp_path):
    folder, _ = folder_of(tmp_path, *FOLDERS[name][:4])
    (folder / path).write_text(json.dumps(content))
    with pytest.raises(ModelFolderError, match=str(folder)):
        load_model(folder)


ROUTES = {  # the parameters of a router, and the poolings of queries, documents and other texts
    "by name": ({"default_route": "document"}, "cls", "mean", "mean"),
    "by rules": (
        {"route_mappings": {"('query', 'text')": "document", "('document', None)": "query"}},
        "mean",
        "cls",
        "cls",
    ),
}


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="A Router has modules of its own for queries and for documents.",
    ours="`search` and `/rerank` embed the query with the one and the texts with the other, as `for_role` does.",
)
@pytest.mark.parametrize("name", ROUTES)
def test_a_router_has_other_modules_for_queries(name, tmp_path):
    parameters, *poolings = ROUTES[name]
    plain = cased_folder(tmp_path)
    wanted = [api.open_embedder(plain, pooling=one, **HERE).vectors(TEXTS) for one in poolings]
    folder = tmp_path / "router"
    folder.mkdir()
    plain.rename(folder / "network")
    structure = {"query": ["network", "first"], "document": ["network", "mean"]}
    types = {"network": "x.Transformer", "first": "x.Pooling", "mean": "x.Pooling"}
    config = {"types": types, "structure": structure, "parameters": parameters}
    files = {"modules.json": [{"type": "x.Router", "path": ""}], "router_config.json": config}
    files |= {"first/config.json": {"pooling_mode": "cls"}, "mean/config.json": {"pooling_mode": "mean"}}
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps(content))
    encoder = api.open_embedder(folder, **HERE)
    found = [one.vectors(TEXTS) for one in (encoder.for_role("query"), encoder.for_role("document"), encoder)]
    assert np.abs(np.array(found) - wanted).max() < 1e-6
    with pytest.raises(ConfigError, match="copy its folder"):
        load_model(folder)[0].save(tmp_path / "saved")
    no_list = {"structure": {"query": ["network"], "document": 3}}
    unknown = {"types": types | {"first": "x.SparseStaticEmbedding"}}
    for changes, word in ((no_list, "router_config"), (unknown, "SparseStatic")):
        (folder / "router_config.json").write_text(json.dumps(config | changes))
        with pytest.raises(ModelFolderError, match=word):
            api.open_embedder(folder, **HERE)
