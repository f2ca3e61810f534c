"""What the tests of training runs share: one warm process for all of them, and one whose runs are broken."""

from __future__ import annotations

import json
import socket

import pytest
from broken_runs import breaking
from installed import INSTALLED

from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.source import documents

SECONDS = 120.0  # for a part of a run, which takes one


@pytest.fixture(scope="session")
def pool():
    """The warm process in which configs are proved, each in a second or two."""
    for library in ("torch", "deepspeed", "transformers", "accelerate"):
        pytest.importorskip(library)
    from ds_lint.smoke.processes.client import Pool

    with Pool() as pool:
        assert pool.versions["deepspeed"]
        yield pool


@pytest.fixture(scope="session")
def prove(pool):
    """Proves a config, given as a dict or as text: `prove(config, stack="trainer", arguments={"bf16": True})`.

    `model` is a folder with a config.json, `options` how the run is to be made.
    """
    from ds_lint.smoke.small_run import proof
    from ds_lint.smoke.small_run.options import RunOptions

    def prove(config, *, stack="deepspeed", arguments=None, model=None, options=None, pool=pool):
        text = config if isinstance(config, str) else json.dumps(config)
        (verdict,) = proof.prove(
            pool,
            documents.from_bytes(text.encode(), "config.json"),
            stack=stack,
            facts=gather(Sources(trainer_args=arguments, model=model)),
            target=INSTALLED,
            options=(options or RunOptions(seconds=SECONDS))._replace(simulates=False),
        )
        return verdict

    return prove


@pytest.fixture(scope="session")
def mutating(tmp_path_factory):
    """The pool whose ranks break the promise that is named."""
    with breaking(tmp_path_factory.mktemp("mutation")) as broken_by:
        yield broken_by


@pytest.fixture
def unused_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
