"""The pipeline stages that get no layer although there are enough: 0 is right.

Arguments: the weights of the layers, such as 10,10,1; and the number of stages.
"""

import itertools
import sys

from deepspeed.runtime.utils import partition_balanced

WEIGHTS, STAGES = [int(weight) for weight in sys.argv[1].split(",")], int(sys.argv[2])
assert len(WEIGHTS) > STAGES
bounds = [int(bound) for bound in partition_balanced(weights=WEIGHTS, num_parts=STAGES)]
print(f"{sum(start == end for start, end in itertools.pairwise(bounds)):.3f}")
