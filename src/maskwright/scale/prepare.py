"""Prepares a corpus on several machines: the files become tokens in parallel, then one process writes the shards.

The shards are those of `data.prepare`, byte for byte: documents in the order of the input, without the duplicates of
earlier ones. A rerun after an interruption tokenizes only the files that are not finished.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ..core import registry, storage
from ..core.errors import RunError
from ..core.object_store import file_system, is_remote
from ..data.prepare import SHARD_TOKENS, check_finished, recipe_of, settings_of, write_shards
from ..data.shards import FACTS, read_facts, tokenizer_sha256
from ..text.tokenizers.tokenizer import Tokenizer
from .corpus import CorpusJob, FileWorker, PartReader, stored
from .parts import Items, complete, noted, read_note
from .paths import CorpusFile, corpus_inputs, names_in, remove, upload
from .session import Workers

PARTS = "_parts"  # the folder of the tokens, in the output folder; only its notes are kept at the end


def prepare(
    sources: Sequence[str],
    tokenizer: str,
    output: str,
    *,
    objective: str = "mlm",
    text_field: str = "text",
    split_lines: bool = False,
    keep_duplicates: bool = False,
    skip_bad_rows: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    workers: int | None = None,
) -> dict[str, Any]:
    """Tokenize a corpus into shards. Returns the content of `shards.json`.

    sources: files, folders and patterns; tokenizer: its folder, at the same path on all machines; output: a folder or
    an address; objective: decides whether lines are joined; workers: None for one per CPU. Raises RunError when the
    output folder has a corpus of other text or settings.
    """
    loaded = Tokenizer.load(tokenizer)
    joint = registry.resolve("objective", objective).line_separator(loaded)
    output = output.rstrip("/") if is_remote(output) else os.fspath(Path(output).absolute())
    folder = f"{output}/{PARTS}"
    job = CorpusJob(
        os.fspath(Path(tokenizer).absolute()), tokenizer_sha256(loaded), folder, text_field, split_lines, joint
    )
    items = _items(job, corpus_inputs(sources))
    settings = settings_of(text_field, split_lines, keep_duplicates, shard_tokens, joint)
    with nullcontext() if is_remote(output) else storage.lock(output):
        if FACTS in names_in(output):
            if not items.keys() <= noted(folder):
                raise RunError(f"{output} has a corpus of other text, settings or tokenizer: choose another folder.")
            parts = [read_note(folder, name) for name in items]
        else:
            parts = complete(folder, items, Workers(FileWorker, _arguments(job), workers, per_cpu=True).compute)
        recipe = recipe_of(loaded, settings, (part["source"] for part in parts))
        facts = _write(output, loaded, recipe, partial(PartReader, folder, parts), skip_bad_rows)
        for name in names_in(folder):
            remove(f"{folder}/{name}")
    return facts


def _items(job: CorpusJob, files: Sequence[CorpusFile]) -> Items:
    """See parts.Items."""
    found = {}
    for number, file in enumerate(files):
        path = file.uri if is_remote(file.uri) else os.fspath(Path(file.uri).absolute())
        name = job.part_name(number, file)
        found[name] = {"name": name, "uri": file.uri, "path": path}
    return found


def _arguments(job: CorpusJob) -> Any:
    return lambda device, threads: {"job": asdict(job)}


def _write(output: str, tokenizer: Tokenizer, recipe: dict[str, Any], read: Any, skip_bad_rows: bool) -> dict[str, Any]:
    """Write the shards from the parts: in the output folder, or on this machine and then to its address."""
    write = partial(
        write_shards, tokenizer=tokenizer, recipe=recipe, read=read, encode=stored,
        skip_bad_rows=skip_bad_rows,
    )  # fmt: skip
    if not is_remote(output):
        return write(Path(output)).facts
    with tempfile.TemporaryDirectory(prefix="maskwright-") as folder:
        target = Path(folder)
        if FACTS in names_in(output):
            system, path = file_system(f"{output}/{FACTS}")
            with system.open_input_stream(path) as source:
                storage.write_bytes(target / FACTS, source.read())
            check_finished(target, recipe)
            return read_facts(target)
        facts = write(target).facts
        upload(target, output, FACTS)
        return facts
