"""GPT-2 as transformers has it: outputs, losses, gradients, folders both ways, and its generated texts."""

import itertools
import json
from dataclasses import replace

import pytest
import torch

from maskwright.core.errors import ModelFolderError
from maskwright.hub.folders import load_model, save_model
from maskwright.models.build import build
from maskwright.models.decoding.causal import CausalDecoder
from maskwright.models.decoding.rules import Rules, probabilities
from maskwright.models.decoding.search import Beams, grow, search_beams
from maskwright.models.presets import preset
from parity.checkpoints import checkpoint, labels_for, their_class
from parity.comparing import VIEWS, compare, compare_outputs
from parity.exact import exact

FLOAT32, FLOAT64 = 5e-5, 1e-10
HEADS = (None, "clm", "classification", "regression", "tagging", "qa")
SCALED = {"pad_token_id": 0, "n_layer": 3, "bos_token_id": None, "eos_token_id": None}
SETTINGS = (
    {"pad_token_id": 5, "n_inner": 44, "bos_token_id": 1, "eos_token_id": 2},
    SCALED | {"activation_function": "relu", "layer_norm_epsilon": 1e-3},
)
SCALES = (
    {"scale_attn_by_inverse_layer_idx": True},
    {"scale_attn_weights": False},
    {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True},
)


