"""``ds-lint convert``: the FSDP of Accelerate that corresponds to a DeepSpeed config, or the other way round."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import TYPE_CHECKING, NamedTuple

from ds_lint import __version__
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.one_config import UnreadableConfigError, config_of_launch, one_config
from ds_lint.commands.report import write_notes
from ds_lint.conversion import fsdp
from ds_lint.conversion.note import joined
from ds_lint.conversion.setup import NotConvertibleError
from ds_lint.conversion.to_deepspeed import to_deepspeed
from ds_lint.conversion.to_fsdp import to_fsdp
from ds_lint.linter import engine
from ds_lint.output.harmless import JSON, TEXT, harmless
from ds_lint.session.session import Session
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.source import replacement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.commands.compared_runs import Comparison
    from ds_lint.commands.options import ConvertOptions
    from ds_lint.conversion.note import Converted
    from ds_lint.semantics.accelerate.file import AccelerateFile
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config
    from ds_lint.session.options import Options

VERSION = 1  # of the JSON, raised when a reader of it would have to change


class _Conversion(NamedTuple):
    """What a conversion gives, the config or YAML that it is of, and the version of FSDP."""

    converted: Converted
    source: Config
    fsdp_version: int

    @property
    def text(self) -> str:
        """What is written: a YAML for Accelerate, or a DeepSpeed config."""
        if "distributed_type" not in self.converted.content:
            return dumps(self.converted.content, indent=2) + "\n"
        from yaml import safe_dump

        return str(safe_dump(self.converted.content, sort_keys=False, allow_unicode=True, width=float("inf")))


def convert(options: Options, own: ConvertOptions) -> int:
    """Write what corresponds, print notes on the rest, and return the exit status."""
    (path,) = options.paths
    try:
        session = Session(options)
        conversion = _conversion(one_config(path, session), own, session)
        if own.output_file is not None:
            _write(conversion.text, own.output_file, force=own.force)
        comparison = _comparison(conversion, own) if own.smoke else None
    except (*WRONG_USAGE, UnreadableConfigError, NotConvertibleError, CouldNotRun) as error:
        return complain(error)
    status = 0 if comparison is None or comparison.is_made else 2
    documents = [conversion.source.document]
    if options.output_format == "json":
        sys.stdout.write(harmless(_as_json(conversion, own, session, comparison), JSON, documents))
        write_notes(session.notes, documents)
        return status
    if own.output_file is None:
        sys.stdout.write(conversion.text)
        sys.stdout.flush()
    notes = [*session.notes, *_rejections(conversion.source), *joined(conversion.converted.notes)]
    write_notes(notes, documents)
    if comparison is not None:
        from ds_lint.commands.compared_runs import table

        sys.stdout.write(harmless(table(comparison), TEXT, documents))
    return status


def _comparison(conversion: _Conversion, own: ConvertOptions) -> Comparison:
    """Both runs; raises CouldNotRun."""
    from ds_lint.commands.compared_runs import compare

    source = conversion.source
    ranks = own.smoke_ranks or 2
    return compare(source.document, conversion.text, to_fsdp=own.to == "fsdp", ranks=ranks, facts=source.facts)


def _conversion(config: Config, own: ConvertOptions, session: Session) -> _Conversion:
    """The conversion of a config; raises UnreadableConfigError or NotConvertibleError."""
    path = config.document.path
    ranks, nodes = config.facts.world_size, config.facts.nodes
    if own.to == "fsdp":
        target = fsdp.target_of(config.knowledge, own.fsdp_version, ranks)
        launch = config.accelerate.launch if config.accelerate is not None else None
        if launch is not None and launch.value("use_fsdp"):
            raise NotConvertibleError(f"{path} configures FSDP already; --to deepspeed converts it")
        source = config if config.accelerate is None else config_of_launch(config, config.accelerate, session)
        return _Conversion(to_fsdp(source, target, launch), source, target.version)
    if config.accelerate is None:
        raise NotConvertibleError(f"{path} is a DeepSpeed config already; --to fsdp converts it")
    launch = _launch_with_fsdp(path, config.accelerate)
    converted = to_deepspeed(
        launch,
        path,
        ranks_of_machine=_of_machine(launch, ranks, nodes),
        output=own.output_file or "ds_config.json",
    )
    return _Conversion(converted, config, fsdp.version_of(launch))


def _launch_with_fsdp(path: str, file: AccelerateFile) -> AccelerateLaunch:
    launch = file.launch
    if launch is None:
        raise UnreadableConfigError(f"{path} cannot be read by accelerate; run ds-lint check to see why")
    if launch.value("use_deepspeed"):
        raise NotConvertibleError(f"{path} configures DeepSpeed already; --to fsdp converts it")
    if not launch.value("use_fsdp") and not launch.value("multi_gpu"):
        raise NotConvertibleError(f"{path}: `distributed_type` is {launch.distributed_type}, not FSDP or MULTI_GPU")
    return launch


def _of_machine(launch: AccelerateLaunch, ranks: int | None, nodes: int | None) -> int | None:
    """The ranks of one machine, or None if their number is not known; what the file says comes first."""
    written = launch.setting("num_processes")
    count = written.value if written.member is not None else ranks
    machines = launch.value("num_machines") if launch.setting("num_machines").member is not None else nodes or 1
    if not isinstance(count, int) or not isinstance(machines, int) or min(count, machines) < 1 or count % machines:
        return None
    return count // machines


def _write(text: str, output: str, *, force: bool) -> None:
    if os.path.lexists(output) and not force:
        raise NotConvertibleError(f"{output} already exists; use --force to overwrite it, or another --output-file")
    (replacement.write if force else replacement.create)(output, text.encode())


def _rejections(config: Config) -> Iterator[str]:
    for finding in engine.check(config):
        if finding.effect == "rejected":
            yield f"{config.document.path} is rejected: {finding.code} {finding.message}"


def _as_json(
    conversion: _Conversion, own: ConvertOptions, session: Session, comparison: Comparison | None = None
) -> str:
    source = conversion.source
    described: dict[str, object] = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        **({"notes": session.notes} if session.notes else {}),
        "path": source.document.path,
        "to": own.to,
        "fsdp_version": conversion.fsdp_version,
        "target": source.knowledge.target,
        "rejected": list(_rejections(source)),
        "content": conversion.converted.content,
        "lines": [
            {"subject": note.subject, "key": note.key, "message": note.message} for note in conversion.converted.notes
        ],
    }
    if comparison is not None:
        from ds_lint.commands.compared_runs import as_json

        described["smoke"] = as_json(comparison)
    return dumps(described, indent=2) + "\n"
