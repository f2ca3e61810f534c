"""Who runs a training, and where: homes, users, hosts and addresses, hidden in what is made to be published.

A name is hidden wherever it is a word. One that is also a word of configs, such as ``data``, is hidden in paths and
addresses only: elsewhere it tells nothing, and most of the text would be gone.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from base64 import urlsafe_b64decode
from binascii import Error
from contextlib import suppress
from json import loads
from typing import NamedTuple

from ds_lint.output.secrets import secrets_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

HOME, USER, HOST, ADDRESS = "~", "<user>", "<host>", "<ip>"
_USERS = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER")
_HOSTS = ("HOSTNAME", "COMPUTERNAME", "MASTER_ADDR", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "SLURM_LAUNCH_NODE_IPADDR")
# Options of launchers whose value names hosts: a list with ports, slots and filters.
_OF_HOSTS = frozenset(
    ("master_addr", "main_process_ip", "rdzv_endpoint", "include", "exclude", "H", "host", "hosts", "nodelist")
)  # fmt: skip
_COMMON = frozenset(
    ("root", "user", "users", "ubuntu", "admin", "runner", "guest", "home", "work", "workspace", "local", "localhost",
     "host", "node", "worker", "main", "master", "gpu", "cuda", "cpu", "python", "torch", "deepspeed", "transformers",
     "accelerate", "trainer", "docker", "test", "tests", "app", "tmp", "opt", "usr", "bin", "lib", "error", "rank",
     "true", "false", "none", "auto", "not", "the", "and")
)  # fmt: skip
_PATH_OF_HOME = re.compile(
    r"(?<![\w.~-])(?:(?:/[\w.-]+){0,3}?/(?:homes?|Users)/(?P<user>[\w.-]*\w)|/root(?![\w.-])"
    r"|[A-Za-z]:[\\/]+Users[\\/]+(?P<other>[\w.-]*\w))"
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[A-Za-z][\w-]*(?:\.[\w-]+)*")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F:]*:[0-9a-fA-F:]*:)[0-9a-fA-F:]{3,39}(?:%\w+)?(?![\w:])")
_OF_AMAZON = re.compile(r"(?<![\w-])ip-\d+-\d+-\d+-\d+(?:\.[\w.-]*\w)?")
_WORLD = re.compile(r"(--world_info[= ])([\w=+/-]{8,})")  # of DeepSpeed's launcher: the hosts, in base64
_LEAST_SECRET = 8  # characters of the value of a variable


class PrivateNames(NamedTuple):
    """What is hidden: homes, users and hosts by their names, and secrets of the environment."""

    homes: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()

    def with_hosts(self, names: Iterable[str]) -> PrivateNames:
        """These and other hosts."""
        return self._replace(hosts=self.hosts | {name for name in names if name})

    def with_secrets(self, values: Iterable[str]) -> PrivateNames:
        """These and other secrets."""
        return self._replace(secrets=self.secrets | frozenset(values))


def names_here(environment: Mapping[str, str] = os.environ) -> PrivateNames:
    """Those of this process."""
    import platform

    node = platform.node()
    hosts = {node, *(environment.get(name, "") for name in _HOSTS)}
    home = os.path.expanduser("~")
    homes = {path for path in (home, os.path.realpath(home)) if len(path) > 2}
    users = {environment.get(name, "") for name in _USERS} | {os.path.basename(path) for path in homes}
    if sys.platform != "win32":
        with suppress(ImportError, KeyError):  # a user without an entry
            import pwd

            users.add(pwd.getpwuid(os.getuid()).pw_name)
    secrets = secrets_in_words(f"{name}={value}" for name, value in environment.items())
    return PrivateNames(
        frozenset(homes),
        frozenset(filter(None, users)),
        frozenset(name for name in hosts if name and not _is_address(name)),
        frozenset(value for value in secrets if len(value) >= _LEAST_SECRET),
    )


def hosts_in_words(words: Iterable[str | None]) -> set[str]:
    """The hosts that options of a launcher name."""
    found: set[str] = set()
    option = ""
    for word in words:
        text = word or ""
        before, sign, value = text.partition("=")
        if option and not text.startswith("-"):
            found.update(_hosts_of(text))
        elif sign and _named(before) in _OF_HOSTS:
            found.update(_hosts_of(value))
        option = text if text.startswith("-") and not sign and _named(text) in _OF_HOSTS else ""
        found.update(_hosts_of_world(text.partition("--world_info=")[2]))
    return found


def hidden(text: str, names: PrivateNames, kept: Collection[str] = ()) -> str:
    """The text without these names, and without homes and addresses of any machine; ``kept`` are releases."""
    for secret in sorted(names.secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    users, hosts = set(names.users), set(names.hosts)
    for match in _WORLD.finditer(text):
        hosts |= _hosts_of_world(match[2])
    text = _WORLD.sub(rf"\1{HOST}", text)
    for home in sorted(names.homes, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.~-]){re.escape(home)}(?![\w.-])", HOME, text)
    users.update(name for match in _PATH_OF_HOME.finditer(text) if (name := match["user"] or match["other"]))
    text = _PATH_OF_HOME.sub(HOME, text)
    text = _OF_AMAZON.sub(HOST, text)
    for host in sorted(hosts, key=len, reverse=True):
        text = _without_host(text, host)
    for user in sorted(users, key=len, reverse=True):
        text = _without_name(text, user, USER)
    text = _MAIL.sub(f"{USER}@{HOST}", text)
    text = _IPV4.sub(lambda match: match[0] if _is_public_knowledge(match[0], kept) else ADDRESS, text)
    return _IPV6.sub(lambda match: match[0] if _is_public_knowledge(match[0], kept) else ADDRESS, text)


def _without_host(text: str, host: str) -> str:
    """The text without a host, its short name, and the others of its domain."""
    short, _, domain = host.partition(".")
    if _is_address(host) or short in _COMMON:
        return text
    if domain.count("."):
        text = re.sub(rf"(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.{re.escape(domain)}(?![\w-]|\.\w)", HOST, text)
    return _without_name(_without_name(text, host, HOST), short, HOST)


def _without_name(text: str, name: str, mask: str) -> str:
    quoted = re.escape(name)
    if len(name) < 3 or name.lower() in _COMMON or name.lower() in _words_of_configs():
        return re.sub(rf"(?<=[/\\@]){quoted}(?=[/\\@]|$)", mask, text, flags=re.MULTILINE)
    return re.sub(rf"(?<!\w){quoted}(?!\w)", mask, text)


def _words_of_configs() -> frozenset[str]:
    """The words that names of keys and training arguments are made of."""
    global _vocabulary  # noqa: PLW0603 - made once
    if _vocabulary is None:
        from ds_lint.knowledge.keys import knowledge

        known = knowledge()
        arguments = known.table("transformers", "training_arguments")
        names = {name for key in known.everywhere() for name in key.path} | set(arguments)
        _vocabulary = frozenset(word for name in names for word in (name, *re.split(r"[_\W]+", name)))
    return _vocabulary


_vocabulary: frozenset[str] | None = None


def _named(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _hosts_of(text: str) -> set[str]:
    """The hosts in ``host:port``, ``host1:8,host2:8`` and ``host1:0,1@host2``."""
    parts = (part.partition(":")[0].strip() for part in re.split(r"[,@\s]+", text))
    return {part for part in parts if re.search(r"[A-Za-z]", part) and re.fullmatch(r"[\w.-]+", part)}


def _hosts_of_world(text: str) -> set[str]:
    """The hosts in what DeepSpeed's runner passes to each node: a dict of hosts as JSON in base64."""
    try:
        world = loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, Error, RecursionError):
        return set()
    return {host for host in world if isinstance(host, str)} if isinstance(world, dict) else set()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_public_knowledge(text: str, kept: Collection[str]) -> bool:
    """Whether a text is a release, not an address at all, or one that every machine has."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return True
    return text in kept or address.is_loopback or address.is_unspecified
