"""Parse command lines as an edition of Megatron-DeepSpeed does: its own functions, with stand-ins for what they import.

The folder of the edition, a git repository, and the commit are the words; standard input has the lines as JSON, each
with a world size. Printed is what became of each: the exception, or the arguments.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import types

FOLDER, COMMIT = sys.argv[1:]
SHOWN = (
    "data_parallel_size", "fp16", "bf16", "global_batch_size", "micro_batch_size", "zero_stage", "clip_grad",
    "pipeline_model_parallel_size", "tensor_model_parallel_size", "no_pipeline_parallel", "cpu_optimizer", "optimizer",
)  # fmt: skip


def text_of(path):
    return subprocess.run(
        ["git", "-C", FOLDER, "show", f"{COMMIT}:{path}"], capture_output=True, text=True, check=True
    ).stdout


def stand_in(name, **values):
    module = types.ModuleType(name)
    module.__dict__.update(values)
    sys.modules[name] = module
    return module


def executed(name, path):
    module = stand_in(name, __file__=path)
    exec(compile(text_of(path), path, "exec"), module.__dict__)  # noqa: S102 - what the test is about
    return module


activations = types.SimpleNamespace(GLU_ACTIVATIONS={"geglu": None})
stand_in("megatron", fused_kernels=None, model=types.SimpleNamespace(glu_activations=activations))
stand_in("megatron.global_vars", set_retro_args=lambda _: None, get_retro_args=lambda: None)
stand_in("megatron.core")
stand_in("megatron.core.transformer", TransformerConfig=object)
stand_in("megatron.logging", log_levels={"info": 20})
stand_in("tools")
stand_in("tools.retro")
stand_in("tools.retro.utils", get_args_path=lambda folder: folder)
with contextlib.suppress(subprocess.CalledProcessError):
    executed("megatron.enums", "megatron/enums.py")
arguments = executed("megatron.arguments", "megatron/arguments.py")
batches = executed("megatron.microbatches", "megatron/microbatches.py")
results = []
for words, world_size in json.load(sys.stdin):
    sys.argv = ["pretrain_gpt.py", *words]
    os.environ["WORLD_SIZE"] = str(world_size)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            args = arguments.parse_args()
            if hasattr(arguments, "validate_args"):
                arguments.validate_args(args)
            batches.build_num_microbatches_calculator(args)
            results.append({"values": {name: getattr(args, name) for name in SHOWN if hasattr(args, name)}})
        except SystemExit:
            results.append({"error": errors.getvalue().splitlines()[-1]})
        except Exception as error:
            results.append({"error": f"{type(error).__name__}: {error}"})
print(json.dumps(results))
