"""Everything that only a GPU can show, measured in the few minutes for which one can be borrowed.

    tools/gpu/pack                              here: what the other machine lacks, into .gpu/
    tools/gpu/run --out DIR [--minutes 8]       there: install it without a network, and measure
    python -m tools.gpu.page --take DIR         here: keep what was measured, and write docs/gpu.md

``run`` works through the parts in ``parts/``, the most valuable first. Each part is a process with a time limit of its
own, and writes what it has measured after each item, so that whatever stops it leaves the rest.
"""
