#!/usr/bin/env bash
# Spans that overlap, and two spans within one token, in the CONLL2003 export of Label Studio.
# Expected: one of the spans is exported whole, or the export says that the format cannot hold both.
# What happens: where both begin at one word, the shorter is kept and the rest of the longer becomes an entity of its own,
# which nobody marked ("of Lisbon"); of two spans in one token the second is gone. Nothing is said.
# Version: label-studio-sdk 2.1.2, whose converter writes the exports.
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

text = "The University of Lisbon won."
results = [span(text, "University", "LOC"), span(text, "University of Lisbon", "ORG")]
done = {"id": 1, "completed_by": 1, "result": results, "created_at": "2024-01-01"}
other = "The Lisbon-Oslo flight"
results = [span(other, "Lisbon", "LOC"), span(other, "Oslo", "LOC")]
two = {"id": 2, "completed_by": 1, "result": results, "created_at": "2024-01-01"}
blocks = conll([
    {"id": 1, "data": {"text": text}, "annotations": [done]},
    {"id": 2, "data": {"text": other}, "annotations": [two]},
])
for block in blocks:
    print("seen:", " ".join(block))
cut = ["The/O", "University/B-LOC", "of/B-ORG", "Lisbon/I-ORG", "won/O", "./O"]
if blocks != [cut, ["The/O", "Lisbon-Oslo/B-LOC", "flight/O"]]:
    sys.exit("Overlapping spans are exported in another way.")
PY
