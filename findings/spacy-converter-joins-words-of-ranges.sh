#!/usr/bin/env bash
# What a good engineer expects: spaCy 3.8.18 converts CoNLL-U to documents whose text is that of the sentence
# ("# text = vámonos al mar."), or of its words with spaces.
# What happens: words of a multiword token are joined without a space and without the text of the token: "vamosnos ael
# mar." is the text, which is in no language. With merge_subtokens the text is right, but there is one tag for two words
# ("V_P").
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q spacy==3.8.18
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import contextlib
import io

import spacy
from spacy.training.converters import conllu_to_docs

rows = [
    "# text = vámonos al mar.",
    "1-2 vámonos _ _ _ _ _ _ _ _",
    "1 vamos ir VERB V _ 0 root _ _",
    "2 nos yo PRON P _ 1 obj _ _",
    "3-4 al _ _ _ _ _ _ _ _",
    "3 a a ADP A _ 5 case _ _",
    "4 el el DET D _ 5 det _ _",
    "5 mar mar NOUN N _ 1 obl _ SpaceAfter=No",
    "6 . . PUNCT . _ 1 punct _ _",
]
text = "\n".join(row if row.startswith("#") else row.replace(" ", "\t") for row in rows) + "\n\n"
with contextlib.redirect_stdout(io.StringIO()):
    apart, merged = (list(conllu_to_docs(text, n_sents=1, merge_subtokens=merge))[0] for merge in (False, True))
print("spaCy", spacy.__version__, repr(apart.text), [(word.text, word.tag_) for word in merged])
if apart.text.strip() != "vamosnos ael mar." or merged[0].tag_ != "V_P":
    raise SystemExit("spaCy no longer joins the words of a multiword token.")
PYTHON
