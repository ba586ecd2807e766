"""Parses brat (.ann beside .txt) and WebAnno TSV 3, which INCEpTION writes too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import InputError, RowError
from ..formats.files import open_bytes, read_lines
from .document import (
    Annotation,
    BadRecordError,
    Document,
    LabeledSpan,
    Offsets,
    Parsed,
    Reading,
    Sample,
    aligned,
)

# -- brat --------------------------------------------------------------------------------------------------

_BRAT_SPAN = re.compile(r"(T\S*)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t?(.*)")
_BRAT_OTHER = re.compile(r"([REAMN]\d+|#\S*|\*)\t.*")
_BRAT_OTHERS = {
    "R": "relations",
    "E": "events",
    "A": "attributes",
    "M": "attributes",
    "N": "normalizations",
    "#": "notes",
    "*": "equivalences",
}


def is_brat(sample: Sample) -> bool:
    """Whether it is an .ann file, or a folder with such files."""
    return sample.suffix == ".ann" or (sample.path.is_dir() and next(sample.path.rglob("*.ann"), None) is not None)


def parse_brat(reading: Reading) -> Parsed:
    """An .ann file with the .txt beside it, or all of a folder."""
    path = reading.path
    files = sorted(path.rglob("*.ann")) if path.is_dir() else [path]
    if path.is_dir():
        alone = [text for text in path.rglob("*.txt") if not text.with_suffix(".ann").is_file()]
        if alone:
            reading.left_out["texts without an .ann file"] += len(alone)
    for file in files:
        yield from _parse_brat_file(file, reading)


def _parse_brat_file(file: Path, reading: Reading) -> Parsed:
    beside = file.with_suffix(".txt")
    if not beside.is_file():
        yield RowError(str(file), 1, None, f"the text is missing: expected {beside.name} beside it")
        return
    with open_bytes(beside) as handle:
        raw = handle.read()
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        yield RowError(str(beside), raw[: error.start].count(b"\n") + 1, None, "the text is not UTF-8")
        return
    if not text.strip():
        yield RowError(str(beside), 1, None, "the text is empty")
        return
    document = Document(text, 1, str(beside), has_lines=True, span_file=str(file))
    faults: list[RowError] = []
    annotation = Annotation()
    for line in read_lines(file):
        if line.fault or not line.text.strip():
            faults += [RowError(str(file), line.number, None, line.fault)] if line.fault else []
            continue
        if not line.text.startswith("T"):
            kind = _BRAT_OTHERS.get(line.text[0])
            if kind is None or not _BRAT_OTHER.fullmatch(line.text):
                faults.append(RowError(str(file), line.number, None, "is no line of a brat file (T, R, E, A, N, #)"))
            else:
                reading.left_out[kind] += 1
            continue
        match = _BRAT_SPAN.fullmatch(line.text)
        if match is None:
            reason = "a text-bound annotation is 'T1', a tab, 'LABEL start end', a tab and its text"
            faults.append(RowError(str(file), line.number, None, reason))
            continue
        _, label, places, recorded = match.groups()
        parts = tuple((int(start), int(end)) for start, end in (one.split(" ") for one in places.split(";")))
        wrong = next((part for part in parts if part[0] >= part[1]), None)
        if wrong is not None:
            reason = f"{match[1]}: the span {wrong[0]}-{wrong[1]} is empty or ends before it begins"
            faults.append(RowError(str(file), line.number, None, reason))
            continue
        annotation.spans.append(
            LabeledSpan(
                parts[0][0], parts[-1][1], label, recorded or None, parts if len(parts) > 1 else (), line.number
            )
        )
    document.annotations.append(annotation)
    if faults:
        yield from faults
    else:
        yield document


# -- WebAnno, INCEpTION ------------------------------------------------------------------------------------

_TOKEN_LAYERS = ("POS", "Lemma", "MorphologicalFeatures", "Stem", "Token", "SurfaceForm")
_TSV_VALUE = re.compile(r"(.*?)(?:(?<!\\)\[(\d+)\])?", re.DOTALL)  # value[ID]


@dataclass(frozen=True)
class _Layer:
    """A layer of a WebAnno file: kind (SP, RL, CH), full name, and the features with their first column."""

    kind: str
    name: str
    features: list[str]
    column: int

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


def is_webanno(sample: Sample) -> bool:
    """Whether the first line names the format."""
    return sample.first_line.lstrip("\ufeff").startswith("#FORMAT=WebAnno TSV")


def parse_webanno(reading: Reading) -> Parsed:
    """WebAnno TSV 3: the spans of one layer."""
    first = next(read_lines(reading.path))
    if not first.text.lstrip("\ufeff").startswith("#FORMAT=WebAnno TSV 3"):
        raise InputError(f"{reading.path}:1: {first.text.strip()[1:60]} cannot be read: export it as WebAnno TSV v3.x.")
    layers: list[_Layer] = []
    blocks: list[_Block] = []
    is_open = False  # whether the last block may go on
    for line in read_lines(reading.path):
        if line.fault:
            yield RowError(str(reading.path), line.number, None, line.fault)
        elif line.text.startswith("#T_"):
            kind, _, rest = line.text[3:].partition("=")
            name, *features = rest.split("|")
            column = layers[-1].column + len(layers[-1].features) if layers else 3
            layers.append(_Layer(kind, name, features or [""], column))
        elif line.text.startswith("#Text="):
            if not is_open or blocks[-1].rows:
                blocks.append(_Block(line.number, [], []))
            blocks[-1].texts.append(line.text[6:])
            is_open = True
        elif re.match(r"\d+-\d+(\.\d+)?\t", line.text):
            if not is_open:
                blocks.append(_Block(line.number, [], []))
            blocks[-1].rows.append((line.number, line.text.split("\t")))
            is_open = True
        elif not line.text.strip():
            is_open = False
        elif not line.text.startswith("#"):
            yield RowError(str(reading.path), line.number, None, "is not a token: expected an ID as in 1-1, and a tab")
    layer, column = _webanno_layer(reading, layers, [cells for block in blocks for _, cells in block.rows])
    width = layers[-1].column + len(layers[-1].features) if layers else 3
    seen: dict[str, int] = {}
    for block in blocks:
        try:
            yield _annotated(reading, block.of_width(width), layer, column, seen)
        except _BadLineError as bad:
            yield RowError(str(reading.path), bad.line, None, bad.reason)


def _webanno_layer(
    reading: Reading, layers: Sequence[_Layer], rows: Sequence[Sequence[str]]
) -> tuple[_Layer | None, int]:
    """Returns the layer to read and the column of its feature; None without a layer of spans."""
    spans = [layer for layer in layers if layer.kind == "SP"]
    others = [layer.short for layer in layers if layer.kind != "SP"]
    if others:
        reading.left_out[f"layers of relations and chains ({', '.join(others)})"] += len(others)
    used = [layer for layer in spans if any(_is_used(row, layer) for row in rows)]
    wanted = reading.roles.get("tag")
    if wanted is not None:
        name, _, feature = wanted.partition(":")
        found = [layer for layer in spans if name in (layer.short, layer.name)]
    else:
        feature = ""
        free = [layer for layer in used if layer.short not in _TOKEN_LAYERS]
        found = [layer for layer in used if layer.short == "NamedEntity"] or free or used[:1] or spans[:1]
    if wanted is not None and not found:
        listed = ", ".join(layer.short for layer in spans)
        raise InputError(f"{reading.path} has no layer '{wanted}': the layers of spans are {listed}.")
    if not found:
        return None, 0
    if len(found) > 1:
        listed = ", ".join(layer.short for layer in found)
        raise InputError(f"{reading.path} has several layers of spans: choose one with --columns tag=NAME ({listed}).")
    layer = found[0]
    left = [one.short for one in used if one is not layer]
    if left:
        reading.left_out[f"other layers ({', '.join(left)})"] += len(left)
    simple = [name for name in layer.features if not name.startswith(("ROLE_", "uima.", "webanno."))]
    chosen = feature or next((name for name in ("value", "PosValue") if name in simple), "")
    filled = [
        name for name in simple if any(_has_value(row, layer.column + layer.features.index(name)) for row in rows)
    ]
    if not chosen and len(filled) > 1:
        raise InputError(
            f"{reading.path}: the layer {layer.short} has several features: choose one with --columns "
            f"tag={layer.short}:NAME ({', '.join(filled)})."
        )
    chosen = chosen or (filled or simple or layer.features)[0]
    if chosen not in layer.features:
        listed = ", ".join(layer.features)
        raise InputError(f"{reading.path}: the layer {layer.short} has no feature '{chosen}': it has {listed}.")
    return layer, layer.column + layer.features.index(chosen)


def _is_used(row: Sequence[str], layer: _Layer) -> bool:
    return any(cell not in ("_", "") for cell in row[layer.column : layer.column + len(layer.features)])


def _has_value(row: Sequence[str], column: int) -> bool:
    return column < len(row) and row[column] not in ("_", "") and not row[column].startswith("*")


def _unescaped(text: str) -> str:
    """Resolves the backslash escapes of a WebAnno cell."""
    found = {"t": "\t", "n": "\n", "r": "\r"}
    return re.sub(r"\\(->|.)", lambda match: found.get(match[1], match[1]), text, flags=re.DOTALL)


def _split_cell(cell: str, mark: str) -> list[str]:
    """Splits at a mark that is not escaped."""
    return [part.replace("\0", "\\\\") for part in re.split(rf"(?<!\\){re.escape(mark)}", cell.replace("\\\\", "\0"))]


class _BadLineError(Exception):
    """A line that cannot be read, and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


