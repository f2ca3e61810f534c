"""The learning rate that DeepSpeed scales to a batch four times the base: 2 for the method `sqrt`.

Argument: `lr_scaling_method` of `data_efficiency.data_sampling.dynamic_batching`.
"""

import sys

from deepspeed.runtime.data_pipeline.data_sampling.variable_batch_size_and_lr import scale_lr

print(f"{float(scale_lr(4, 16, 1.0, sys.argv[1])):.3f}")
