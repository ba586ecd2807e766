"""Opens user-specified inputs: plain or compressed files, folders, glob patterns, standard input; and reads lines.

Everything is streamed, so memory use does not depend on file size. A line has its number as in an editor, and an error
if it has invalid UTF-8, a NUL byte, or more than `MAX_LINE_BYTES`. Only a line feed ends a line; a carriage return
before it and a byte order mark at the start of the file are dropped.
"""

from __future__ import annotations

import glob
import gzip
import io
import json
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...core.errors import InputError, MissingExtraError, MissingFileError, StorageError
from .cells import KNOWN_NAMES

STDIN = "-"
HUB = "hub:"
MAX_LINE_BYTES = 16 << 20
FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
Meter = Callable[[int], None]
PACKINGS = (".gz", ".xz", ".zst")
_REFUSED = {
    **dict.fromkeys((".zip", ".tar", ".tgz", ".bz2", ".7z", ".rar"), "decompress it first, or use .gz, .xz or .zst"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as .csv"),
    **dict.fromkeys((".doc", ".docx", ".pdf", ".odt", ".html", ".epub"), "save it as plain text (.txt)"),
}
_MAGIC = {
    b"\x1f\x8b": "compressed with gzip: rename it to .gz",
    b"\xfd7zXZ\x00": "compressed with xz: rename it to .xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: rename it to .zst",
    b"PAR1": "a Parquet file: rename it to .parquet",
    b"PK\x03\x04": "a zip archive: decompress it first",
    b"BZh": "compressed with bzip2: decompress it first",
    b"%PDF-": "a PDF: save it as plain text",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}
_SAMPLE_BYTES = 8192
_LINES_PER_REPORT = 256
_BUFFER_BYTES = 128 << 10
_ZSTD_SLICE_BYTES = 2048  # bounds the decompressed size of a slice (64 MB)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\b\x1b")) + b"\x7f"


class Line(NamedTuple):
    """One physical line: number (from 1), text without the line end, and error (or None).

    The text of an invalid line is only used to keep track of open quotes.
    """

    number: int
    text: str
    fault: str | None


def expand(source: str | Path | Sequence[str | Path], formats: Collection[str]) -> list[str]:
    """Expand `source` to a list of files: files, folders, glob patterns, `-`, `hub:...`, or a list of these.

    A folder yields all non-hidden files below it with a format in `formats`, sorted by path; a pattern yields all
    matching files, sorted. Duplicates are removed. Raises MissingFileError, InputError.
    """
    entries = [source] if isinstance(source, (str, Path)) else list(source)
    if not entries:
        raise InputError("No input file was specified.")
    found: dict[str, str] = {}
    for entry in map(str, entries):
        for name in _expand_one(entry, formats):
            special = name == STDIN or name.startswith(HUB)
            found.setdefault(name if special else os.path.realpath(name), name)
    return list(found.values())


def _expand_one(entry: str, formats: Collection[str]) -> list[str]:
    path = Path(entry)
    if entry == STDIN or entry.startswith(HUB):
        return [entry]
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path))]
        names = sorted(str(file) for file in files if _known_format(file) in formats)
        if not names:
            endings = ", ".join(ending for ending, kind in FORMATS.items() if kind in formats)
            raise InputError(f"Folder {entry} contains no readable file ({endings}, plain or {', '.join(PACKINGS)}).")
        return names
    if path.exists():
        return [entry]
    if glob.has_magic(entry):
        names = sorted(name for name in glob.glob(entry, recursive=True) if Path(name).is_file())  # noqa: PTH207
        if not names:
            raise MissingFileError(f"No file matches {entry}.")
        return names
    raise MissingFileError(f"{entry} does not exist.")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def bare_suffix(path: Path | str) -> str:
    """Returns the suffix that determines the format, ignoring compression: `.csv` for `a.csv.gz`."""
    path = Path(path)
    if path.suffix.lower() in PACKINGS:
        path = path.with_suffix("")
    return path.suffix.lower()


def _known_format(path: Path | str) -> str | None:
    return FORMATS.get(bare_suffix(path))


def file_format(path: Path | str, default: str | None = None) -> str:
    """Returns the format by file name: "txt", "csv", "tsv", "jsonl", "parquet"; `default` for any other.

    A .json file is "jsonl" too: `records` reads its array of objects. (FORMATS lacks it, because a folder of text often
    contains settings in .json.)

    Raises InputError for a suffix known to be unsupported, or an unknown one if there is no default.
    """
    suffix = bare_suffix(path)
    if default is None and str(path) == STDIN:
        raise InputError("Standard input has no file name to determine its format: specify a file with labeled rows.")
    if suffix in FORMATS:
        return FORMATS[suffix]
    if suffix == ".json":
        return "jsonl"
    if suffix in _REFUSED:
        raise InputError(f"{path} cannot be read directly: {_REFUSED[suffix]}.")
    if default is None:
        endings = ", ".join(dict.fromkeys(FORMATS))
        raise InputError(f"Unknown file format of {path}: use {endings}, plain or compressed.")
    return default


