#!/usr/bin/env bash
# A project with choice="multiple" in the JSON-MIN export of Label Studio: texts with one, two and no choices.
# Expected: the same type in every row, a list of choices.
# What happens: one choice is a text, two are an object {"choices": [...]}, and for none the key is missing, so that a row
# in which the annotator chose nothing looks like one without that question.
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

VIEW = """<View><Choices name="topic" toName="text" choice="multiple"><Choice value="a"/><Choice value="b"/></Choices>
<Text name="text" value="$text"/></View>"""


def task(id, *choices):
    result = {"from_name": "topic", "to_name": "text", "type": "choices", "value": {"choices": list(choices)}}
    annotation = {"id": id, "completed_by": 1, "result": [result] if choices else [], "created_at": "2024-01-01"}
    return {"id": id, "data": {"text": f"Text {id}"}, "annotations": [annotation]}


Path("tasks.json").write_text(json.dumps([task(1, "a"), task(2, "a", "b"), task(3)]))
Converter(VIEW, project_dir=".", download_resources=False).convert_to_json_min("tasks.json", "out", is_dir=False)
rows = json.loads(Path("out/result.json").read_text())
found = [row.get("topic", "no key") for row in rows]
print("label-studio-sdk", version("label-studio-sdk"))
print("seen:", found)
if found != ["a", {"choices": ["a", "b"]}, "no key"]:
    sys.exit("Choices are written in another way.")
PY
