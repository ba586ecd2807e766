"""Random BERT checkpoints made by transformers, with settings that are not the defaults."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

CLASSES = {
    None: transformers.BertModel,
    "mlm": transformers.BertForMaskedLM,
    "nsp": transformers.BertForNextSentencePrediction,
    "pretraining": transformers.BertForPreTraining,
    "classification": transformers.BertForSequenceClassification,
    "regression": transformers.BertForSequenceClassification,
}

SETTINGS = [
    {},
    {"hidden_act": "relu", "layer_norm_eps": 1e-5, "type_vocab_size": 1, "num_attention_heads": 1},
    {"hidden_act": "gelu_new", "type_vocab_size": 3, "hidden_size": 30, "num_attention_heads": 5, "pad_token_id": 7},
    {"hidden_act": "silu", "intermediate_size": 17, "num_hidden_layers": 1, "layer_norm_eps": 1e-3},
    {"tie_word_embeddings": False, "num_hidden_layers": 4, "classifier_dropout": 0.3},
]


def bert(head, seed=0, **settings):
    """A model of transformers whose every parameter, norms and biases too, is drawn at a spread of 0.15 or more."""
    small = {
        "vocab_size": 83,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 44,
        "max_position_embeddings": 37,
    }
    if head == "classification":
        small |= {"id2label": {0: "bad", 1: "so-so", 2: "good"}, "label2id": {"bad": 0, "so-so": 1, "good": 2}}
    if head == "regression":
        small |= {"num_labels": 1, "problem_type": "regression"}
    config = transformers.BertConfig(**(small | settings), attn_implementation="eager")
    model = CLASSES[head](config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.25, generator=generator)
    return model


def padded_rows(config, seed=0):
    """Ids [6, 20], mask and token types: full, right padding, left padding, a hole, a hole at column 0, one token."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, config.vocab_size, (6, 20), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 13:] = 0
    mask[2, :6] = 0
    mask[3, 8:11] = 0
    mask[4, 0] = mask[4, 5] = 0
    mask[5, 1:] = 0
    types = torch.randint(0, config.type_vocab_size, ids.shape, generator=generator)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def labels_for(head, rows, seed=0):
    """Label arguments, as transformers names them, for a head."""
    generator = torch.Generator().manual_seed(seed)
    ids, mask = rows["input_ids"], rows["attention_mask"]
    words = torch.where((torch.rand(ids.shape, generator=generator) < 0.3) & (mask == 1), ids, -100)
    words[0, 0] = 5
    of_rows = torch.randint(0, 2, (len(ids),), generator=generator)
    return {
        None: {},
        "mlm": {"labels": words},
        "nsp": {"labels": of_rows},
        "pretraining": {"labels": words, "next_sentence_label": of_rows},
        "classification": {"labels": of_rows + 1},
        "regression": {"labels": torch.randn(len(ids), generator=generator)},
    }[head]
