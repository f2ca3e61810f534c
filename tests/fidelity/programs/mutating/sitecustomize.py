"""On PYTHONPATH of a pool: its ranks break the promise that is named in the file MUTATION, one at a time."""

import os
import sys

if any(argument.endswith(("ds_lint.smoke.rank.pool", "ds_lint.smoke.rank.fresh")) for argument in sys.orig_argv):
    from mutations import mutated

    import ds_lint.smoke.rank.run

    ds_lint.smoke.rank.run.work = mutated(ds_lint.smoke.rank.run.work, os.environ["MUTATION"])