def rows(config, seed=0):
    """Ids and mask [4, 20], padded at the right; the padding token stands nowhere else, since theirs looks for it."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(6, config.vocab_size, (4, 20), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 13:] = mask[2, 1:] = 0
    return {"input_ids": ids.masked_fill(mask == 0, config.pad_token_id), "attention_mask": mask}


def labels(head, batch):
    """As the harness draws them; the columns of spans lie inside."""
    found = labels_for(head, batch, "gpt2")
    return {name: value[:4] for name, value in found.items()}


def loads(head, settings, folder, dtype, tolerance):
    theirs = checkpoint("gpt2", head, **settings)
    theirs.save_pretrained(folder)
    ours, report = load_model(folder)
    assert ours.head_name == head and ours.config.family == "gpt2" and ours.config.pools_last_token
    assert not report.new and not report.unused, report
    batch = rows(theirs.config)
    given = {
        name: value.to(dtype) if value.is_floating_point() else value for name, value in labels(head, batch).items()
    }
    found = compare(ours.to(dtype), theirs.to(dtype), "gpt2", head, batch, given)
    assert max(found.values()) < tolerance, max(found.items(), key=lambda item: item[1])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("settings", SETTINGS, ids=["one", "other"])
def test_what_transformers_wrote_gives_its_numbers_here(head, settings, tmp_path):
    loads(head, settings, tmp_path, torch.float32, FLOAT32)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_float64_agrees_to_ten_decimals(head, tmp_path):
    with exact("gpt2"):
        loads(head, SETTINGS[0], tmp_path, torch.float64, FLOAT64)


@pytest.mark.parametrize("head", HEADS)
def test_what_is_written_here_opens_in_transformers_with_the_same_numbers(head, tmp_path):
    theirs = checkpoint("gpt2", head, **SETTINGS[0])
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = load_model(tmp_path / "theirs")
    with torch.no_grad():  # other weights, so that nothing can come from the first folder
        for parameter in ours.parameters():
            parameter.mul_(0.8).add_(0.01)
    save_model(ours, tmp_path / "ours")
    again, facts = their_class("gpt2", head).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not facts["missing_keys"] and not facts["unexpected_keys"] and not facts["mismatched_keys"], facts
    assert (again.config.n_inner, again.config.n_layer, again.config.pad_token_id) == (44, 2, 5)
    batch = rows(again.config)
    with torch.no_grad():
        found = compare_outputs(ours(**batch, **VIEWS), again.eval()(**batch, **VIEWS), batch, head)
    assert max(found.values()) < FLOAT32, found


def test_old_files_without_prefix_and_with_stored_masks_load(tmp_path):
    from safetensors.torch import load_file, save_file

    theirs = checkpoint("gpt2", "clm", **SETTINGS[0])
    theirs.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    old = {name.removeprefix("transformer."): value for name, value in tensors.items()}
    for layer in range(2):
        old[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 37, 37)
        old[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(old, tmp_path / "model.safetensors", metadata={"format": "pt"})
    ours, report = load_model(tmp_path)
    assert not report.new and not report.unused
    batch = rows(theirs.config)
    assert max(compare_outputs(ours(**batch), theirs(**batch, use_cache=False), batch, "clm").values()) < FLOAT32


@pytest.mark.parametrize(
    "setting", [{"scale_attn_by_inverse_layer_idx": 1}, {"scale_attn_weights": "no"}, {"add_cross_attention": True}]
)
def test_settings_that_are_computed_otherwise_are_refused(setting, tmp_path):
    checkpoint("gpt2", "clm", **SETTINGS[0]).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | setting))
    with pytest.raises(ModelFolderError, match="scale_attention|add_cross_attention"):
        load_model(tmp_path)


@pytest.mark.parametrize("scales", SCALES, ids=["by-layer", "unscaled", "all"])
def test_scales_of_attention_scores_are_theirs_both_ways(scales, tmp_path):
    loads("clm", SCALED | scales, tmp_path / "theirs", torch.float32, FLOAT32)
    ours, _ = load_model(tmp_path / "theirs")
    save_model(ours, tmp_path / "ours")
    again = their_class("gpt2", "clm").from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    assert {name: getattr(again.config, name) for name in scales} == scales
    batch = rows(again.config)
    with torch.no_grad():
        found = compare_outputs(ours(**batch, **VIEWS), again(**batch, **VIEWS), batch, "clm")
    assert max(found.values()) < FLOAT32, found


def test_upcast_attention_is_float32_attention_in_half_precision():
    config = preset("gpt2", vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2)
    plain, upcast = (build(replace(config, upcast_attention=one), "clm").eval() for one in (False, True))
    seen = []
    for layer in upcast.encoder.layers:
        layer.attention.out.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    ids = torch.arange(1, 41)[None]
    with torch.no_grad():
        exact = plain(ids).logits
        assert torch.equal(upcast(ids).logits, exact)
        plain.compute_dtype = upcast.compute_dtype = torch.bfloat16
        seen.clear()
        errors = [float((model(ids).logits.float() - exact).abs().mean()) for model in (plain, upcast)]
    assert seen == [torch.bfloat16] * 2 and errors[1] != errors[0] and errors[1] < 2 * errors[0]


# -- Greedy and beam continuations are those of transformers' generate on the same weights, for unequal p ------------

END, PAD = 7, 5
PROMPTS = [[11, 12, 13, 14, 15], [16, 17], [18, 19, 20, 21, 22, 23, 24], [25]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    theirs = checkpoint("gpt2", "clm", pad_token_id=PAD, bos_token_id=1, eos_token_id=END, n_layer=2, use_cache=True)
    theirs.save_pretrained(folder)
    return load_model(folder)[0], theirs


def padded(prompts):
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (width - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    return {"input_ids": ids, "attention_mask": mask}


def their_continuations(theirs, prompts, **settings):
    rows = padded(prompts)
    out = theirs.generate(**rows, do_sample=False, max_new_tokens=12, **settings)[:, rows["input_ids"].shape[1] :]
    found = []
    for row in out.tolist():
        found.append(list(itertools.takewhile(lambda token: token not in (END,), row)))
    return found


@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_greedy(pair, penalty):
    ours, theirs = pair
    settings = {} if penalty == 1 else {"repetition_penalty": penalty}
    # Their penalty sees the padding of unequal prompts as text, so it is compared one prompt at a time.
    groups = [PROMPTS] if penalty == 1 else [[prompt] for prompt in PROMPTS]
    for prompts in groups:
        rules = Rules(greedy=True, repetition_penalty=penalty)
        grown = grow(CausalDecoder(ours, prompts, 12), prompts, rules, max_new_tokens=12, end_ids={END})
        assert [one.ids for one in grown] == their_continuations(theirs, prompts, **settings)


@pytest.mark.parametrize(
    "beams",
    [
        Beams(3, 3),
        Beams(4, 2, length_penalty=0.0),
        Beams(4, 4, length_penalty=2.0, early_stopping=True),
        Beams(5, 5, length_penalty=-1.0),
    ],
    ids=str,
)
def test_beams(pair, beams):
    ours, theirs = pair
    found = search_beams(CausalDecoder(ours, PROMPTS, 12), PROMPTS, beams, max_new_tokens=12, end_ids={END})
    rows = padded(PROMPTS)
    chosen = {"num_beams": beams.width, "num_return_sequences": beams.num_results, "do_sample": False}
    chosen |= {"length_penalty": beams.length_penalty, "early_stopping": beams.early_stopping, "max_new_tokens": 12}
    expected = theirs.generate(**rows, **chosen, return_dict_in_generate=True, output_scores=True)
    scores = expected.sequences_scores.view(len(PROMPTS), -1)
    ours_scores = torch.tensor([[one.score for one in text] for text in found])
    torch.testing.assert_close(ours_scores, scores, rtol=0, atol=1e-4)
    new = expected.sequences[:, rows["input_ids"].shape[1] :].tolist()
    for one, row in zip(itertools.chain(*found), new, strict=True):
        assert one.ids == row[: len(one.ids)]
        assert row[len(one.ids) :] == [] or row[len(one.ids)] in (END, PAD)


@pytest.mark.parametrize(
    "rules", [Rules(top_k=5), Rules(top_p=0.7), Rules(temperature=0.6, top_k=20, top_p=0.5)], ids=str
)
def test_what_may_be_drawn_and_how_probably(pair, rules):
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = torch.randn(6, 83, generator=torch.Generator().manual_seed(1)) * 3
    warpers = [TemperatureLogitsWarper(rules.temperature)]
    warpers += [TopKLogitsWarper(rules.top_k)] if rules.top_k else []
    warpers += [TopPLogitsWarper(rules.top_p)] if rules.top_p else []
    expected = LogitsProcessorList(warpers)(torch.zeros(6, 1, dtype=torch.int64), logits).softmax(-1)
    shares, ids = probabilities(logits, rules)
    found = torch.zeros(6, 83, dtype=torch.float64).scatter(1, ids, shares)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=1e-6)
