"""Every parameter of every method of `huggingface_hub.InferenceClient` works, or is refused by its name.

The methods and their parameters are read from the client, so that a new one fails here until it is decided.
"""

import http.server
import inspect
import json
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from maskwright import api
from maskwright.inference.translate import TranslationSettings
from maskwright.serve.dialects.hf import METHODS
from serve.in_thread import serving
from studio.models import write, write_answerer

hub = pytest.importorskip("huggingface_hub", reason="the test extra installs huggingface_hub")
from huggingface_hub import constants  # noqa: E402
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, TextGenerationError  # noqa: E402

HERE = {"device": "cpu", "precision": "fp32"}
TEXT = "the river rose after the rain ."
PEOPLE = "ada lovelace met charles babbage in london ."
CONTEXT = "where does the river rise ? it rises in the mountains of france , and dogs chase cats in the garden ."
SHORT = {"top_k": 20, "context": "dogs chase cats"}
LABELS = ["animals", "rivers"]
PROMPTS = {"query": "the cat "}


@dataclass
class Works:
    """A value, and what then holds of the answer without and with it."""

    value: Any
    holds: Any
    others: dict[str, Any] = field(default_factory=dict)


@dataclass
class Refused:
    """A value that is refused, with the parameter's name and these words."""

    value: Any
    words: str
    others: dict[str, Any] = field(default_factory=dict)


def scores(found):
    return [one.score for one in found]


def changes(plain, found):
    return plain != found


def same(plain, found):
    return plain == found