def open_bytes(path: Path | str) -> io.BufferedReader[_Source]:
    """Open the decompressed bytes of a file (`-`: standard input); the caller closes it.

    Raises MissingFileError, StorageError (no permission, disk error), MissingExtraError (zstd) and, while reading,
    InputError if compressed data is truncated or damaged.
    """
    if str(path) == STDIN:
        return io.BufferedReader(_Source(sys.stdin.buffer, "Standard input", keep_open=True), _BUFFER_BYTES)
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: specify a file.")
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    suffix = path.suffix.lower()
    if suffix not in PACKINGS:
        return io.BufferedReader(_Source(handle, str(path)), _BUFFER_BYTES)
    unpack: dict[str, Callable[[IO[bytes]], Any]] = {".gz": _gzip, ".xz": lzma.LZMAFile, ".zst": _ZstdSource}
    return io.BufferedReader(_Source(unpack[suffix](handle), str(path), packed=handle), _BUFFER_BYTES)


def read_lines(path: Path | str, meter: Meter | None = None) -> Iterator[Line]:
    """Yields the physical lines of a text file; `meter` is called periodically with the number of bytes read.

    Raises InputError if the file is not text.
    """
    with open_bytes(path) as handle:
        reject_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        number = 0
        while raw := handle.readline(MAX_LINE_BYTES + 1):
            number += 1
            if meter is not None and number % _LINES_PER_REPORT == 0:
                meter(handle.raw.position())
            if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                yield _skip_long_line(handle, raw, number)
            else:
                yield _decode(raw, number)


def read_source_lines(path: Path | str) -> Iterator[Line]:
    """Like `read_lines`, but keeps line ends and byte order mark so that characters can be counted. Invalid UTF-8 bytes
    count as U+FFFD and the line has an error. Raises InputError for a line longer than MAX_LINE_BYTES.
    """
    with open_bytes(path) as handle:
        reject_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        number = 0
        while raw := handle.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raise InputError(f"{path}:{number}: the line has more than {MAX_LINE_BYTES:,} bytes: split it.")
            yield Line(number, raw.decode("utf-8", errors="replace"), _decode(raw, number).fault)


def reject_binary(sample: bytes, path: Path | str) -> None:
    """Raise InputError if the first bytes of a file show that it is not UTF-8 text.

    Known file types are named. Otherwise more than a tenth, and at least 32, of the bytes must be control characters
    or invalid UTF-8; with fewer, the affected lines are reported individually.
    """
    for magic, kind in _MAGIC.items():
        if sample.startswith(magic):
            raise InputError(f"{path} is {kind}.")
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if controls >= 32 and controls * 10 > len(sample):
        raise InputError(f"{path} is not a text file: it contains binary data.")
    strange = sample.decode("utf-8", errors="replace").count("\ufffd") - sample.count(b"\xef\xbf\xbd")
    if strange >= 32 and strange * 10 > len(sample):
        raise InputError(f"{path} is not UTF-8 text: convert it first, for example with iconv -t UTF-8.")


def _decode(raw: bytes, number: int) -> Line:
    fault = None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        fault = f"byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not valid UTF-8"
        text = raw.decode("utf-8", errors="replace")
    if "\0" in text and fault is None:
        fault = f"character {text.index(chr(0)) + 1} of the line is a NUL byte"
    if number == 1:
        text = text.removeprefix("\ufeff")
    return Line(number, text.removesuffix("\n").removesuffix("\r"), fault)


def _skip_long_line(handle: IO[bytes], raw: bytes, number: int) -> Line:
    """Skip to the end of a line beyond the limit; the returned text keeps track of open quotes."""
    size, quotes = len(raw), raw.count(b'"')
    while not raw.endswith(b"\n") and (raw := handle.readline(_BUFFER_BYTES)):
        size += len(raw)
        quotes += raw.count(b'"')
    return Line(number, '"' * (quotes % 2), f"the line has {size:,} bytes; at most {MAX_LINE_BYTES:,} are read")


# -- decompression -----------------------------------------------------------------------------------------


