"""How far a forward and backward pass may be from the same pass in another order of additions.

The order is another one where ZeRO-3 multiplies matrices in its own way, and on a GPU, whose kernels split sums, and of
which some, such as the backward pass of fused attention, add in an order that changes from run to run. Each bound is
relative to the largest element of a tensor, for ``l`` matrix products with sums of ``n`` terms:

* fp32: each product is off by at most ``n`` roundings of its terms, in whatever order they are added: ``l * n * u32``.
* 16 bit: products are added up in fp32 and rounded once, to the unit roundoff ``u`` of their dtype. These roundings are
  independent of each other, so by Hoeffding's inequality their sum exceeds ``6 * sqrt(l) * u`` once in 10 million
  times. A GPU may also add parts of a sum in 16 bit; ``environment.py`` forbids it, as the error would grow with the
  parts.
* fp32 in TF32, which ``--tf32`` asks for: both factors of each term are rounded to 11 bits, whatever comes after. With
  ``2 * 2**-11`` in the place of ``u``, the same inequality holds.
"""

from __future__ import annotations

import math

U = 2.0**-24  # the unit roundoff of float32
TF32 = 2.0**-11  # and of what tensor cores make of it
# Unit roundoff, and the smallest number above zero.
OF_DTYPES = {
    "float32": (U, 2.0**-149),
    "bfloat16": (2.0**-8, 2.0**-133),
    "float16": (2.0**-11, 2.0**-24),
}
SIGMAS = 6  # standard deviations that no error exceeds


def of_passes(unit_roundoff: float, products: int, longest: int, *, rounds_factors: bool) -> float:
    """The bound for weights of a dtype with this unit roundoff; ``longest`` is the number of terms of a sum."""
    if unit_roundoff > U:
        return SIGMAS * math.sqrt(products) * unit_roundoff
    exact = products * longest * U
    return exact + SIGMAS * math.sqrt(products) * 2 * TF32 if rounds_factors else exact
