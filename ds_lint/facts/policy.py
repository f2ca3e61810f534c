"""The policies of an organisation: JSON Schemas of its own that every config must meet.

This is the only place that imports ``jsonschema``, and only where the settings name a policy. References between
policies are followed from file to file; nothing is fetched.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from fractions import Fraction

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT202012

from ds_lint.facts.pattern_limits import PatternLimits, objects_in, patterns_in, without
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.record import Record
from ds_lint.source.files import bytes_of
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


_NOTHING: Any = {"not": {}}  # the same as false


class Violation(Record):
    """What a policy does not allow: where in the config, and which keyword of which part of the schema forbids it.

    ``keyword`` is empty where nothing at all is allowed in the place.
    """

    path: tuple[str, ...]
    keyword: str
    wanted: Any  # the value of the keyword
    schema: dict[str, Any]  # that the keyword is in; what a keyword holds is the validator's business
    instance: Any  # the part of the config


class Policy:
    """One JSON Schema, by the name that findings call it; ``directory`` is where its references lead from."""

    __slots__ = ("_directory", "_kind", "_limits", "_schema", "_validator", "name")

    def __init__(self, name: str, schema: Any, directory: str = "") -> None:
        self.name = name
        if isinstance(schema, dict) and not isinstance(schema.get("$schema", ""), str):
            raise UnreadableFact(f"{name}: this is not a JSON Schema: $['$schema'] is not a string")
        kind = validator_for(schema if isinstance(schema, dict) else {}, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
            with_places = _with_places(schema)
        except SchemaError as error:
            raise UnreadableFact(f"{name}: this is not a JSON Schema: {error.json_path}: {error.message}") from None
        except RecursionError:
            raise UnreadableFact(f"{name}: this is nested deeper than ds-lint can follow") from None

        kind = extend(kind, {"multipleOf": _multiple_of})  # type: ignore[no-untyped-call]
        self._kind, self._schema, self._directory = kind, with_places, directory
        self._limits = PatternLimits()
        self._validator = self._made()

    def _made(self) -> Any:
        """The validator, without the patterns that are given up."""

        def read_beside(address: str) -> Resource[Any]:
            if ":" in address:
                raise NoSuchResource(address)
            try:
                return Resource.from_contents(self._allowed(self._read(address)), DRAFT202012)
            except OSError:
                raise NoSuchResource(address) from None

        return self._kind(self._allowed(self._schema), registry=Registry(retrieve=read_beside))  # type: ignore[call-arg]  # attrs makes it of a private name

    def _allowed(self, schema: Any) -> Any:
        return without(schema, self._limits.given_up) if self._limits.given_up else schema

    def _read(self, address: str) -> Any:
        return _with_places(_content(os.path.join(self._directory, address)))

    def _patterns(self) -> Iterator[str]:
        """The regular expressions of the schema and of those that it refers to."""
        pending, seen = [self._schema], set()
        while pending:
            schema = pending.pop()
            yield from patterns_in(schema)
            for address in _addresses(schema):
                if address not in seen and ":" not in address:
                    seen.add(address)
                    with suppress(OSError, UnreadableFact, RecursionError):
                        pending.append(self._read(address))

    def given_up(self, config: Any) -> list[str]:
        """The patterns that take too long, as far as this config shows it; the policy goes on without them."""
        found = self._limits.try_on(self._patterns(), config)
        if found:
            self._validator = self._made()
        return sorted(self._limits.given_up)

    def violations(self, config: Any) -> Iterator[Violation]:
        """What in a config the policy does not allow. Raises UnreadableFact where a reference does not resolve."""
        try:
            for error in self._validator.iter_errors(config):
                path = tuple(str(part) for part in error.absolute_path)
                schema = error.schema if isinstance(error.schema, dict) else {}
                keyword = "" if schema == _NOTHING else str(error.validator or "")
                yield Violation(path, keyword, error.validator_value, schema, error.instance)
        except Unresolvable as error:
            raise UnreadableFact(f"{self.name}: {error.ref} does not resolve") from None
        except RecursionError:
            raise UnreadableFact(f"{self.name}: its references are circular or nested too deep") from None


def _is_multiple(instance: Any, divisor: Any) -> bool:
    """Whether a number is a multiple; jsonschema raises for NaN, and for an integer that no float can hold."""
    try:
        return Fraction(instance) % Fraction(divisor) == 0
    except (ArithmeticError, ValueError):  # NaN, or infinite
        return False


def _multiple_of(validator: Any, divisor: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    try:
        yield from Draft202012Validator.VALIDATORS["multipleOf"](validator, divisor, instance, schema) or ()
    except (ArithmeticError, ValueError):
        if not _is_multiple(instance, divisor):
            yield ValidationError(f"{instance!r} is not a multiple of {divisor}")


def _addresses(schema: Any) -> Iterator[str]:
    """The files that a schema refers to."""
    for part in objects_in(schema):
        if isinstance(address := part.get("$ref"), str) and (name := address.partition("#")[0]):
            yield name


def load(path: str) -> Policy:
    """The policy in a file. Raises OSError and UnreadableFact."""
    return Policy(shown(path), _content(path), os.path.dirname(path))


def _with_places(schema: Any) -> Any:
    """The schema without ``"key": false``, of which jsonschema forgets where in the config it is."""
    if isinstance(schema, list):
        return [_with_places(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {keyword: _with_places(part) for keyword, part in schema.items()}
    for keyword in ("properties", "patternProperties"):
        if isinstance(keys := parts.get(keyword), dict):
            parts[keyword] = {name: _NOTHING if part is False else part for name, part in keys.items()}
    return parts


def _content(path: str) -> Any:
    data = bytes_of(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableFact(f"{shown(path)}: this is not valid JSON: {error}") from None
