"""Replicas of the server under Ray Serve: MASKWRIGHT_SERVE_CONFIG=serve.toml serve run deploy.ray_serve:app

Each replica is the application of `maskwright serve` with its own queue, limits and metrics. MASKWRIGHT_REPLICAS and
MASKWRIGHT_CPUS set the number of replicas and the cores of each.
"""

import os
from pathlib import Path

from ray import serve

REPLICAS = int(os.environ.get("MASKWRIGHT_REPLICAS", "2"))
CPUS = float(os.environ.get("MASKWRIGHT_CPUS", "1"))
CONFIG = os.environ.get("MASKWRIGHT_SERVE_CONFIG")


def build():
    """The application; called in each replica, so that no model travels between processes."""
    from maskwright.serve.app import create_app
    from maskwright.serve.settings import read_settings

    key = os.environ.get("MASKWRIGHT_API_KEY")
    return create_app(read_settings(Path(CONFIG) if CONFIG else None, {"api_key": key} if key else {}))


@serve.deployment(
    num_replicas=REPLICAS,
    ray_actor_options={"num_cpus": CPUS, "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(max(1, int(CPUS)))}}},
    max_ongoing_requests=1000,  # the application bounds its queue itself, and says when to retry
    graceful_shutdown_timeout_s=40,
)
@serve.ingress(build)
class Replica:
    """One replica."""


app = Replica.bind()
