"""Where DeepSpeed swaps to: a folder of the run on the same disk, so that no other run's swap files are removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from types import ModuleType

    from ds_lint.smoke.probe.plan import Plan


def install(plan: Plan) -> None:
    """Lead swap files, once DeepSpeed knows where they go."""
    name = os.path.basename(plan.folder)
    on_cpus = Path(plan.own_folder, "nvme")  # the disk of the config may not exist

    def lead(config: Any) -> None:
        path = config.nvme_path if config is not None else None
        if path is not None and path != on_cpus and path.name != name:
            config.nvme_path = on_cpus if plan.uses_cpu else path / name

    def of_parameters(module: ModuleType) -> None:
        @around(module.AsyncPartitionedParameterSwapper, "_configure_aio")  # it makes the folder
        def led(configure: Any, swapper: Any, ds_config: Any) -> None:
            lead(ds_config.zero_config.offload_param)
            configure(swapper, ds_config)

    def of_states(module: ModuleType) -> None:
        @around(module.DeepSpeedZeroOptimizer_Stage3, "_configure_tensor_swapping")  # it makes the folder
        def led(configure: Any, optimizer: Any, config: Any, *args: Any, **kwargs: Any) -> None:
            lead(config)
            configure(optimizer, config, *args, **kwargs)

    imports.after("deepspeed.runtime.swap_tensor.partitioned_param_swapper", of_parameters)
    imports.after("deepspeed.runtime.zero.stage3", of_states)
