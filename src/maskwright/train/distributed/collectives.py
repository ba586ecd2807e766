"""Connections between processes: the store where they meet, and the collectives of torch.distributed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from ...core.errors import RunError
from ...core.processes import Launch

MEET_SECONDS = 60  # for all processes to start
# Of one collective. The watch ends a process that hangs much earlier; a first process that saves may take long.
COLLECTIVE_LIMIT = timedelta(days=7)


class ConnectError(RunError):
    """The processes cannot reach each other, so each prints its own message."""


def connect(launch: Launch, *, serve: bool = True) -> dist.Store:
    """A new connection to the store of the job. serve: let the first process serve it, unless the launcher does.

    Raises ConnectError when the address is in use, or cannot be reached.
    """
    is_server = serve and launch.rank == 0 and not launch.has_store
    place = f"{launch.host}:{launch.port}"
    try:
        store = dist.TCPStore(
            launch.host,
            launch.port,
            launch.world,
            is_master=is_server,
            timeout=timedelta(seconds=MEET_SECONDS),
            wait_for_workers=False,
            multi_tenant=False,
        )
    except (RuntimeError, ValueError) as error:
        if "EADDRINUSE" in str(error) or "in use" in str(error):
            raise ConnectError(
                f"Port {launch.port} is in use by another program: choose another one (MASTER_PORT, or --master-port "
                "of torchrun)."
            ) from None
        raise ConnectError(
            f"{launch} cannot reach the first process at {place} within {MEET_SECONDS} seconds: check that all "
            "processes started, and that no other program uses the port."
        ) from None
    return dist.PrefixStore(f"maskwright/{launch.world}/{launch.attempt}", store)


def open_collectives(launch: Launch, store: dist.Store, device: torch.device) -> None:
    """Open the collectives of all processes: gloo for tensors on the CPU, and NCCL on GPUs."""
    backend = "gloo"
    if device.type == "cuda":
        if launch.local_rank >= torch.cuda.device_count():
            raise RunError(
                f"{launch} has no GPU: this machine has {torch.cuda.device_count()} for {launch.local_world} "
                "processes. Start one process per GPU, or use --device cpu."
            )
        torch.cuda.set_device(launch.local_rank)
        backend = "cpu:gloo,cuda:nccl"
    try:
        with _loopback(launch):
            dist.init_process_group(
                backend, store=store, rank=launch.rank, world_size=launch.world, timeout=COLLECTIVE_LIMIT
            )
    except RuntimeError as error:
        raise RunError(f"{launch} cannot connect to the others ({str(error).splitlines()[0]}).") from None


@contextmanager
def _loopback(launch: Launch) -> Iterator[None]:
    """On one machine, let gloo listen on the loopback interface only, unless the environment names another one."""
    name = "GLOO_SOCKET_IFNAME"
    if not launch.is_one_machine or name in os.environ or not sys.platform.startswith("linux"):
        yield
        return
    os.environ[name] = "lo"
    try:
        yield
    finally:
        del os.environ[name]
