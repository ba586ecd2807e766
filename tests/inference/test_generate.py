"""Continuing texts: streams, stops, seeds, suggestions, prompts of any length, and perplexity with a stride."""

import math

import pytest
import torch

from maskwright.api import open_generator
from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model, save_model
from maskwright.inference.generate import Generation, MaskedLMGenerator, TextGenerator
from maskwright.inference.held_out_text import ids_loss, text_perplexity
from maskwright.models.build import build
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.streaming import TextStreamer, check_stops
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "the old river was here . the red house is small .",
    "a cat sees the dog ; the dog sees naïve birds 🐦 .\n",
] * 4


def tokenizer(kind: str) -> Tokenizer:
    return Tokenizer.train_from_iterator(TEXTS, kind=kind, vocab_size=300 if kind == "byte-bpe" else 60)


def model(kind: str = "byte-bpe", room: int = 24, name: str = "gpt2"):
    tok = tokenizer(kind)
    network = preset(
        name,
        vocab_size=tok.vocab_size,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=room,
        initializer_range=0.5,
    )
    made = build(network, "clm" if name == "gpt2" else "mlm", seed=4).eval()
    made.tokenizer = tok
    return made


@pytest.mark.parametrize("kind", ["byte-bpe", "wordpiece", "bpe"])
def test_what_is_shown_while_it_grows_is_what_is_returned(kind):
    generator = TextGenerator(model(kind))
    for seed in range(3):
        settings = Generation(max_new_tokens=30, seed=seed)
        parts: list[str] = []
        streamed = generator.generate(["the red"], settings, on_text=parts.append)[0][0]
        assert "".join(parts) == streamed.text and streamed == generator.generate(["the red"], settings)[0][0]


def test_seeds_repeat_and_differ_and_know_nothing_of_the_other_prompts():
    generator = TextGenerator(model())
    prompts = ["the red", "a cat sees", "here"]
    rules = Rules(top_k=20, temperature=1.2)
    both = [generator.generate(prompts, Generation(12, rules, num_results=2, seed=seed)) for seed in (5, 5, 6)]
    assert both[0] == both[1] and both[0] != both[2] and both[0][0][0].text != both[0][0][1].text
    first = generator.generate(prompts[:1], Generation(12, rules, num_results=2, seed=5))
    assert [one.text for one in first[0]] == [one.text for one in both[0][0]]


def test_the_cache_changes_no_text_beyond_the_context_too():
    plain, cached = (TextGenerator(model(), use_cache=use) for use in (False, True))
    prompts = ["the red house is", "a", "the old river was here . the red house is small . the old river was here"]
    for settings in (Generation(40, Rules(greedy=True)), Generation(40, seed=2), Generation(8, beams=3, num_results=2)):
        one, other = (generator.generate(prompts, settings) for generator in (plain, cached))
        assert [[text.text for text in row] for row in one] == [[text.text for text in row] for row in other]


def test_a_text_ends_before_a_stop_string_and_none_of_it_is_shown():
    generator = TextGenerator(model())
    whole = generator.generate(["the red"], Generation(40, seed=1))[0][0].text
    stop = whole[len(whole) // 2 : len(whole) // 2 + 3]
    parts: list[str] = []
    ended = generator.generate(["the red"], Generation(40, seed=1, stop=(stop, "zzz")), on_text=parts.append)[0][0]
    assert ended.ended_by == "stop" and ended.text == whole[: whole.find(stop)] == "".join(parts)
    assert ended.num_tokens < 40


def test_a_model_that_says_the_end_token_ends_the_text():
    made = model()
    end = made.tokenizer.eos_id
    with torch.no_grad():
        made.encoder.final_norm.weight.zero_()
        made.encoder.final_norm.bias.copy_(made.word_embeddings[end])
        made.word_embeddings[end] *= 3
        made.encoder.final_norm.bias.copy_(made.word_embeddings[end])
    found = TextGenerator(made).generate(["the"], Generation(9, Rules(greedy=True)))[0][0]
    assert (found.text, found.ended_by, found.num_tokens) == ("", "end", 0)


def test_suggestions_begin_with_the_most_probable_tokens():
    made = model()
    generator = TextGenerator(made)
    found = generator.complete("the red", 4, max_new_tokens=5)
    ids = generator.ids_of("the red")
    shares = made(input_ids=torch.tensor([ids])).logits[0, -1].detach().log_softmax(-1)
    shares[list(made.tokenizer.special_ids)] = -math.inf
    best = shares.topk(4)
    singles = generator.complete("the red", 4, max_new_tokens=1)
    assert [one.score for one in singles] == pytest.approx(best.values.tolist(), abs=1e-4)
    assert [one.text for one in singles] == [Spelled(made.tokenizer, ids, token) for token in best.indices.tolist()]
    assert {next(s.text for s in singles if one.text.startswith(s.text)) for one in found} == {s.text for s in singles}
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True), "in the order of the score that is printed"
    for wrong in (0, -1, 10_000):
        with pytest.raises(InputError, match="k is"):
            generator.complete("the", wrong)


def Spelled(tok, ids, token):
    one = TextStreamer(tok, ids)
    one.add(token)
    return one.text()


def test_a_prompt_longer_than_the_context_counts_with_its_end(capsys):
    generator = TextGenerator(model(room=6))
    assert generator.ids_of("") == [generator.tokenizer.bos_id]
    long = "the old river was here . the red house is small ."
    found = generator.generate([long], Generation(3, Rules(greedy=True)))[0][0]
    said = "1 of 1 prompt is longer than the context length of 6 tokens: its beginning is truncated"
    assert said in capsys.readouterr().err and found.prompt == long and found.num_tokens == 3


