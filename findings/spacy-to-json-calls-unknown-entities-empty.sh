#!/usr/bin/env bash
# An entity that does not fit the tokens leaves its words unknown in spaCy (empty, not O), so that training ignores them. The
# document is written with Doc.to_json and read with Doc.from_json.
# Expected: unknown words stay unknown.
# What happens: they come back as O, a statement that there is no entity, and training learns it. DocBin keeps them unknown.
# Version: spaCy 3.8.18.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q spacy==3.8.18
cd "$folder"
venv/bin/python - <<'PY'
import sys
import warnings

import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example

warnings.simplefilter("ignore")  # W030, which says that the entity is not aligned
nlp = spacy.blank("en")
doc = Example.from_dict(nlp.make_doc("We saw Grazers there"), {"entities": [(7, 11, "LOC")]}).reference
by_json = Doc(nlp.vocab).from_json(doc.to_json())
by_bin = next(DocBin().from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(nlp.vocab))
print("spacy", spacy.__version__)
for name, one in (("before", doc), ("DocBin", by_bin), ("to_json", by_json)):
    print("seen:", name, [token.ent_iob_ for token in one])
if [one[2].ent_iob_ for one in (doc, by_bin, by_json)] != ["", "", "O"]:
    sys.exit("Unknown entities survive to_json in another way.")
PY
