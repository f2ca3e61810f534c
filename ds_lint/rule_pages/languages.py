"""The languages beside English that rule pages are translated into."""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """A language that pages are translated into, and what ``ds-lint explain`` says in it."""

    name: str
    english_name: str
    no_page: str  # of a rule, whose code is in the braces
    keys_are_english: str


LANGUAGES = {
    "zh": Language("中文", "Chinese", "{} 还没有中文页面。下面是英文页面。", "键的说明只有英文。"),
    "ko": Language(
        "한국어",
        "Korean",
        "{}의 한국어 페이지가 아직 없으므로 영어 페이지를 표시합니다.",
        "키에 대한 설명은 영어로만 제공됩니다.",
    ),
}
