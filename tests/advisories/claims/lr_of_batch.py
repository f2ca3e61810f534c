"""The rate that dynamic batching sets for a batch of another size than the base, for a base rate of 1.

Arguments: the base size, the size of the batch and the method (`linear` or `sqrt`).
"""

import sys

from deepspeed.runtime.data_pipeline.data_sampling.variable_batch_size_and_lr import scale_lr

print(f"{float(scale_lr(int(sys.argv[1]), int(sys.argv[2]), 1, sys.argv[3])):.3f}")
