"""BERT (Devlin et al. 2018), its variants ERNIE and Megatron-BERT, and table entries shared with other families."""

from __future__ import annotations

from typing import Any

from ..family import Family, Values, under

NAMES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "hidden_act": "hidden_act",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "classifier_dropout": "classifier_dropout",
    "max_position_embeddings": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "layer_norm_eps": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
    "tie_word_embeddings": "tie_word_embeddings",
}
UNDERSTOOD = {
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "position_embedding_type": ("absolute", None),
    "quantization_config": (None,),
    "pruned_heads": ({}, None),
}
TABLES = {
    "embeddings.word.weight": ["embeddings.word_embeddings.weight"],
    "embeddings.position.weight": ["embeddings.position_embeddings.weight"],
    "embeddings.token_type.weight": ["embeddings.token_type_embeddings.weight"],
    "embeddings.norm.{p}": ["embeddings.LayerNorm.{p}"],
}
ENCODER = TABLES | {
    "layers.{i}.attention.qkv.{p}": [
        "encoder.layer.{i}.attention.self.query.{p}",
        "encoder.layer.{i}.attention.self.key.{p}",
        "encoder.layer.{i}.attention.self.value.{p}",
    ],
    "layers.{i}.attention.out.{p}": ["encoder.layer.{i}.attention.output.dense.{p}"],
    "layers.{i}.attention_norm.{p}": ["encoder.layer.{i}.attention.output.LayerNorm.{p}"],
    "layers.{i}.ffn.up.{p}": ["encoder.layer.{i}.intermediate.dense.{p}"],
    "layers.{i}.ffn.down.{p}": ["encoder.layer.{i}.output.dense.{p}"],
    "layers.{i}.ffn_norm.{p}": ["encoder.layer.{i}.output.LayerNorm.{p}"],
    "pooler.{p}": ["pooler.dense.{p}"],
}
CLASSIFIER = {"classifier.{p}": ["classifier.{p}"]}
SPAN = {"classifier.{p}": ["qa_outputs.{p}"]}

PREDICTIONS = {
    "dense.{p}": ["cls.predictions.transform.dense.{p}"],
    "norm.{p}": ["cls.predictions.transform.LayerNorm.{p}"],
    "bias": ["cls.predictions.bias"],
    "decoder": ["cls.predictions.decoder.weight"],
}
RELATIONSHIP = {"classifier.{p}": ["cls.seq_relationship.{p}"]}


def _adapt_in(ours: Values) -> Values:
    if "attention" in ours:
        ours["attention"] = "causal" if ours["attention"] is True else "full"
    return ours


def _adapt_out(theirs: Values) -> Values:
    if theirs.pop("is_decoder") == "causal":
        theirs["is_decoder"] = True
    return theirs


HEADS = {
    "mlm": PREDICTIONS,
    "clm": PREDICTIONS,
    "nsp": RELATIONSHIP,
    "pretraining": under("predictions", PREDICTIONS) | under("seq_relationship", RELATIONSHIP),
    "classification": CLASSIFIER,
    "regression": CLASSIFIER,
    "tagging": CLASSIFIER,
    "qa": SPAN,
    "choice": CLASSIFIER,
}


def _classes(stem: str, causal: str) -> dict[str, str | None]:
    return {
        f"{stem}Model": None,
        f"{stem}ForPreTraining": "pretraining",
        f"{stem}ForMaskedLM": "mlm",
        f"{stem}ForNextSentencePrediction": "nsp",
        f"{stem}ForSequenceClassification": "classification",
        f"{stem}ForTokenClassification": "tagging",
        f"{stem}ForQuestionAnswering": "qa",
        f"{stem}ForMultipleChoice": "choice",
        causal: "clm",
    }


def _family(model_type: str, title: str, stem: str, causal: str, prefix: str = "bert.", **changes: Any) -> Family:
    settings: Values = {
        "names": NAMES | {"attention": "is_decoder"},
        "nullable": ("pad_token_id", "classifier_dropout"),
        "understood": UNDERSTOOD | {"is_decoder": (False, True, None)},
        "adapt_in": _adapt_in,
        "adapt_out": _adapt_out,
        "encoder": ENCODER,
        "heads": HEADS,
    }
    return Family(model_type, title, prefix, _classes(stem, causal), **settings | changes)


def family() -> Family:
    """Returns the BERT family, whose defaults equal those of ModelConfig."""
    return _family("bert", "BERT", "Bert", "BertLMHeadModel")


def ernie_family() -> Family:
    """ERNIE (Sun et al. 2019): BERT; ERNIE 2.0 and 3.0 add an embedding of the training task, of which 0 is used."""
    return _family(
        "ernie",
        "ERNIE",
        "Ernie",
        "ErnieForCausalLM",
        "ernie.",
        names=NAMES | {"attention": "is_decoder", "task_type_vocab_size": "task_type_vocab_size"},
        hints={"_has_tasks": "use_task_id"},
        defaults={"task_type_vocab_size": 3},
        adapt_in=_tasks_in,
        adapt_out=_tasks_out,
        encoder=ENCODER | {"embeddings.task_type.weight": ["embeddings.task_type_embeddings.weight"]},
    )


def _tasks_in(ours: Values) -> Values:
    if not ours.pop("_has_tasks", False):
        ours["task_type_vocab_size"] = 0
    return _adapt_in(ours)


def _tasks_out(theirs: Values) -> Values:
    count = theirs.pop("task_type_vocab_size")
    tasks = {"use_task_id": True, "task_type_vocab_size": count} if count else {}
    return _adapt_out(theirs) | tasks


def megatron_family() -> Family:
    """Megatron-BERT (Shoeybi et al. 2019): BERT with norms before each sublayer and none on the embeddings."""
    norms = {
        "layers.{i}.attention_norm.{p}": ["encoder.layer.{i}.attention.ln.{p}"],
        "layers.{i}.ffn_norm.{p}": ["encoder.layer.{i}.ln.{p}"],
        "final_norm.{p}": ["encoder.ln.{p}"],
    }
    names = {ours: theirs for ours, theirs in NAMES.items() if ours != "classifier_dropout"}
    return _family(
        "megatron-bert",
        "Megatron-BERT",
        "MegatronBert",
        "MegatronBertForCausalLM",
        names=names | {"attention": "is_decoder"},
        defaults={
            "vocab_size": 29_056,
            "hidden_size": 1_024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4_096,
        },
        fixed={"norm": "pre", "embedding_norm": False},
        encoder={ours: theirs for ours, theirs in ENCODER.items() if ours != "embeddings.norm.{p}"} | norms,
    )
