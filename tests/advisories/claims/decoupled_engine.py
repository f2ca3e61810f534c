"""Prints `completes` after the engine of `checkpoint.writer.decoupled` was made, on a rank that writes nothing.

Such a rank starts no process of its own; the others run through the same lines first.
"""

import deepspeed
from deepspeed.runtime.checkpoint_engine.decoupled_checkpoint_engine import DecoupledCheckpointEngine

# The destructor of an engine that was not made raises as well, and would be reported last.
DecoupledCheckpointEngine.__del__ = lambda _engine: None
deepspeed.init_distributed("gloo")
DecoupledCheckpointEngine(None, None, False)
print("completes")