@dataclass(frozen=True)
class _Block:
    """The lines of one sentence. line: number of the first; rows: line number and cells of each token or part."""

    line: int
    texts: list[str]
    rows: list[tuple[int, list[str]]]

    def of_width(self, width: int) -> _Block:
        """Returns itself. Raises _BadLineError for a line that lacks some of its columns."""
        for line, cells in self.rows:
            if len(cells) < width:
                raise _BadLineError(line, f"has {len(cells)} columns, not {width}")
        return self

    def document(self, file: str) -> tuple[Document, dict[str, Offsets]]:
        """Returns the sentence without annotations, and the offsets of each token or part by its ID."""
        tokens = [(line, cells) for line, cells in self.rows if "." not in cells[0]]
        forms: list[str] = []
        last = 0
        for line, cells in tokens:
            form = _unescaped(cells[2])
            begin, end = _offsets(cells[1], line)
            length = len(form.encode("utf-16-le")) // 2
            if end - begin != length or begin < last:
                raise _BadLineError(
                    line, f"the offsets {cells[1]} do not fit the word '{form[:40]}' of {length} UTF-16 units"
                )
            last = end
            forms.append(form)
        text = "\n".join(map(_unescaped, self.texts)) if self.texts else " ".join(forms)
        if not text.strip():
            raise _BadLineError(self.line, "the text of the sentence is empty")
        try:
            words = aligned(forms, text, "")
        except BadRecordError as bad:
            raise _BadLineError(tokens[0][0] if tokens else self.line, bad.reason) from None
        places = {cells[0]: word for (_, cells), word in zip(tokens, words, strict=True)}
        begins = {cells[0]: _offsets(cells[1], line)[0] for line, cells in tokens}
        for line, cells in self.rows:
            whole = cells[0].partition(".")[0]
            if whole not in begins:
                raise _BadLineError(line, f"the part {cells[0]} belongs to no word")
            if whole != cells[0]:
                start, end = places[whole]
                places[cells[0]] = _part_offsets(text[start:end], start, begins[whole], cells[1], line)
        return Document(text, self.line, file, words=words), places