# model, input, parameters: a value that works, or a list of checks
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "text_classification": (
        "topics",
        {"text": TEXT},
        {
            "top_k": Works(1, lambda plain, found: found == plain[:1]),
            "function_to_apply": [
                Works("softmax", same),
                Works("none", lambda plain, found: np.allclose(torch.tensor(scores(found)).softmax(0), scores(plain))),
                Works("sigmoid", lambda plain, found: sum(scores(found)) != pytest.approx(1)),
                Refused("relu", "softmax"),
            ],
        },
    ),
    "zero_shot_classification": (
        "entails",
        {"text": TEXT, "candidate_labels": LABELS},
        {
            "candidate_labels": [Works(["a", "b", "c"], lambda plain, found: len(found) == 3), Refused(["a"], "2")],
            "multi_label": [
                Works(False, lambda plain, found: sum(scores(found)) == pytest.approx(1)),
                Works(True, lambda plain, found: sum(scores(found)) != pytest.approx(1)),
                Refused(True, "entailment", {"model": "vectors"}),
            ],
            "hypothesis_template": [Works("{} !", changes), Refused("no place", "{}")],
        },
    ),
    "token_classification": (
        "names",
        {"text": PEOPLE},
        {
            "aggregation_strategy": [
                Works("none", lambda plain, found: all(one.entity and not one.entity_group for one in found)),
                Works("simple", lambda plain, found: all(one.entity_group in ("PER", "LOC") for one in found)),
                *(Works(one, lambda plain, found: len(found) > 0) for one in ("first", "average", "max")),
                Refused("best", "simple"),
            ],
            "ignore_labels": [
                Works(["O", "PER"], lambda plain, found: found == [one for one in plain if one.entity_group != "PER"]),
                Works([], lambda plain, found: "O" in {one.entity_group for one in found}),
                Refused(["PERS"], "PERS", {"aggregation_strategy": "simple"}),
                Refused(["B-PER"], "'B-PER' in ignore_labels", {"aggregation_strategy": "simple"}),
                Refused(["O", "PERS"], "in ignore_labels"),
            ],
            "stride": [
                Works(2, lambda plain, found: found[-1].end > len(PEOPLE), {"text": " ".join([PEOPLE] * 12)}),
                Refused(100, "stride"),
                Refused(-1, "stride"),
            ],
        },
    ),
    "question_answering": (
        "answers",
        {"question": "who ?", "context": CONTEXT},
        {
            "top_k": [
                Works(3, lambda plain, found: len(found) == 3 and found[0].answer == plain.answer),
                Refused(0, "1"),
            ],
            "align_to_words": [
                Works(True, same),
                Works(
                    False,
                    lambda plain, found: all(one.answer == CONTEXT[one.start : one.end] for one in found),
                    {"top_k": 20},
                ),
            ],
            "doc_stride": [
                Works(1, lambda plain, found: found.answer),
                Refused(60, "stride", {"context": CONTEXT * 4}),
            ],
            "handle_impossible_answer": [
                Works(False, lambda plain, found: found.answer),
                Works(True, lambda plain, found: "" in [one.answer for one in found], SHORT),
            ],
            "max_answer_len": [
                Works(1, lambda plain, found: all(" " not in one.answer for one in found), {"top_k": 20}),
                Refused(0, "1"),
            ],
            "max_question_len": Works(
                1, lambda plain, found: found.score != plain.score, {"question": "the cat sat on it"}
            ),
            "max_seq_len": [Works(16, lambda plain, found: found.score != plain.score), Refused(10_000, "max_length")],
        },
    ),
    "fill_mask": (
        "reader",
        {"text": "the cat sat on the [MASK] ."},
        {
            "top_k": [Works(2, lambda plain, found: found == plain[:2]), Refused(0, "1")],
            "targets": [
                Works(["cat", "mat"], lambda plain, found: {one.token_str for one in found} == {"cat", "mat"}),
                Works(["cat", "mat"], lambda plain, found: len(found) == 1, {"top_k": 1}),
                Refused(["catmat"], "catmat"),
                Refused([], "1"),
            ],
        },
    ),
    "feature_extraction": (
        "vectors",
        {"text": TEXT},
        {
            "normalize": Works(True, lambda plain, found: np.linalg.norm(found) == pytest.approx(1, abs=1e-5)),
            "prompt_name": [Works("query", changes), Refused("passage", "query")],
            "truncate": [Works(True, same), Refused(False, "truncate", {"text": "the cat " * 100})],
            "truncation_direction": [Works("right", same), Refused("left", "end")],
            "dimensions": [Works(5, lambda plain, found: found.shape == (1, 5)), Refused(4096, "4,096")],
            "encoding_format": [Works("float", same), Refused("base64", "/v1/embeddings")],
        },
    ),
    "sentence_similarity": ("vectors", {"sentence": TEXT, "other_sentences": [TEXT, "dogs"]}, {}),
    "text_generation": (
        "writer",
        {"prompt": "the cat"},
        {
            "details": [
                Refused(True, "stream"),
                Works(
                    True,
                    lambda plain, found: list(found)[-1].details.generated_tokens == 4,
                    {"stream": True, "max_new_tokens": 4},
                ),
            ],
            "stream": Works(True, lambda plain, found: "".join(found) == plain),
            "adapter_id": Refused("a", "adapter"),
            "best_of": [Works(1, same), Refused(2, "num_return_sequences")],
            "decoder_input_details": Works(False, same),  # the client sends no other value without details
            "do_sample": [Works(False, same), Works(True, lambda plain, found: found)],
            "frequency_penalty": [Works(0.0, same), Refused(0.5, "repetition_penalty")],
            "grammar": Refused({"type": "regex", "value": "a+"}, "grammar"),
            "max_new_tokens": [
                Works(1, lambda plain, found: len(found) < len(plain)),
                Refused(10**6, "max_new_tokens"),
            ],
            "repetition_penalty": [Works(9.0, changes), Refused(0.0, "greater")],
            "return_full_text": Works(True, lambda plain, found: found == "the cat" + plain),
            "seed": Works(3, lambda plain, found: found, {"do_sample": True}),
            "stop": [Works(["a"], lambda plain, found: "a" not in found), Refused(["a"] * 9, "4")],
            "temperature": [
                Works(9.0, changes, {"seed": 1}),
                Refused(0.5, "do_sample", {"do_sample": False}),
                Refused(-1.0, "greater"),
            ],
            "top_k": [Works(1, same), Refused(5, "do_sample", {"do_sample": False})],
            "top_n_tokens": [Works(0, same), Refused(2, "top_n_tokens")],
            "top_p": [Works(0.0001, same), Refused(1.5, "1")],
            "truncate": Refused(3, "last tokens"),
            "typical_p": [Works(1.0, same), Refused(0.5, "top_p")],
            "watermark": [Works(False, same), Refused(True, "watermark")],
        },
    ),
    "translation": (
        "translator",
        {"text": "the cat sat ."},
        {
            "src_lang": Refused("en", "language tags", {"tgt_lang": "fr"}),
            "tgt_lang": Refused("fr", "language tags", {"src_lang": "en"}),
            "clean_up_tokenization_spaces": [Works(False, same), Refused(True, "decodes")],
            "truncation": [
                Works("longest_first", same),
                Works("do_not_truncate", same),
                Refused("do_not_truncate", "truncat", {"text": "the cat " * 100}),
                Refused("only_second", "truncation"),
            ],
            "generate_parameters": [
                Works(
                    {"max_new_tokens": 1},
                    lambda plain, found: len(found.translation_text) <= len(plain.translation_text),
                ),
                Refused({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size"),
                Refused({"num_beams": 1000}, "num_beams"),
            ],
        },
    ),
    "summarization": (
        "translator",
        {"text": "the cat sat ."},
        {
            "clean_up_tokenization_spaces": [Works(False, same), Refused(True, "decodes")],
            "truncation": [
                Works("longest_first", same),
                Refused("do_not_truncate", "truncat", {"text": "the cat " * 100}),
            ],
            "generate_parameters": [
                Works({"max_new_tokens": 1}, lambda plain, found: found.summary_text is not None),
                Refused({"length": 2}, "length"),
            ],
        },
    ),
}
# Methods of tasks that no model here has, and those that are no task.
NOT_SERVED = {
    "audio_classification", "audio_to_audio", "automatic_speech_recognition", "chat_completion",
    "document_question_answering", "image_classification", "image_segmentation", "image_to_image", "image_to_text",
    "image_to_video", "object_detection", "table_question_answering", "tabular_classification", "tabular_regression",
    "text_to_image", "text_to_speech", "text_to_video", "visual_question_answering", "zero_shot_image_classification",
    "close", "get_endpoint_info", "health_check",
}  # fmt: skip


def parameters_of(method: str) -> set[str]:
    given = set(CASES[method][1]) - {"candidate_labels"}
    return set(inspect.signature(getattr(hub.InferenceClient, method)).parameters) - {"self", "model"} - given


def checks() -> list[tuple[str, str, Any]]:
    found = []
    for method, (_, _, parameters) in CASES.items():
        for name, own in parameters.items():
            found += [(method, name, check) for check in (own if isinstance(own, list) else [own])]
    return found


@pytest.fixture(scope="module", autouse=True)
def online():
    """The client may connect, whatever tests before this one have set."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(constants, "HF_HUB_OFFLINE", False)
        yield


@pytest.fixture(scope="module")
def ask(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    own = dict(models)
    own["vectors"] = write(folder / "vectors", None)
    (own["vectors"] / "config_sentence_transformers.json").write_text(json.dumps({"prompts": PROMPTS}))
    with serving(model=tuple(f"{name}={one}" for name, one in own.items()), access_log=False) as server:
        clients = []  # one that is gone closes its streams

        def call(method, model=None, **given):
            name, inputs, _ = CASES[method]
            client = hub.InferenceClient(model=f"http://127.0.0.1:{server.port}/models/{model or name}")
            clients.append(client)
            return getattr(client, method)(**{**inputs, **given})

        yield call


def test_every_method_of_the_client_is_decided():
    methods = {
        name
        for name, one in inspect.getmembers(hub.InferenceClient, inspect.isfunction)
        if not name.startswith("_") and name not in ("chat", "post")
    }
    assert set(CASES) == set(METHODS) and not set(CASES) & NOT_SERVED and set(CASES) | NOT_SERVED == methods


@pytest.mark.parametrize("method", list(CASES))
def test_every_parameter_of_a_method_is_declared_and_tried(method):
    assert set(CASES[method][2]) == parameters_of(method)
    assert parameters_of(method) - {"stream"} <= set(METHODS[method].model_fields)


@pytest.mark.compatibility(
    "huggingface_hub 2.4.0",
    theirs="InferenceClient sends documented parameters to any server and cannot know whether one has an effect",
    ours="each parameter works or is rejected by its name (422); docs/reference/http-parameters.md lists them",
)
@pytest.mark.parametrize(("method", "name", "check"), checks())
def test_a_parameter_works_or_is_refused_by_name(ask, method, name, check):
    if isinstance(check, Refused):
        with pytest.raises((HfHubHTTPError, TextGenerationError)) as error:
            ask(method, **{**check.others, name: check.value})
        is_http = isinstance(error.value, HfHubHTTPError)
        assert not is_http or error.value.response.status_code in (413, 422)
        assert check.words in (error.value.response.json()["error"] if is_http else str(error.value))
        return
    plain = ask(
        method, **{key: value for key, value in check.others.items() if key not in ("top_k", "details", "stream")}
    )
    found = ask(method, **{**check.others, name: check.value})
    if isinstance(found, np.ndarray):
        plain, found = (np.asarray(one) for one in (plain, found))
        if check.holds in (same, changes):
            assert np.array_equal(plain, found) == (check.holds is same)
            return
    assert check.holds(plain, found)


@pytest.mark.compatibility(
    "huggingface_hub 2.4.0",
    theirs="feature_extraction sends base64 as encoding_format and then reads only lists of numbers (ValueError)",
    ours="base64 is rejected by name here and works at /v1/embeddings",
)
def test_base64_is_refused_because_the_client_cannot_read_it(ask):
    with pytest.raises(HfHubHTTPError, match="encoding_format"):
        ask("feature_extraction", encoding_format="base64")


def test_replies_have_the_shape_of_the_client(ask):
    flat = ask("zero_shot_classification")
    assert {one.label for one in flat} == set(LABELS)
    assert ask("sentence_similarity")[0] == pytest.approx(1, abs=1e-5)
    assert ask("summarization").summary_text == ask("translation").translation_text


@pytest.mark.parametrize("model", ["reader", "names"])
def test_any_encoder_answers_for_embeddings(ask, model, models):
    """Also a masked language model, as of the default server, whose own task is another one."""
    vectors = ask("feature_extraction", model=model, normalize=True)
    assert np.linalg.norm(vectors) == pytest.approx(1, abs=1e-5)
    first, second = ask("sentence_similarity", model=model)
    expected = api.open_embedder(models[model], normalize=True, **HERE).vectors([TEXT, "dogs"])
    assert first == pytest.approx(1, abs=1e-5) and second == pytest.approx(float(expected[0] @ expected[1]), abs=1e-5)
    if model == "reader":
        plain = ask("feature_extraction", model=model)
        assert np.allclose(plain, api.open_embedder(models[model], normalize=False, **HERE).vectors([TEXT]), atol=1e-5)
        with pytest.raises(HfHubHTTPError, match="MASK"):
            ask("fill_mask", text="no mask")


def test_prompts_are_put_before_the_text(ask):
    assert np.array_equal(
        ask("feature_extraction", prompt_name="query"), ask("feature_extraction", text=PROMPTS["query"] + TEXT)
    )


@pytest.mark.parametrize("refusing", [True, False])
def test_no_answer_is_empty_as_in_pipelines(tmp_path, refusing):
    write_answerer(tmp_path / "m")
    facts = json.loads((tmp_path / "m" / "maskwright.json").read_text())
    facts.pop("manifest", None)
    facts |= {"task": "qa", "may_refuse": True, "threshold": {"value": -1e9}}
    (tmp_path / "m" / "maskwright.json").write_text(json.dumps(facts))
    (tmp_path / "m" / "manifest.json").unlink(missing_ok=True)
    with serving(model=(f"m={tmp_path / 'm'}",), access_log=False) as server:
        client = hub.InferenceClient(model=f"http://127.0.0.1:{server.port}/models/m")
        found = client.question_answering("who ?", CONTEXT, handle_impossible_answer=None if refusing else False)
        if refusing:
            assert (found.answer, found.start, found.end) == ("", 0, 0)
        else:
            assert found.answer == CONTEXT[found.start : found.end] != ""


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/models/topics", {"inputs": TEXT, "parameters": {"topk": 1}}, "parameters.topk"),
        ("/models/topics", {"inputs": TEXT, "parameters": {"top_k": "1"}}, "parameters.top_k"),
        ("/models/topics", {"inputs": TEXT, "parameters": [1]}, "parameters"),
        ("/models/topics", {"inputs": TEXT, "tok_k": 1}, "tok_k"),
        ("/models/topics", {"inputs": TEXT, "options": {"wait": True}}, "options.wait"),
        ("/models/topics", {"inputs": {"query": "a", "table": {}}}, "inputs"),
        (
            "/models/entails",
            {"inputs": TEXT, "parameters": {"candidate_labels": [], "multi_label": 1}},
            "candidate_labels",
        ),
        ("/models/names", {"inputs": TEXT, "parameters": {"ignore_labels": "O"}}, "parameters.ignore_labels"),
        ("/models/answers", {"inputs": {"question": "a"}}, "context"),
        *(
            (f"/models/{name}", {"inputs": None}, "inputs")
            for name in ("names", "topics", "vectors", "reader", "answers", "writer")
        ),
        ("/", {"inputs": None}, "inputs"),
        *(
            ("/generate", {"inputs": TEXT, "parameters": {name: 5e-324}}, name)
            for name in ("temperature", "repetition_penalty")
        ),
        ("/predict", {"inputs": TEXT, "template": "{}"}, "template"),
        ("/predict", {"inputs": TEXT, "labels": ["a", "b"], "raw_scores": True}, "raw_scores"),
        ("/embed", {"inputs": TEXT, "truncation_direction": "left"}, "truncation_direction"),
        ("/embed", {"inputs": TEXT, "prompt_name": "absent"}, "prompt_name"),
    ],
)
def test_wrong_requests_are_refused_with_the_field(served, path, body, words):
    found = served.post(path, body)
    assert found.status == 422 and words in found.json()["error"]


def test_a_seed_repeats_what_is_drawn_and_without_one_it_varies(ask):
    drawn = {"do_sample": True, "temperature": 3.0}
    assert ask("text_generation", seed=3, **drawn) == ask("text_generation", seed=3, **drawn)
    assert len({ask("text_generation", **drawn) for _ in range(4)}) > 1


@pytest.mark.parametrize("search", [{"num_beams": 1}, {"num_beams": 3, "length_penalty": 0.1}, {"max_new_tokens": 2}])
def test_translations_are_those_of_the_library_with_the_same_search(ask, models, search):
    own = {{"num_beams": "beams"}.get(name, name): value for name, value in search.items()}
    expected = api.open_translator(models["translator"], **HERE).translate(
        ["the cat sat ."], TranslationSettings(**own)
    )
    assert ask("translation", generate_parameters=search).translation_text == expected[0][0].text


class Busy(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.asked.append(self.path)
        self.send_response(int(self.path[1:]))
        self.send_header("retry-after", "0")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


@pytest.mark.compatibility(
    "huggingface_hub 2.4.0",
    theirs="InferenceClient never retries, also not after 429 or 503 with Retry-After",
    ours="a full queue is 429 and a loading server 503, both with Retry-After; the page on clients says to send again",
)
@pytest.mark.parametrize("status", [429, 503])
def test_the_client_never_retries(status):
    Busy.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = hub.InferenceClient(model=f"http://127.0.0.1:{server.server_port}/{status}", timeout=10)
        with pytest.raises(HfHubHTTPError):
            client.feature_extraction("a")
        server.shutdown()
    assert Busy.asked == [f"/{status}"]


@pytest.mark.compatibility(
    "huggingface_hub 2.4.0",
    theirs="With HF_HUB_OFFLINE, InferenceClient rejects every address, also that of a server on this machine",
    ours="the server reads the variable, its clients need not: the page on clients says to set it for the server only",
)
def test_offline_mode_is_for_the_server_only(ask, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OfflineModeIsEnabled):
        ask("feature_extraction")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert len(ask("feature_extraction")) == 1


@pytest.mark.compatibility(
    "huggingface_hub 2.4.0",
    theirs="text_generation raises TextGenerationError without the response where other methods raise HfHubHTTPError",
    ours="the sentence of the server is in both",
)
def test_text_generation_raises_its_own_error(ask):
    with pytest.raises(TextGenerationError, match="max_new_tokens") as error:
        ask("text_generation", max_new_tokens=10**6)
    assert not isinstance(error.value, HfHubHTTPError)


@pytest.mark.compatibility(
    "text-embeddings-inference 1.9.3",
    theirs="POST / is /embed, /predict or /rerank, by the kind of its model",
    ours="POST / answers as /models/NAME for the first model, as InferenceClient reads it; a query with texts reranks",
)
@pytest.mark.parametrize(
    ("name", "method", "given"),
    [
        ("topics", "text_classification", {"text": TEXT}),
        ("reader", "fill_mask", {"text": "the [MASK] rose ."}),
        ("reader", "sentence_similarity", {"sentence": TEXT, "other_sentences": ["the river", "rain"]}),
    ],
)
def test_the_address_of_the_server_is_its_first_model(models, name, method, given):
    other = next(one for one in models if one != name)
    with serving(model=tuple(f"{one}={models[one]}" for one in (name, other)), access_log=False) as server:
        address = f"http://127.0.0.1:{server.port}"
        found, wanted = (
            getattr(hub.InferenceClient(model=address + path), method)(**given) for path in ("", f"/models/{name}")
        )
        assert np.array_equal(found, wanted) if isinstance(found, np.ndarray) else found == wanted
        missing = server.post("/", {"parameters": {}})
        assert (missing.status, "inputs" in json.dumps(missing.json())) == (422, True)
        if method == "sentence_similarity":
            asked = {"query": TEXT, "texts": ["rain", "the river"]}
            assert server.post("/", asked).json() == server.post(f"/models/{name}/rerank", asked).json()
            assert server.post("/", asked | {"inputs": TEXT}).status == 422
