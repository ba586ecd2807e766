#!/usr/bin/env bash
# A text of two sentences, with a span at the end of each, in the CONLL2003 export of Label Studio.
# Expected: the words of the entities are those of the marked spans, "Lisbon" and "Oslo".
# What happens: only the last period of a text is a token of its own, so the first entity is the word "Lisbon." with its
# period, which is outside the span.
# Version: label-studio-sdk 2.1.2, whose converter splits texts with the Treebank tokenizer of nltk 3.10.4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q label-studio-sdk==2.1.2 nltk==3.10.4
cd "$folder"
venv/bin/python - <<'PY'
import json
import sys
from importlib.metadata import version
from pathlib import Path

from label_studio_sdk.converter import Converter

VIEW = """<View><Labels name="label" toName="text"><Label value="PER"/><Label value="LOC"/><Label value="ORG"/></Labels>
<Text name="text" value="$text"/></View>"""


def span(text, part, label):
    start = text.index(part)
    value = {"start": start, "end": start + len(part), "text": part, "labels": [label]}
    return {"id": part, "from_name": "label", "to_name": "text", "type": "labels", "value": value}


def conll(tasks):
    """The lines of the CONLL2003 export, without the columns that are the same everywhere."""
    Path("tasks.json").write_text(json.dumps(tasks))
    Converter(VIEW, project_dir=".", download_resources=False).convert_to_conll2003("tasks.json", "out", is_dir=False)
    text = Path("out/result.conll").read_text().split("\n", 1)[1]
    return [[line.replace(" -X- _ ", "/") for line in block.split("\n")] for block in text.strip().split("\n\n") if block]


print("label-studio-sdk", version("label-studio-sdk"))

text = "Mara lives in Lisbon. Tom lives in Oslo."
results = [span(text, "Lisbon", "LOC"), span(text, "Oslo", "LOC")]
done = {"id": 1, "completed_by": 1, "result": results, "created_at": "2024-01-01"}
tagged = [word for word in conll([{"id": 1, "data": {"text": text}, "annotations": [done]}])[0] if not word.endswith("/O")]
print("seen:", " ".join(tagged))
if tagged != ["Lisbon./B-LOC", "Oslo/B-LOC"]:
    sys.exit("The words of entities are no longer those with a period.")
PY
