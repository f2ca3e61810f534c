/**
 * Whether a file may hold a DeepSpeed config or launch training with one, so that the server is worth starting: every config has one of these words
 * (`ds_lint/source/recognition.py`), and an empty one has the name of a config (`ds_lint/lsp/recognition.py`). The server
 * looks closer.
 */
export function mayBeConfig(path: string, text: string): boolean {
  const name = path.split(/[/\\]/).at(-1) ?? "";
  return NAME.test(name) || WORDS.test(text) || (SCRIPT.test(name) && LAUNCHERS.test(text));
}

const WORDS =
  /zero.?optimi[sz]|strategy\W{1,6}deepspeed|deepspeed_stage_\d|train_micro_batch|train_batch_size|wall_clock_breakdown|steps_per_print|gradient_clipping|zero_allow_untested|zero_force_ds|activation_checkpointing|offload_optimizer|offload_param|loss_scale_window|compute_environment|distributed_type|DeepSpeedPlugin|DeepSpeedStrategy|fsdp=|fsdp_config|FullyShardedDataParallel|fully_shard/;
const SCRIPT = /\.(?:sh|bash|sbatch|slurm|mk)$|^(?:GNU)?makefile$/i;
const LAUNCHERS = /\b(?:deepspeed|torchrun|accelerate)\b/;
const NAME = /ds[-_.]?(?:config|stage|zero|z[0-3])|deep[-_]?speed|(?:^|[^a-z])zero[-_]?[0-3]/i;
