#!/usr/bin/env bash
# Expected: XLMRobertaTokenizer over a sentencepiece.bpe.model gives the pieces that SentencePiece gives with that file.
# Happens: it rebuilds every model as Unigram without byte fallback. A model trained with byte_fallback gives the unknown
# token where SentencePiece gives bytes, so the text cannot be restored; a BPE model is cut into other pieces even on
# the words that it was trained on. There is no error and no warning.
# Version: transformers 5.23.0 with sentencepiece 0.2.3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 sentencepiece==0.2.3 protobuf==7.36.2 tokenizers==0.23.3
"$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from pathlib import Path

import sentencepiece
import transformers

print("transformers", transformers.__version__, "sentencepiece", sentencepiece.__version__)
words = ["the cat sat on the mat", "a dog and a cat ran", "hello world again and again"] * 50
found = {}
for kind in ("unigram", "bpe"):
    folder = Path(sys.argv[1]) / kind
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_prefix=str(folder / "m"), model_type=kind, vocab_size=330,
        byte_fallback=True, hard_vocab_limit=False, minloglevel=2,
    )
    (folder / "m.model").rename(folder / "sentencepiece.bpe.model")
    own = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    other = transformers.XLMRobertaTokenizer.from_pretrained(folder)
    for text in ("the cat", "the \N{UNICORN FACE}"):
        ids = other(text, add_special_tokens=False)["input_ids"]
        found[kind, text] = own.encode(text, out_type=str), other.convert_ids_to_tokens(ids)
        print(f"{kind} {text!r}: SentencePiece {found[kind, text][0]}, transformers {found[kind, text][1]}")
has_bytes, unknown = found["unigram", "the \N{UNICORN FACE}"]
if "<unk>" not in unknown or "<0xF0>" not in has_bytes:
    sys.exit("The behavior changed: byte fallback is kept.")
if found["bpe", "the cat"][0] == found["bpe", "the cat"][1]:
    sys.exit("The behavior changed: a BPE model gives its own pieces.")
PY
