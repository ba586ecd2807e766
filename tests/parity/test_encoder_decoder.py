"""Encoder-decoders against transformers: Marian and BART folders both ways, on random weights."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

from maskwright.core.errors import ModelFolderError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.decoding.search import Beams, search_beams
from maskwright.models.decoding.translation import TranslationDecoder, translate_ids
from maskwright.models.encoder_decoder import EncoderDecoder

SIZES = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 40,
    "init_std": 0.3,
}
MARIAN = SIZES | {"pad_token_id": 59, "decoder_start_token_id": 59, "eos_token_id": 0, "activation_function": "swish"}


def marian(**changes):
    return drawn(transformers.MarianMTModel(transformers.MarianConfig(**(MARIAN | changes))))


def bart(**changes):
    return drawn(transformers.BartForConditionalGeneration(transformers.BartConfig(**(SIZES | changes))))


def drawn(model):
    """The model with a bias, and norms that do something."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        model.final_logits_bias.normal_(0, 1, generator=generator)
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model.eval()


KINDS = {
    "marian": lambda: marian(scale_embedding=True),
    "two vocabularies": lambda: marian(
        share_encoder_decoder_embeddings=False, decoder_vocab_size=50, decoder_start_token_id=49, pad_token_id=49
    ),
    "bart": bart,
}


@pytest.fixture(params=KINDS)
def both(request, tmp_path):
    """The model of transformers, and what its folder is here."""
    theirs = KINDS[request.param]()
    theirs.save_pretrained(tmp_path)
    return theirs, load_model(tmp_path)[0]


def their_texts(theirs, ids, mask, width, penalty, limit, **more):
    """Padding is banned on both sides, as published translation models have it."""
    chosen = {"num_beams": width, "num_return_sequences": width, "length_penalty": penalty, "max_new_tokens": limit}
    chosen |= {"do_sample": False, "bad_words_ids": [[theirs.config.pad_token_id]]}
    kept = {"return_dict_in_generate": True, "output_scores": True}
    return theirs.generate(input_ids=ids, attention_mask=mask, **chosen, **kept, **more)


def rows(vocab=48):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, vocab, (4, 9), generator=generator)
    mask = (torch.arange(9) < torch.tensor([9, 4, 1, 7])[:, None]).long()
    return ids, mask, torch.randint(3, vocab, (4, 6), generator=generator)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_transformers_gives_its_numbers(tmp_path, kind):
    theirs = KINDS[kind]()
    theirs.save_pretrained(tmp_path)
    ours, report = load_model(tmp_path)
    assert isinstance(ours, EncoderDecoder) and ours.head_name == "seq2seq"
    assert not report.new and not report.unused
    ids, mask, target = rows()
    wanted = {"output_hidden_states": True, "output_attentions": True}
    theirs.set_attn_implementation("eager")
    with torch.no_grad():
        a = ours(ids, mask, decoder_input_ids=target, **wanted)
        b = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=target, **wanted)
    assert float((a.logits - b.logits).abs().max()) < 1e-4
    for name in ("decoder_hidden_states", "decoder_attentions", "cross_attentions"):
        for one, other in zip(getattr(a, name), getattr(b, name), strict=True):
            assert float((one - other).abs().max()) < 1e-4, name
    kept = mask.bool()
    assert float((a.encoder_last_hidden_state - b.encoder_last_hidden_state)[kept].abs().max()) < 1e-4


def test_the_loss_of_labels_is_theirs(both):
    theirs, ours = both
    ids, mask, labels = rows()
    labels[1, 3:] = -100
    with torch.no_grad():
        a, b = (model(input_ids=ids, attention_mask=mask, labels=labels) for model in (ours, theirs))
    assert float(abs(a.loss - b.loss)) < 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["stored", None])
def test_a_folder_of_ours_opens_there_with_the_same_numbers(tmp_path, kind, head):
    KINDS[kind]().save_pretrained(tmp_path / "theirs")
    ours, _ = load_model(tmp_path / "theirs", head)
    ours.save(tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text(encoding="utf-8"))
    cls = getattr(transformers, written["architectures"][0])
    again, loading = cls.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not loading["unexpected_keys"]
    assert all("embed_positions" in name for name in loading["missing_keys"])  # sinusoids, which are computed there
    ids, mask, target = rows()
    with torch.no_grad():
        a = ours(ids, mask, decoder_input_ids=target)
        b = again.eval()(input_ids=ids, attention_mask=mask, decoder_input_ids=target)
    name = "logits" if head == "stored" else "last_hidden_state"
    assert float((a[name] - b[name]).abs().max()) < 1e-4
    stored = load_file(tmp_path / "ours" / "model.safetensors")
    assert sum(tensor.numel() for tensor in stored.values()) == ours.num_parameters


