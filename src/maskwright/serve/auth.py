"""API keys: read from a setting or a file, compared in constant time, named in the log."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from ..core.errors import ConfigError
from ..core.storage import read_bytes

MOST_BYTES = 1 << 20
DEFAULT_NAME = "default"


class ApiKeys:
    """Accepted keys by name. Only their digests are kept.

    Args:
        key: A key, None for none.
        file: File with one `name:key` a line, None for none. Empty lines and lines that start with # are skipped.

    Raises ConfigError for a file that has no key or a line of another form.
    """

    def __init__(self, key: str | None = None, file: Path | None = None) -> None:
        self._key, self._file = key, file
        self._digests: list[tuple[str, bytes]] = []
        self.reload()

    def __bool__(self) -> bool:
        return bool(self._digests)

    def reload(self) -> None:
        """Reads the file again. Raises ConfigError like the constructor; then the keys stay as they were."""
        found = [] if self._key is None else [(DEFAULT_NAME, _digest(self._key.strip()))]
        if self._file is not None:
            found += _read(self._file)
        self._digests = found

    def name_of(self, authorization: str | None) -> str | None:
        """Returns the name of the key in an Authorization header, None if it is none of ours.

        Every key is compared, in constant time, so the duration says nothing about keys.
        """
        scheme, _, given = (authorization or "").partition(" ")
        digest = _digest(given.strip())
        found = None
        for name, known in self._digests:
            if hmac.compare_digest(digest, known):
                found = name
        return found if scheme.lower() == "bearer" else None


def _read(path: Path) -> list[tuple[str, bytes]]:
    try:
        text = read_bytes(path, limit_bytes=MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text: write one name:key a line.") from None
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, key = line.partition(":")
        if not colon or not name.strip() or not key.strip():
            raise ConfigError(f"{path}:{number} is no key: write name:key.")  # the line itself may be a secret
        found.append((name.strip(), _digest(key.strip())))
    if not found:
        raise ConfigError(f"{path} has no key: write one name:key a line.")
    return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
