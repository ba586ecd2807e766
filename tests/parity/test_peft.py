"""The same numbers as PEFT, both ways: adapters that it wrote, and adapters that are written here."""

import peft
import pytest
import torch
import transformers

from maskwright.hub.adapters import attach_adapter
from maskwright.hub.folders import load_model, merged, save_model
from maskwright.models.lora_config import LoraConfig
from parity.checkpoints import HEADS, SETTINGS, checkpoint, padded_rows, quick, their_class
from parity.comparing import compare_outputs

FLOAT32 = 5e-5
KINDS = {"classification": "SEQ_CLS", "regression": "SEQ_CLS", "tagging": "TOKEN_CLS", "qa": "QUESTION_ANS"}
KINDS |= {None: "FEATURE_EXTRACTION", "mlm": None, "choice": None}
CASES = [("bert", head) for head in KINDS] + [(name, "classification") for name in HEADS if name != "bert"]
CASES += [("roberta", "tagging"), ("modernbert", "tagging")]
STABILIZED = [(*case, False) for case in CASES] + [("bert", "classification", True)]
TARGETED = [(*case, targets) for case in CASES for targets in ("query,value", "all-linear")]
TARGETED += [("bert", "classification", "ffn-out"), ("bert", "classification", "key,ffn-in,attention-output")]


def randomized(parameters):
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in parameters:
            parameter.normal_(0, 0.3, generator=generator)


def base_of(name, head, folder):
    theirs = checkpoint(name, head, **SETTINGS[name][0])
    theirs.save_pretrained(folder)
    return theirs, padded_rows(theirs.config, head)


def difference(ours, theirs, rows, head):
    theirs = (
        theirs.base_model if head == "qa" and isinstance(theirs, peft.PeftModel) else theirs
    )  # PEFT's wrapper drops the token types
    with torch.no_grad():
        found = compare_outputs(ours(**rows), theirs(**rows), rows, head)
    return max(found.values())


@pytest.mark.parametrize("name, head, rank_stabilized", quick(STABILIZED))
def test_what_peft_wrote_gives_its_numbers_here(name, head, rank_stabilized, tmp_path):
    theirs, rows = base_of(name, head, tmp_path / "base")
    theirs = their_class(name, head).from_pretrained(tmp_path / "base", attn_implementation="eager")
    before = difference(load_model(tmp_path / "base")[0], theirs, rows, head)
    saved = ["classifier"] if head == "choice" else None
    linear = [own for own, part in theirs.named_modules() if isinstance(part, torch.nn.Linear) and ".0." in own]
    config = peft.LoraConfig(
        task_type=KINDS[head], r=3, lora_alpha=7, target_modules=linear, modules_to_save=saved,
        use_rslora=rank_stabilized, lora_dropout=0.1,
    )  # fmt: skip
    adapted = peft.get_peft_model(theirs, config).eval()
    randomized(one for one in adapted.parameters() if one.requires_grad)
    adapted.save_pretrained(tmp_path / "adapter")
    ours, report = load_model(tmp_path / "adapter")
    assert (ours.head_name, report.new) == (head, [])
    assert max(before, difference(ours, adapted, rows, head)) < FLOAT32
    save_model(merged(ours), tmp_path / "whole")
    whole = their_class(name, head).from_pretrained(tmp_path / "whole", attn_implementation="eager").eval()
    assert difference(ours, whole, rows, head) < FLOAT32
    assert difference(load_model(tmp_path / "base")[0], adapted, rows, head) > 1e-3  # the adapter matters


@pytest.mark.parametrize("name, head, targets", quick(TARGETED))
def test_what_is_written_here_opens_in_peft_with_the_same_numbers(name, head, targets, tmp_path):
    _, rows = base_of(name, head, tmp_path / "base")
    base = str(tmp_path / "base")
    ours, report = load_model(base)
    attach_adapter(ours, base, LoraConfig(rank=3, alpha=7, targets=tuple(targets.split(","))), report.new, 1, {})
    randomized(one for one in ours.parameters() if one.requires_grad)
    save_model(ours, tmp_path / "adapter")
    theirs = their_class(name, head).from_pretrained(base, attn_implementation="eager")
    adapted = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()
    assert difference(ours, adapted, rows, head) < FLOAT32
    assert difference(load_model(tmp_path / "adapter")[0], adapted, rows, head) < FLOAT32


@pytest.mark.compatibility(
    "peft 0.21.2",
    theirs="For QUESTION_ANS it wraps qa_outputs, too, and fails where its parent, BigBird's qa_classifier, is saved.",
    ours="Adapters of this head are written without a task type, so that PEFT opens them with the same numbers.",
)
def test_the_question_head_of_bigbird_opens_in_peft(tmp_path):
    test_what_is_written_here_opens_in_peft_with_the_same_numbers("big_bird", "qa", "query,value", tmp_path)


def agree_both_ways(theirs, lora, inputs, folder):
    base, cls = folder / "base", type(theirs)
    theirs.save_pretrained(base)
    adapted = peft.get_peft_model(cls.from_pretrained(base), lora).eval()
    randomized(one for one in adapted.parameters() if one.requires_grad)
    adapted.save_pretrained(folder / "theirs")
    ours, _ = load_model(folder / "theirs")
    expected = adapted(**inputs).logits
    assert (ours(**inputs).logits - expected).abs().max() < FLOAT32
    save_model(ours, folder / "ours")
    again = peft.PeftModel.from_pretrained(cls.from_pretrained(base), folder / "ours").eval()
    assert (again(**inputs).logits - expected).abs().max() < 1e-6


def test_joint_transposed_layers_agree_both_ways(tmp_path):
    """GPT-2 stores queries, keys and values as one matrix, [in, out]; an adapter changes it as one."""
    sizes = {"vocab_size": 83, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 37}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=2, fan_in_fan_out=True)
    agree_both_ways(theirs, lora, {"input_ids": torch.randint(0, 83, (2, 9))}, tmp_path)


def test_decoders_and_cross_attention_agree_both_ways(tmp_path):
    config = transformers.MarianConfig(
        vocab_size=83, d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=37, pad_token_id=1,
        eos_token_id=0, decoder_start_token_id=1, bos_token_id=0, forced_eos_token_id=0,
    )  # fmt: skip
    lora = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=["q_proj", "k_proj", "fc1", "out_proj"])
    inputs = {"input_ids": torch.randint(2, 83, (2, 9)), "decoder_input_ids": torch.randint(2, 83, (2, 7))}
    agree_both_ways(transformers.MarianMTModel(config), lora, inputs, tmp_path)
