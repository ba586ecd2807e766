"""BERT (Devlin et al. 2018), and table entries shared with other families."""

from __future__ import annotations

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


def family() -> Family:
    """Returns the BERT family, whose defaults equal those of ModelConfig."""
    return Family(
        model_type="bert",
        title="BERT",
        prefix="bert.",
        classes={
            "BertModel": None,
            "BertForPreTraining": "pretraining",
            "BertForMaskedLM": "mlm",
            "BertForNextSentencePrediction": "nsp",
            "BertForSequenceClassification": "classification",
            "BertForTokenClassification": "tagging",
            "BertForQuestionAnswering": "qa",
            "BertForMultipleChoice": "choice",
            "BertLMHeadModel": "clm",
        },
        names=NAMES | {"attention": "is_decoder"},
        nullable=("pad_token_id", "classifier_dropout"),
        understood=UNDERSTOOD | {"is_decoder": (False, True, None)},
        adapt_in=_adapt_in,
        adapt_out=_adapt_out,
        encoder=ENCODER,
        heads={
            "mlm": PREDICTIONS,
            "clm": PREDICTIONS,
            "nsp": RELATIONSHIP,
            "pretraining": under("predictions", PREDICTIONS) | under("seq_relationship", RELATIONSHIP),
            "classification": CLASSIFIER,
            "regression": CLASSIFIER,
            "tagging": CLASSIFIER,
            "qa": SPAN,
            "choice": CLASSIFIER,
        },
    )
