"""What people type when a run fails leads to the page about it, in the search of the built site, in Chromium."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytestmark = [pytest.mark.client, pytest.mark.long]  # each builds the site, as test_site.py does in every run

ROOT = Path(__file__).parent.parent.parent
FIRST = 3  # results that a reader looks at
GENERATORS = {"mkdocs": "material", "zensical": "zensical"}  # with the module that it needs
EXPECTED = {
    "nan loss": "symptoms/nan-loss/",
    "loss is nan": "symptoms/nan-loss/",
    "out of memory": "symptoms/out-of-memory/",
    "OOM": "symptoms/out-of-memory/",
    "exit code -9": "symptoms/",
    "hangs": "symptoms/hangs/",
    "stuck": "symptoms/hangs/",
    "nccl timeout": "symptoms/",
    "empty weights": "symptoms/empty-weights/",
    "size mismatch for weight, the shape in current model is torch.Size([0])": "symptoms/empty-weights/",
    "slow training": "symptoms/settings-ignored/",
    "loss 0": "symptoms/",
    "Extra inputs are not permitted": "symptoms/",
    "AssertionError: zero stage 2 requires an optimizer": "rules/DS302-zero-without-optimizer/",
    "Please correct the following DeepSpeed config values that mismatch TrainingArguments values": (
        "rules/DS610-trainer-mismatch/"
    ),
    "train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size": (
        "rules/DS512-batch-arithmetic/"
    ),
    "optimizer": "keys/optimizer/",
    "install": "install/",
}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(params=GENERATORS)
def address(request, tmp_path):
    """Where the site is served."""
    pytest.importorskip(GENERATORS[request.param], reason="requirements/docs.txt is not installed")
    command = [sys.executable, "-m", "tools.site", tmp_path, "--build", "--with", request.param]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=240)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_what_people_type_leads_to_its_page(address, program):
    program("playwright-core")
    program("chromium")
    search = Path(__file__).parent / "site" / "search.mjs"
    done = subprocess.run(
        ["node", search, address, json.dumps([*EXPECTED])], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {query: found[query][:FIRST] for query, page in EXPECTED.items() if page not in found[query][:FIRST]} == {}
