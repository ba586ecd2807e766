#!/usr/bin/env bash
# Expected: a text compared with itself has ROUGE 1 in every script; two unlike German words share nothing.
# Happens: rouge_score's tokenizer keeps only a to z and 0 to 9. A perfect Russian, Japanese, Arabic or Hindi text
# scores 0, and "Mädchen Männer" beside "Mönche Märchen" scores 0.5, because the fragment "m" is in both.
# Version: rouge_score 0.1.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q rouge_score==0.1.2
"$folder/venv/bin/python" - <<'PY'
import sys
from importlib.metadata import version

from rouge_score.rouge_scorer import RougeScorer

print("rouge_score", version("rouge_score"))
scorer = RougeScorer(["rouge1"])
perfect = ["Это кошка", "日本語の文章です", "مرحبا بالعالم", "नमस्ते दुनिया"]
scores = [scorer.score(text, text)["rouge1"].fmeasure for text in perfect]
for text, score in zip(perfect, scores):
    print(f"{text!r} with itself: {score}")
unlike = scorer.score("Mädchen Männer", "Mönche Märchen")["rouge1"].fmeasure
print("'Mädchen Männer' with 'Mönche Märchen':", unlike)
if any(scores) or unlike != 0.5:
    sys.exit("The behavior changed: words outside a to z are scored now.")
PY
