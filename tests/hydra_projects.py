"""Random Hydra projects: groups, packages, lists of defaults, interpolations, and words of a command line."""

from __future__ import annotations

import random

import yaml

KEYS = ["stage", "overlap_comm", "gas", "device", "pin", "offload", "zero", "fp16", "batch"]
LEAVES = [
    *(1, 2, 3, True, False, None, "cpu", "nvme", "auto", 1e-5, 0.5, "1e-5", "5e8", 500000000, "???"),
    *([1, 2], [0.9, 0.999]),
    *("${trainer.batch}", "${batch}", "${oc.env:NOT_SET,7}", "${oc.env:NOT_SET}", "${.stage}"),
    *("${..gas}", "${trainer.lr}"),
    *("${oc.decode:${oc.env:NOT_SET,3}}", "x-${batch}", "${oc.select:nope,3}", "${trainer.deep.${kind}}"),
]  # fmt: skip
VALUES = [
    "3", "1e-3", "true", "null", "cpu", "'a b'", "[1,2]", "{a: 1}", "{stage: 2}", "${batch}", "x/y", "0x1", "1_000",
    "abc def", "", "a\\,b", "-1", ".5", "${oc.env:NOT_SET,4}", "nan1", "2.", "TRUE", "a:b", "[a,[b]]", "???",
]  # fmt: skip
GROUPS = {
    "deepspeed": ["zero1", "zero2", "zero3"],
    "trainer": ["default", "big"],
    "trainer/deepspeed": ["a", "b"],
    "exp": ["x", "y"],
}
HEADERS = ["# @package _global_\n", "# @package trainer.deep\n", "# @package foo\n"]


class HydraProject:
    """Writes a project into a folder, and the words of a launch."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def write(self, folder) -> list[str]:
        """Write the files, and return the words."""
        chance = self._chance
        for group, names in GROUPS.items():
            (folder / group).mkdir(parents=True, exist_ok=True)
            for name in names:
                (folder / group / f"{name}.yaml").write_text(self._file(group, name))
        defaults = [{"deepspeed": chance.choice(GROUPS["deepspeed"])}, {"trainer": "default"}]
        if chance.random() < 0.3:
            defaults.append({"deepspeed@trainer.inner": "zero2"})
        if chance.random() < 0.2:
            defaults[1] = {"trainer": ["default", "big"]}
        if chance.random() < 0.4:
            defaults.append({"optional exp": chance.choice(["x", "y", "nope"])})
        if chance.random() < 0.6:
            defaults.insert(chance.randint(0, len(defaults)), "_self_")
        if chance.random() < 0.2:
            defaults.append({"override deepspeed": "zero3"})
        config = {"defaults": defaults, "batch": 8, "kind": "gas"}
        if chance.random() < 0.5:
            config |= {"trainer": self._mapping()}
        if chance.random() < 0.4:
            config |= {"deepspeed": self._mapping()}
        (folder / "config.yaml").write_text(self._dumped(config))
        return [self._word() for _ in range(chance.choice([0, 0, 1, 1, 2, 3]))]

    def _file(self, group: str, name: str) -> str:
        chance = self._chance
        header = chance.choice(HEADERS) if chance.random() < 0.3 else ""
        content, defaults = self._mapping(), []
        if group == "trainer" and chance.random() < 0.6:
            defaults = [{"deepspeed": chance.choice(["a", "b"])}]
            if chance.random() < 0.5:
                defaults.insert(chance.randint(0, 1), "_self_")
        if group == "exp":
            header = HEADERS[0] if chance.random() < 0.8 else header
            defaults = ["_self_"] if chance.random() < 0.5 else []
            if chance.random() < 0.7:
                defaults.append({"override /deepspeed": chance.choice(GROUPS["deepspeed"])})
            if chance.random() < 0.3:
                defaults.append({"override /trainer": "big"})
            content = {"deepspeed": self._mapping(), "trainer": self._mapping()}
        if (group, name) == ("deepspeed", "zero3") and chance.random() < 0.4:
            defaults = ["zero1", "_self_"] if chance.random() < 0.7 else ["zero1"]
        return header + self._dumped({"defaults": defaults, **content} if defaults else content)

    def _mapping(self, depth: int = 0) -> dict:
        chance = self._chance
        return {
            key: self._mapping(depth + 1) if depth < 2 and chance.random() < 0.35 else chance.choice(LEAVES)
            for key in chance.sample(KEYS, chance.randint(1, 5))
        }

    def _dumped(self, content: dict) -> str:
        text = yaml.safe_dump(content, sort_keys=False).replace("'1e-5'", "1e-5")
        return text.replace("'5e8'", "5e8") if self._chance.random() < 0.7 else text

    def _word(self) -> str:
        chance = self._chance
        groups = [
            *(f"deepspeed={name}" for name in (*GROUPS["deepspeed"], "zero9")),
            *("+exp=x", "+exp=y", "exp=x", "~deepspeed", "trainer/deepspeed=a", "deepspeed@trainer.inner=zero1"),
        ]
        if chance.random() < 0.45:
            return chance.choice(groups)
        root = chance.choice(["deepspeed", "trainer", "trainer.deepspeed", "trainer.deep", "trainer.inner"])
        key = ".".join([root, *chance.sample(KEYS, chance.randint(1, 2))])
        if chance.random() < 0.1:
            return f"~{key}"
        return f"{chance.choice(['', '', '+', '++', '++'])}{key}={chance.choice(VALUES)}"