@pytest.mark.parametrize(
    "values, said",
    [
        ({"max_new_tokens": 0}, "1 to 1,000,000"),
        ({"beams": 0}, "1 to 1,000"),
        ({"length_penalty": 2.0}, "requires beam search"),
        ({"beams": 2, "rules": Rules(greedy=True)}, "does not sample"),
        ({"num_results": 0}, "1 to 10,000"),
        ({"beams": 2, "length_penalty": float("nan")}, "from -10 to 10"),
        ({"beams": 2, "length_penalty": 1000.0}, "from -10 to 10"),
        ({"beams": 2, "num_results": 3}, "1 to 2"),
        ({"num_results": 2, "rules": Rules(greedy=True)}, "a single result"),
    ],
)
def test_impossible_wishes_are_refused_in_words(values, said):
    with pytest.raises(ConfigError, match=said):
        Generation(**values)


def test_stops_that_cannot_come_are_refused_in_words():
    check_stops(tokenizer("byte-bpe"), ["\n", "🐦", " x"])
    for kind, stop in (("wordpiece", "\n"), ("wordpiece", "THE"), ("word", "zebra"), ("byte-bpe", "")):
        with pytest.raises(InputError, match="stop string"):
            check_stops(tokenizer(kind), [stop])


# -- perplexity --------------------------------------------------------------------------------------------------------


def test_perplexity_is_that_of_the_windows_by_hand(tmp_path):
    made = model(room=8)
    path = tmp_path / "held-out.txt"
    path.write_text("the old river was here .\n\na cat sees the dog .\n", encoding="utf-8")
    found = text_perplexity(made, path, stride=3)
    text = "the old river was here .\n\na cat sees the dog ."
    ids = [*made.tokenizer.opening_ids, *made.tokenizer.encode_plain([text])[0]]
    loss = 0.0
    for token in range(1, len(ids)):
        first = 0 if token < 8 else 3 * (-(-(token - 7) // 3))
        shares = made.mlm_logits(made.encode(Batch.from_sequences([ids[first:token]])).hidden[-1:]).log_softmax(-1)
        loss -= shares[0, ids[token]].item()
    assert found.tokens == len(ids) - 1
    assert math.log(found.metrics["perplexity"]) == pytest.approx(loss / found.tokens, abs=1e-4)
    assert math.log(found.metrics["word_perplexity"]) == pytest.approx(loss / len(text.split()), abs=1e-4)
    assert found.metrics["bits_per_byte"] == pytest.approx(loss / math.log(2) / len(text.encode()), abs=1e-5)
    with pytest.raises(InputError, match="1 to 8"):
        text_perplexity(made, path, stride=9)
    with pytest.raises(InputError, match="no token to predict"):
        ids_loss(made, [1], 8, 4)


# -- a masked language model -------------------------------------------------------------------------------------------


def masked_model():
    return model("wordpiece", name="bert-tiny")


def test_a_masked_model_writes_by_filling_masks_from_left_to_right():
    made = masked_model()
    found = MaskedLMGenerator(made).generate(["the red"], Generation(4, Rules(greedy=True)))[0][0]
    tok, ids = made.tokenizer, made.tokenizer("the red").ids
    for left in range(4, 0, -1):
        row = [*ids[:-1], *[tok.mask_id] * left, ids[-1]]
        logits = made.mlm_logits(made.encode(Batch.from_sequences([row])).hidden[len(ids) - 1 : len(ids)])[0].detach()
        logits[list(tok.special_ids)] = -math.inf
        ids = [*ids[:-1], int(logits.argmax()), ids[-1]]
    assert tok.decode(ids) == "the red" + found.text and found.num_tokens == 4
    drawn = [MaskedLMGenerator(made).generate(["the"], Generation(6, seed=seed))[0][0].text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_a_masked_model_cannot_write_is_refused_in_words():
    writer = MaskedLMGenerator(masked_model())
    with pytest.raises(ConfigError, match="remove beams"):
        writer.generate(["the"], Generation(4, beams=2))
    with pytest.raises(InputError, match="accepts 24"):
        writer.generate(["the"], Generation(40))
    with pytest.raises(InputError, match="causal"):
        MaskedLMGenerator(model())
    with pytest.raises(InputError, match="causal"):
        TextGenerator(masked_model())


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
def test_a_window_shorter_than_the_positions_is_a_model_with_so_many(use_cache, beams):
    wide, narrow = model(room=24), model(room=6)
    state = {name: value[:6] if "position" in name else value for name, value in wide.state_dict().items()}
    narrow.load_state_dict(state)
    rules = Rules() if beams > 1 else Rules(greedy=True)
    prompts = ["the old river", "the red house is small . a cat sees"]
    one, other = (
        TextGenerator(made, max_length=6, use_cache=use_cache).generate(prompts, Generation(20, rules, beams=beams))
        for made in (wide, narrow)
    )
    assert [found[0].text for found in one] == [found[0].text for found in other]
    free = TextGenerator(wide, use_cache=use_cache).generate(prompts, Generation(20, rules, beams=beams))
    assert [found[0].text for found in free] != [found[0].text for found in one]


def test_a_folder_is_read_in_windows_of_its_training(tmp_path):
    save_model(model(room=24), tmp_path / "m", facts={"training": {"max_length": 6}})
    assert open_generator(tmp_path / "m").context_length == 6
    assert TextGenerator(load_model(tmp_path / "m")[0]).context_length == 6
    assert open_generator(tmp_path / "m", max_length=20).context_length == 20
    with pytest.raises(InputError, match="max_length is 25; this model supports 3 to 24"):
        open_generator(tmp_path / "m", max_length=25)