def test_tables_that_are_not_shared_are_refused(tmp_path):
    bart(tie_word_embeddings=False).save_pretrained(tmp_path)
    with pytest.raises(ModelFolderError, match="tie_word_embeddings is False"):
        load_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}), encoding="utf-8")
    with pytest.raises(ModelFolderError, match="differ, but config.json says"):
        load_model(tmp_path)


@pytest.mark.parametrize(("width", "penalty"), [(1, 1.0), (4, 1.0), (5, 0.6), (3, 0.0)])
def test_beams_are_theirs(both, width, penalty):
    theirs, ours = both
    ids, mask, _ = rows()
    config = ours.config
    ends = {"forced_eos_token_id": None, "eos_token_id": config.eos_token_id}
    found = their_texts(theirs, ids, mask, width, penalty, 12, **ends)
    sources = Batch.from_sequences([row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)])
    decoder = TranslationDecoder(ours, sources, 12)
    beams = search_beams(
        decoder,
        [[config.decoder_start_token_id]] * 4,
        Beams(width, num_results=width, length_penalty=penalty),
        max_new_tokens=12,
        end_ids={config.eos_token_id},
        banned_ids={config.pad_token_id},
    )
    own = [one for text in beams for one in text]
    for number, (one, sequence) in enumerate(zip(own, found.sequences.tolist(), strict=True)):
        wanted = sequence[1 : 1 + len(one.ids) + one.is_ended]
        assert [*one.ids, *([config.eos_token_id] if one.is_ended else [])] == wanted
        assert all(token == config.pad_token_id for token in sequence[1 + len(wanted) :])
        if width > 1:
            assert one.score == pytest.approx(float(found.sequences_scores[number]), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "penalty", "limit"), [(1, 1.0, 6), (2, 1.0, 6), (4, 0.6, 3), (2, 1.0, 1)])
@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="BART and Marian end a text at the length limit with forced_eos_token_id, which adds 0 to its score",
    ours="The same tokens and scores from config.json; the text still counts as not ended",
)
def test_texts_cut_at_the_limit_end_and_score_as_theirs(tmp_path, kind, width, penalty, limit):
    theirs = KINDS[kind]()
    end, pad = theirs.config.forced_eos_token_id, theirs.config.pad_token_id
    theirs.final_logits_bias[..., end] = -50.0  # no text ends before its limit
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    assert ours.config.forced_eos_token_id == end
    ids, mask, _ = rows()
    found = their_texts(theirs, ids, mask, width, penalty, limit)
    sources = [row[kept.bool()].numpy() for row, kept in zip(ids, mask, strict=True)]
    beams = Beams(width, num_results=width, length_penalty=penalty)
    own = translate_ids(ours, sources, beams, end_ids={end}, banned_ids={pad}, max_new_tokens=limit)
    texts = [one for text in own for one in text]
    assert not any(one.is_ended for one in texts)
    wanted = found.sequences.tolist()
    if limit == 1:  # one text is possible; theirs repeats it
        texts, wanted = [text[0] for text in own], wanted[::width]
    assert [[*one.ids, end] for one in texts] == [row[1:] for row in wanted]
    if width > 1:
        scores = found.sequences_scores.tolist()[:: width if limit == 1 else 1]
        assert [one.score for one in texts] == pytest.approx(scores, abs=1e-4)


def test_a_folder_without_a_forced_end_cuts_texts_at_the_limit(tmp_path):
    theirs = marian()
    theirs.generation_config.forced_eos_token_id = None  # config.json has 0, which does not count then
    theirs.final_logits_bias[..., 0] = -50.0
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    (text,) = translate_ids(ours, [rows()[0][0].numpy()], Beams(1), end_ids={0}, max_new_tokens=6)
    assert len(text[0].ids) == 6 and not text[0].is_ended
    ours.save(tmp_path / "again")
    assert transformers.GenerationConfig.from_pretrained(tmp_path / "again").forced_eos_token_id is None
