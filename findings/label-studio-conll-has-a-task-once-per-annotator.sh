#!/usr/bin/env bash
# Two annotators label one text differently in Label Studio, and the project is exported as CONLL2003.
# Expected: the text once, or its two versions with a mark of who made them.
# What happens: the text stands in the file twice, with contradictory tags, and nothing tells the annotators apart; whoever
# trains on the file learns both.
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

text = "Mara moved to Lisbon."
first, second = ([span(text, part, label)] for part, label in (("Mara", "PER"), ("Lisbon", "LOC")))
annotations = [
    {"id": 1, "completed_by": 1, "result": first, "created_at": "2024-01-01"},
    {"id": 2, "completed_by": 2, "result": second, "created_at": "2024-01-02"},
]
blocks = conll([{"id": 1, "data": {"text": text}, "annotations": annotations}])
for block in blocks:
    print("seen:", " ".join(block))
if len(blocks) != 2 or blocks[0] == blocks[1]:
    sys.exit("The export no longer has one sentence for each annotator.")
PY