class _Source(io.RawIOBase):
    """A byte source whose errors name the file."""

    def __init__(self, inner: Any, name: str, packed: IO[bytes] | None = None, keep_open: bool = False) -> None:
        self.inner, self.name, self.packed, self.keep_open = inner, name, packed, keep_open
        self._read = getattr(inner, "read1", inner.read)
        self._delivered = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with the result of one read; 0 at the end."""
        try:
            data = self._read(len(buffer))
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise InputError(f"{self.name} is truncated or damaged ({error}): download or compress it again.") from None
        except OSError as error:
            raise StorageError(f"{self.name} cannot be read: {error.strerror or error}.") from error
        buffer[: len(data)] = data
        self._delivered += len(data)
        return len(data)

    def position(self) -> int:
        """Number of bytes read so far from the file on disk."""
        return self._delivered if self.packed is None else self.packed.tell()

    def close(self) -> None:
        """Close the file unless keep_open is set."""
        if not self.closed and not self.keep_open:
            self.inner.close()
            if self.packed is not None:
                self.packed.close()
        super().close()


def _gzip(handle: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=handle, mode="rb")


class _ZstdSource:
    """Reads consecutive zstd frames; unlike the library's reader it detects a truncated frame."""

    def __init__(self, handle: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("Reading .zst files", "data") from None
        self.handle, self.library = handle, zstandard
        self.frame: Any = None
        self.packed, self.plain = b"", memoryview(b"")

    def read(self, size: int) -> bytes:
        """Returns at most `size` bytes; none at the end."""
        while not self.plain:
            self.packed = self.packed or self.handle.read(_BUFFER_BYTES)
            if not self.packed:
                if self.frame is not None:
                    raise EOFError("the last frame is incomplete")
                return b""
            piece, self.packed = self.packed[:_ZSTD_SLICE_BYTES], self.packed[_ZSTD_SLICE_BYTES:]
            self.frame = self.frame or self.library.ZstdDecompressor().decompressobj()
            try:
                self.plain = memoryview(self.frame.decompress(piece))
            except self.library.ZstdError as error:
                raise zlib.error(str(error)) from None
            if self.frame.eof:
                self.packed = self.frame.unused_data + self.packed
                self.frame = None
        data, self.plain = bytes(self.plain[:size]), self.plain[size:]
        return data

    def close(self) -> None:
        """Release buffers; the file belongs to the caller."""
        self.packed, self.plain = b"", memoryview(b"")


# -- streams the entries of an array in a JSON file ----------------------------------------------------------

_FIRST_CHUNK = 1 << 16
_SPACES = " \t\n\r"


class RepeatedKeyError(Exception):
    """A JSON object has a duplicate key."""


def deduplicated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the pairs of a JSON object as a dict. Raises RepeatedKeyError for a duplicate key."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"duplicate key '{repeated}' in the object")
    return value


def read_array(path: Path | str, key: str) -> Iterator[Any]:
    """Yields the entries of the array under `key` in the file's top-level object; the file may be compressed.

    Raises InputError with line and column if the file is not such JSON; entries before the error have been yielded.
    """
    with _scanner(path) as scanner:
        yield from scanner.entries(key)


def read_values(path: Path | str) -> Iterator[tuple[int, Any]]:
    """Yields number (from 1) and value of each entry of the file's top-level array; without one, of each of its values,
    or of the records in `{"data": [record, ...]}`.

    Exports often are one long line, so that a line would not tell entries apart. The file may be compressed. Raises as
    `read_array`, and InputError for an object of columns.
    """
    with _scanner(path) as scanner:
        yield from enumerate(scanner.values(), start=1)


def _records_in(value: Any, name: str) -> list[Any]:
    """Returns the records in a value that stands alone in a file: itself, or those in its `data`."""
    if not isinstance(value, dict):
        return [value]
    data = value.get("data")
    if isinstance(data, list) and data:
        if all(isinstance(one, dict) and "paragraphs" not in one for one in data):  # else the layout of SQuAD
            return data
        if isinstance(value.get("columns"), list) and isinstance(data[0], list):
            raise _of_columns(value["columns"], name)
    if any(str(key).casefold() in KNOWN_NAMES and isinstance(one, (list, dict)) for key, one in value.items()) and (
        {type(one) for one in value.values()} in ({list}, {dict}) and len({len(one) for one in value.values()}) == 1
    ):
        raise _of_columns(list(value), name)
    return [value]


def _of_columns(columns: Sequence[Any], name: str) -> InputError:
    listed = ", ".join(map(str, columns))[:200]
    return InputError(
        f"{name} is an object of columns ({listed}), not of records: write one object for each row, with pandas "
        'to_json(orient="records").'
    )


def has_entries(path: Path | str, key: str, within: str) -> bool:
    """Whether the file's top-level object has an array `key` with an object that has the key `within`.

    The file is read up to that object. False for a file that is missing or not JSON.
    """
    if not Path(path).is_file():
        return False
    try:
        with _scanner(path) as scanner:
            if scanner.next_character(needed=False) != "{":
                return False
            for name in scanner.members():
                if name == key and scanner.next_character() == "[":
                    return any(isinstance(entry, dict) and within in entry for entry in scanner.items())
                scanner.value()
    except InputError:
        return False
    return False


def starts_with(path: Path | str) -> str:
    """Returns the first character of the file's text that is not a space; "" for an empty file."""
    with _scanner(path) as scanner:
        return scanner.next_character(needed=False)


@contextmanager
def _scanner(path: Path | str) -> Iterator[_Scanner]:
    with open_bytes(path) as handle:
        reject_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        text = io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")
        yield _Scanner(text, str(path))


class _Scanner:
    """A window on the text of a file, starting at the first unparsed character.

    It grows by its own size, so that parsing an entry again costs at most twice its length in total.
    """

    def __init__(self, source: io.TextIOBase, name: str) -> None:
        self.source, self.name = source, name
        self.text, self.at, self.is_whole = "", 0, False
        self.line, self.column = 1, 1  # of the first character of `text`
        self.decoder = json.JSONDecoder(object_pairs_hook=deduplicated)

    def entries(self, key: str) -> Iterator[Any]:
        """Iterates over the object and the array under `key`."""
        if self.next_character() != "{":
            raise InputError(f"{self.name} does not contain a JSON object with '{key}'.")
        found = False
        for name in self.members():
            if name != key:
                self.value()
                continue
            if found:
                raise self.fault(f"duplicate key '{key}'")
            found = True
            if self.next_character() != "[":
                raise self.fault(f"'{key}' is not a list")
            yield from self.items()
        self.end("object")
        if not found:
            raise InputError(f"{self.name} has no '{key}': expected {{\"{key}\": [...]}}.")

    def values(self) -> Iterator[Any]:
        """Yields each entry of the array that begins here, or each value."""
        if self.next_character(needed=False) == "[":
            yield from self.items()
            self.end("array")
        while self.next_character(needed=False):
            yield from _records_in(self.value(), self.name)

    def end(self, of: str) -> None:
        """Raises InputError if anything follows."""
        if self.next_character(needed=False):
            raise self.fault(f"unexpected data after the end of the {of}")

    def members(self) -> Iterator[str]:
        """Yields the keys of the object that begins here; the caller parses each value."""
        return self._between("}", self._key)

    def items(self) -> Iterator[Any]:
        """Yields the values of the array that begins here."""
        return self._between("]", self.value)

    def _between(self, end: str, read: Callable[[], Any]) -> Iterator[Any]:
        self.at += 1
        mark = self.next_character()
        while mark != end:
            yield read()
            mark = self.next_character()
            if mark not in (",", end):
                raise self.fault(f"expected a comma or '{end}'")
            if mark == ",":
                self.at += 1
                if self.next_character() == end:
                    raise self.fault("expected a value after the comma")
        self.at += 1

    def _key(self) -> str:
        if self.next_character() != '"':
            raise self.fault("expected a key in double quotes")
        name = self.value()
        if self.next_character() != ":":
            raise self.fault("expected a colon after the key")
        self.at += 1
        return str(name)

    def next_character(self, needed: bool = True) -> str:
        """Returns the next non-space character without consuming it; "" at the end of the file."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACES:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.read_on():
                if needed:
                    raise self.fault("unexpected end of file")
                return ""

    def value(self) -> Any:
        """Parses the JSON value that begins here."""
        self.next_character()
        while True:
            begin = self.at
            try:
                value, end = self.decoder.raw_decode(self.text, begin)
            except json.JSONDecodeError as error:
                if self.read_on():
                    continue
                self.at += error.pos - begin
                raise self.fault(error.msg) from None
            except RecursionError:
                raise self.fault("nested too deeply") from None
            except (RepeatedKeyError, ValueError) as error:  # also a number of thousands of digits
                raise self.fault(str(error)) from None
            if end == len(self.text) and self.read_on():
                continue  # a number may continue
            self.at = end
            return value

    def read_on(self) -> bool:
        """Drop parsed text and read more; False at the end of the file."""
        if self.is_whole:
            return False
        self.line, self.column = self._place()
        self.text, self.at = self.text[self.at :], 0
        try:
            more = self.source.read(max(_FIRST_CHUNK, len(self.text)))
        except UnicodeDecodeError as error:
            reason = f"byte 0x{error.object[error.start]:02x} is not valid UTF-8"
            raise InputError(f"{self.name} is not UTF-8 text after line {self.line}: {reason}.") from None
        self.is_whole = not more
        self.text += more
        return not self.is_whole

    def _place(self) -> tuple[int, int]:
        """Returns line and column of the current character."""
        lines = self.text.count("\n", 0, self.at)
        if not lines:
            return self.line, self.column + self.at
        return self.line + lines, self.at - self.text.rindex("\n", 0, self.at)

    def fault(self, reason: str) -> InputError:
        """Returns the error for the current character."""
        line, column = self._place()
        reason = reason[:1].lower() + reason[1:]
        return InputError(f"{self.name} is not the expected JSON: line {line}, column {column}: {reason}.")
