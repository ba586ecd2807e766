#!/usr/bin/env bash
# A Label Studio project in which one text is annotated and one is not yet is exported as CONLL2003.
# Expected: the text that nobody has looked at is left out, as a canceled one is.
# What happens: it is written as a sentence whose words all have the tag O, like one in which somebody found nothing.
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
done = {"id": 1, "completed_by": 1, "result": [span(text, "Mara", "PER")], "created_at": "2024-01-01"}
canceled = {"id": 2, "completed_by": 1, "was_cancelled": True, "result": [], "created_at": "2024-01-01"}
blocks = conll([
    {"id": 1, "data": {"text": text}, "annotations": [done]},
    {"id": 2, "data": {"text": "Tom stayed in Oslo."}, "annotations": []},
    {"id": 3, "data": {"text": "Ann left Graz."}, "annotations": [canceled]},
])
for block in blocks:
    print("seen:", " ".join(block))
if len(blocks) != 2 or blocks[1] != ["Tom/O", "stayed/O", "in/O", "Oslo/O", "./O"]:
    sys.exit("The text without an annotation is no longer exported as one without entities.")
PY
