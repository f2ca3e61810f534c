"""The environment variables that the libraries know, and which of them another name is a slip of."""

from __future__ import annotations

from functools import lru_cache

from ds_lint.knowledge import tables

# The first words of names that belong to a library: a project's own variables have others.
PREFIXES = (
    "ACCELERATE", "CUDA", "DEEPSPEED", "DS", "FSDP", "GLOO", "HF", "MASTER", "NCCL", "OMP", "PYTORCH", "TOKENIZERS",
    "TORCH", "TORCHELASTIC", "TRANSFORMERS", "WORLD",
)  # fmt: skip
_TELLING = 4  # letters of a word from which on one other letter makes no other word: MIN is not MAX
_LONG = 6  # letters from which on two make none
_WHOLE = 8  # letters of a name that is written with other underscores
_LONGEST = 80


def may_be_of_library(name: str) -> bool:
    """Whether a name may be one of a library, or a slip of one, by its first word."""
    first, _, rest = name.upper().partition("_")
    if not rest or len(name) > _LONGEST:
        return False
    return first in PREFIXES or any(len(one) >= _TELLING and _edits(first, one) == 1 for one in PREFIXES)


def is_known(name: str) -> bool:
    """Whether a library knows the name in any release, or a name that begins so."""
    return name in _names() or name.startswith(_beginnings())


@lru_cache(maxsize=1000)  # the launches of a project set the same
def meant(name: str) -> str | None:
    """The variable of which a name can only be a slip; None if it is one itself, or of the project."""
    if not may_be_of_library(name) or is_known(name):
        return None
    words = name.upper().split("_")
    joined = "".join(words)
    near = {one for one in _names() if _is_slip(words, joined, one)}
    return min(near, key=lambda one: (_edits(name, one), one), default=None)


def libraries(name: str) -> list[str]:
    """The libraries that know a variable."""
    return list(_names().get(name, ()))


def allocator_options() -> frozenset[str]:
    """The options that any release of PyTorch takes in PYTORCH_CUDA_ALLOC_CONF."""
    return frozenset(one for options in tables.load("environment")["allocator"].values() for one in options)


def accelerators() -> list[str]:
    """The values that any release of DeepSpeed takes in DS_ACCELERATOR."""
    return list(tables.load("environment")["libraries"]["deepspeed"]["accelerators"])


@lru_cache(maxsize=1)
def _names() -> dict[str, list[str]]:
    store = tables.load("environment")
    found: dict[str, list[str]] = {}
    extracted = {library: list(one["names"]) for library, one in store["libraries"].items()}
    for library, names in (*store["documented"].items(), *extracted.items()):
        for name in names:
            found.setdefault(name, []).append(library)
    return found


@lru_cache(maxsize=1)
def _beginnings() -> tuple[str, ...]:
    """What names begin with that a library puts together, such as those of each of its models."""
    libraries = tables.load("environment")["libraries"].values()
    return tuple(one for library in libraries for one in library.get("beginnings", ()))


def _is_slip(words: list[str], joined: str, known: str) -> bool:
    """Whether the words of a name are those of a known one, but for a letter, their order, or an underscore."""
    others = known.split("_")
    if len(others) == len(words):
        pairs = [(one, other) for one, other in zip(words, others, strict=True) if one != other]
        if not pairs or (len(words) > 2 and sorted(words) == sorted(others)):
            return True
        if words[0][:1] != others[0][:1]:
            return False  # HCCL_SOCKET_IFNAME is of another library than NCCL_SOCKET_IFNAME
        return len(pairs) <= min(2, len(words) - 1) and all(_is_same_word(*pair) for pair in pairs)
    plain = "".join(others)
    if abs(len(plain) - len(joined)) > 1 or len(plain) < _WHOLE:
        return False
    return plain == joined or (_edits(joined, plain) == 1 and _digits(joined) == _digits(plain))


def _is_same_word(one: str, other: str) -> bool:
    """Whether a word is another one with a slip, or spelled out."""
    shorter = min(len(one), len(other))
    if shorter < _TELLING or _digits(one) != _digits(other):
        return False
    edits = _edits(one, other)
    return edits == 1 or (edits == 2 and shorter >= _LONG) or one.startswith(other) or other.startswith(one)


def _digits(word: str) -> str:
    return "".join(filter(str.isdigit, word))


def _edits(one: str, other: str) -> int:
    """How many letters are put in, left out, replaced or exchanged with their neighbour; 3 stands for more."""
    if abs(len(one) - len(other)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row, last = row, [i], before
        for j, another in enumerate(other, 1):
            cost = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != another))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == another:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > 2:
            return 3
    return min(row[-1], 3)
