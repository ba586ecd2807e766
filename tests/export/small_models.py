"""Small networks of every family and head, and their outputs as a graph would give them."""

from inference.samples import tokenizer
from maskwright.export.agreement import Agreement, TorchRuntime, compare, drawn_trials
from maskwright.export.cached import networks_of
from maskwright.export.card import specification
from maskwright.export.config import ExportConfig
from maskwright.export.network import most_tokens
from maskwright.models.build import build
from maskwright.models.model import Model, SentenceSettings
from maskwright.models.presets import PRESETS, preset

ENCODERS = (
    "bert-tiny",
    "roberta-base",
    "xlm-roberta-base",
    "distilbert-base",
    "albert-base",
    "electra-small",
    "mpnet-base",
    "bigbird-base",
    "modernbert-base",
    "deberta-base",
    "deberta-v2-xlarge",
    "deberta-v3-base",
    "gpt2",
    "bag-small",
)
HEADS = (None, "mlm", "nsp", "pretraining", "rtd", "classification", "regression", "tagging", "qa", "choice", "anomaly")
LABELS = {"classification": ["no", "perhaps", "yes"], "tagging": ["O", "B-A", "I-A"]}


SIZES = {"vocab_size": len(tokenizer()), "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"max_position_embeddings": 40, "initializer_range": 0.3}


def small(name: str, head: str | None = None, **changes) -> Model:
    sizes = SIZES | {"num_hidden_layers": 3}
    if name == "bag-small":
        sizes |= {"num_hidden_layers": 0, "num_attention_heads": 1}
    if PRESETS[name].embedding_size:
        sizes["embedding_size"] = 8
    if PRESETS[name].question_sep_token_id is not None:
        sizes["question_sep_token_id"] = tokenizer().token_to_id("[SEP]")
    if PRESETS[name].attention == "window":
        sizes["window_size"] = 8
    if PRESETS[name].pad_token_id is None or PRESETS[name].pad_token_id >= sizes["vocab_size"]:
        sizes["pad_token_id"] = 0
    model = build(preset(name, **sizes | changes), head, labels=LABELS.get(head or ""), seed=3).eval()
    model.tokenizer = tokenizer()
    return model


def small_translator(name: str = "transformer-mini", **changes) -> Model:
    """An encoder-decoder of two and three layers of 16, whose end token is rare."""
    sizes = SIZES | {"num_hidden_layers": 2, "num_decoder_layers": 3, "pad_token_id": 0, "decoder_start_token_id": 0}
    sizes["eos_token_id"] = tokenizer().token_to_id("[SEP]")
    model = build(preset(name, **sizes | changes), "seq2seq", seed=3).eval()
    model.tokenizer = tokenizer()
    return model


def agreement_of(
    model: Model, declared: SentenceSettings | None = None, by: Model | None = None, count: int | None = None
) -> Agreement:
    """How the networks for graphs of `by`, by default of the model, run by torch, agree with the library.

    count: of batches that are compared, None for all.
    """
    networks, longest = networks_of(model, declared), most_tokens(model.config)
    runtimes = {one.name: TorchRuntime(one) for one in (networks if by is None else networks_of(by))}
    trials = drawn_trials(networks[0], longest)[:count]
    return compare(networks, runtimes, specification_of(networks, longest), trials)


def specification_of(networks, longest: int):
    files = {network.name: [f"{network.name}.onnx"] for network in networks}
    return specification(networks, ExportConfig(model="model", output="out"), files, longest, longest)
