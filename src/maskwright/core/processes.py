"""The processes of one training, as a launcher such as torchrun describes them in environment variables. No torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import ConfigError


@dataclass(frozen=True)
class Launch:
    """This process among those that the launcher started.

    Attributes:
        rank: Its number, from 0.
        world: Number of processes.
        local_rank: Its number on its machine.
        local_world: Number of processes on its machine.
        host, port: Where the processes meet.
        attempt: Number of restarts by the launcher.
        has_store: Whether the launcher serves the meeting point itself, as torchrun does.
        is_torchrun: Whether torchrun started it.
    """

    rank: int
    world: int
    local_rank: int
    local_world: int
    host: str
    port: int
    attempt: int
    has_store: bool
    is_torchrun: bool

    @property
    def is_one_machine(self) -> bool:
        """Whether all processes are on this machine."""
        return self.local_world == self.world

    def __str__(self) -> str:
        return f"process {self.rank} of {self.world}"


def launch_of(environment: Mapping[str, str] | None = None) -> Launch | None:
    """The launch that the environment describes; None without a launcher. Raises ConfigError for wrong values."""
    found = os.environ if environment is None else environment
    if "RANK" not in found or "WORLD_SIZE" not in found:
        return None
    rank, world = _number(found, "RANK"), _number(found, "WORLD_SIZE")
    local = _number(found, "LOCAL_RANK", rank)
    launch = Launch(
        rank=rank,
        world=world,
        local_rank=local,
        local_world=_number(found, "LOCAL_WORLD_SIZE", world),
        host=found.get("MASTER_ADDR", "127.0.0.1"),
        port=_number(found, "MASTER_PORT", 29500),
        attempt=_number(found, "TORCHELASTIC_RESTART_COUNT", 0),
        has_store=found.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        is_torchrun="TORCHELASTIC_RUN_ID" in found,
    )
    if world < 1 or rank >= world:
        raise ConfigError(f"RANK is {rank} and WORLD_SIZE is {world}: start all processes with torchrun.")
    return launch


def num_processes() -> int:
    """The number of processes of this training; 1 without a launcher."""
    launch = launch_of()
    return 1 if launch is None else launch.world


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    value = environment.get(name)
    if value is None and default is not None:
        return default
    if value is None or not value.isdecimal():
        raise ConfigError(f"The environment variable {name} is {value!r}, not a number: start all with torchrun.")
    return int(value)
