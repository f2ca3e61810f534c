from __future__ import annotations

from ds_lint.targets.combination import narrowed, pins_of
from ds_lint.targets.pin import Pin, Requirement


def combined(*specifiers, is_conditional=False):
    (pin,) = pins_of(
        [
            Requirement("deepspeed", specifier, f"a:{number}", is_conditional=is_conditional)
            for number, specifier in enumerate(specifiers, 1)
        ]
    )
    return pin.specifier, pin.source


def test_what_always_applies_is_taken_together():
    assert combined(">=0.14", "<0.17", ">=0.14") == (">=0.14,<0.17", "a:1 and a:2 and a:3")
    assert combined(">=0.14", "==0.16.9") == ("==0.16.9", "a:2")
    assert combined(">=0.14.2", "==0.14.* || ==0.16.*")[0] == ">=0.14.2,==0.14.* || >=0.14.2,==0.16.*"


def test_what_applies_under_a_condition_is_an_alternative():
    assert combined(">=0.14", "==0.12.6", is_conditional=True) == (">=0.14 || ==0.12.6", "a:1 and a:2")


def test_many_alternatives_are_not_multiplied():
    specifier, _ = combined(*(f">={number} || <{number}" for number in range(50)))
    assert specifier == ">=0 || <0"


def test_a_range_gives_way_to_a_release_in_it():
    earlier = Pin("deepspeed", ">=0.14", "a")
    for specifier, is_taken in [("==0.16.9", True), ("==0.16.9+cu121", True), ("==0.12.6", False), (">=0.15", False)]:
        later = Pin("deepspeed", specifier, "b")
        assert narrowed(earlier, later) == (later if is_taken else earlier)


def test_a_source_build_lies_in_a_range():
    assert narrowed(Pin("transformers", ">=4.45", "a"), Pin("transformers", "==4.50.0.dev0", "b")).source == "b"


def test_a_requirement_without_a_version_says_nothing():
    assert pins_of([Requirement("deepspeed", "", "a")]) == []
