"""Random Hydra projects, composed by Hydra and by ds-lint: the same mapping, or a word that Hydra rejects, too."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from hydra_projects import HydraProject

from ds_lint.source.hydra.composition import compose
from ds_lint.source.hydra.files import ConfigFolders
from ds_lint.source.hydra.interpolation import Interpolations
from ds_lint.source.hydra.overrides import override
from ds_lint.source.hydra.places import NotComposedError
from ds_lint.source.tree import Span, plain

pytest.importorskip("hydra")


def real_config(folder, words):
    """What Hydra composes; None if it raises."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    try:
        with warnings.catch_warnings(), initialize_config_dir(config_dir=str(folder), version_base=None):
            warnings.simplefilter("ignore")
            return hydra_compose(config_name="config", overrides=words)
    except Exception:
        return None


def text_of(path):
    return Path(path).read_text(encoding="utf-8") if os.path.isfile(path) else None


def own_config(folder, words):
    """What ds-lint composes; None if it does not know."""
    overrides = [override(word, Span(0, 0)) for word in words]
    if None in overrides:
        return None
    try:
        return compose(ConfigFolders([str(folder)], text_of, os.path.isdir), "config", overrides)
    except NotComposedError:
        return None


def differences(composed, real):
    """The values that are known here and are others in Hydra's config."""
    from omegaconf import OmegaConf

    if plain(composed.root) != OmegaConf.to_container(real):
        yield "unresolved", plain(composed.root), OmegaConf.to_container(real)
        return
    values = Interpolations(composed.root, {})
    pending = [((), composed.root)]
    while pending:
        path, node = pending.pop()
        for member in node.members:
            place = (*path, member.key)
            if member.value.kind == "object":
                pending.append((place, member.value))
                continue
            found = values.resolved(member.value, place)
            if has_unknown(found):
                continue
            try:
                expected = OmegaConf.select(real, ".".join(place), throw_on_missing=True)
                expected = OmegaConf.to_container(expected, resolve=True) if OmegaConf.is_config(expected) else expected
            except Exception as error:
                expected = error
            if type(expected) is not type(plain(found)) or expected != plain(found):
                yield place, plain(found), expected


def has_unknown(node):
    return node.kind == "template" or any(map(has_unknown, (*node.items, *(one.value for one in node.members))))


FEW, MANY = range(6), pytest.param(range(6, 1206), marks=pytest.mark.long)


@pytest.mark.parametrize("seeds", [FEW, MANY], ids=["few", "many"])
def test_a_config_is_composed_as_hydra_does(tmp_path, seeds):
    composed = wrong = unknown = rejected = 0
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        words = HydraProject(seed).write(folder)
        real, own = real_config(folder, words), own_config(folder, words)
        if real is None:
            rejected += 1
            assert own is None or own.absent, (seed, words)
        elif own is None:
            unknown += 1
        else:
            found = [("absent", one.path, "") for one in own.absent] or list(differences(own, real))
            composed += 1
            wrong += bool(found)
            assert not found, (seed, words, found)
    assert (wrong, unknown * 4 <= composed) == (0, True), (composed, wrong, unknown, rejected)
    assert composed * 3 >= len(seeds)
