#!/usr/bin/env bash
# Expected: a pair of texts is framed as DeBERTa was trained and as the folder's tokenizer.json says: one [SEP] between
# the texts, type 1 for the second.
# Happens: DebertaTokenizer replaces the template of tokenizer.json by its own: two [SEP] between the texts, and type 0
# for all tokens. Scores of pairs (inference, relevance, question answering) are those of an input that the model has
# never seen. PreTrainedTokenizerFast follows the same file.
# Version: transformers 5.23.0, tokenizers 0.22.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PY'
import json
import sys

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

print("transformers", transformers.__version__)
vocab = {token: index for index, token in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "b"])}
backend = Tokenizer(models.BPE(vocab, []))
backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
backend.add_special_tokens(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"])
backend.post_processor = processors.TemplateProcessing(
    single="[CLS]:0 $A:0 [SEP]:0",
    pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
    special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
)
found = {}
for name in ("PreTrainedTokenizerFast", "DebertaTokenizer"):
    backend.save("tokenizer.json")
    with open("tokenizer_config.json", "w") as file:
        json.dump({"tokenizer_class": name}, file)
    pair = transformers.AutoTokenizer.from_pretrained(".")("a", "b", return_token_type_ids=True)
    found[name] = pair.tokens()
    print(f"{name}: {' '.join(found[name])}, types {pair['token_type_ids']}")
if found["PreTrainedTokenizerFast"].count("[SEP]") != 2 or found["DebertaTokenizer"].count("[SEP]") != 3:
    sys.exit("The behavior changed: both follow the template of tokenizer.json.")
PY