def _annotated(reading: Reading, block: _Block, layer: _Layer | None, column: int, seen: dict[str, int]) -> Document:
    """A sentence with the spans of one layer. seen: ID of a span -> line of the sentence where it began."""
    document, places = block.document(str(reading.path))
    annotation = Annotation()
    document.annotations.append(annotation)
    if layer is None:
        return document
    by_id: dict[str, int] = {}
    for _, cells in block.rows:
        start, end = places[cells[0]]
        cell = cells[column] if column < len(cells) else "_"
        for part in [] if cell in ("_", "") else _split_cell(cell, "|"):
            match = _TSV_VALUE.fullmatch(part)
            value, id = match.groups() if match else (part, None)
            if id is not None and id in by_id:
                old = annotation.spans[by_id[id]]
                annotation.spans[by_id[id]] = LabeledSpan(old.start, end, old.label)
                continue
            if value == "*" and layer.features != [""]:
                reading.left_out["spans without a value"] += 1
                continue
            if id is not None:
                reading.left_out["spans over several sentences, cut at their ends"] += id in seen
                seen[id] = block.line
                by_id[id] = len(annotation.spans)
            annotation.spans.append(LabeledSpan(start, end, layer.short if value == "*" else _unescaped(value)))
    if layer.short == "POS":  # a tag of each word
        tags = {span.start: span.label for span in annotation.spans}
        document.tags = [tags.get(start, "") for start, _ in document.words or ()]
        annotation.spans = []
    return document


def _offsets(text: str, line: int) -> Offsets:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise _BadLineError(line, f"'{text[:40]}' are not offsets, as in 0-4")
    return int(first), int(last)


def _part_offsets(word: str, start: int, begin: int, offsets: str, line: int) -> Offsets:
    """Offsets in the text of a part of a word, from those of the file in UTF-16 units."""
    raw = word.encode("utf-16-le")
    low, high = (2 * (place - begin) for place in _offsets(offsets, line))
    if not 0 <= low < high <= len(raw):
        raise _BadLineError(line, f"the part {offsets} is not within its word '{word[:40]}'")
    before = len(raw[:low].decode("utf-16-le", "ignore"))
    return start + before, start + before + len(raw[low:high].decode("utf-16-le", "ignore"))
