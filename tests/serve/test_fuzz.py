"""Malformed, hostile and oversized requests: never 5xx, the process lives, and the next valid request is right.

MASKWRIGHT_FUZZ=20 multiplies the number of requests by 20: 10,000 from the schema, 6,000 mutations.
"""

import os
import random

import pytest

from serve.fuzzing import GOOD, FuzzResults, check_health, from_schema, raw_mutations
from serve.server_process import running
from serve.small_models import write_models

pytest.importorskip("schemathesis", reason="the test extra installs schemathesis")

pytestmark = pytest.mark.slow
TIMES = int(os.environ.get("MASKWRIGHT_FUZZ", "1"))
FROM_SCHEMA, MUTATIONS = 500 * TIMES, 300 * TIMES


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(*write_models(tmp_path_factory.mktemp("models")), "--precision", "fp32", "--no-access-log") as found:
        yield found


def assert_unharmed(server, found: FuzzResults, expected) -> None:
    check_health(server, found, lambda answer: answer == expected)
    assert not found.failures, "\n".join(found.failures[:5])


def test_requests_from_the_schema(server):
    expected = server.post("/embed", GOOD).json()
    found = from_schema(server, FROM_SCHEMA)
    assert found.count >= FROM_SCHEMA * 0.6
    assert found.statuses[200] and found.statuses[422] + found.statuses[400]
    assert_unharmed(server, found, expected)


def test_mutated_bytes(server):
    expected = server.post("/embed", GOOD).json()
    found = raw_mutations(server, MUTATIONS, random.Random(0))
    assert found.statuses[200] and found.statuses[400] + found.statuses[422]
    assert_unharmed(server, found, expected)
