"""Checks that all processes have the same versions, settings and data, before they compute."""

from __future__ import annotations

import json
from typing import Any

from ...core.config import differences
from ...core.errors import ConfigError
from .group import Group, ProcessGroup


def check_same(group: Group, what: str, facts: dict[str, Any]) -> None:
    """Raise ConfigError in the first process whose facts differ from those of process 0; end the others.

    what: the facts in words, for the message.
    """
    if not isinstance(group, ProcessGroup):
        return
    found = group.exchange(facts)
    differing = [rank for rank, other in enumerate(found) if other != found[0]]
    if not differing:
        return
    if group.rank != differing[0]:
        group.await_failure()
    changes = "; ".join(differences(found[0], json.loads(json.dumps(facts))))
    raise ConfigError(
        f"The {what} differ from those of process 0: {changes}. Start all processes with the same command, files and "
        "versions."
    )
