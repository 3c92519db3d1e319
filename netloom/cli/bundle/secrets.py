"""What must not leave the machine: recognised by the name that it stands under, by its looks, and wherever
else the same value turns up.

Not everything that looks like a secret is one. What is removed by mistake is missed by somebody who helps;
what is left by mistake is known to everybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REMOVED = "<removed>"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset({
    "auth", "authorization", "bearer", "cert", "certificate", "certificates", "certs", "cookie", "cred",
    "credential", "credentials", "creds", "jwt", "key", "keys", "kubeconfig", "pass", "passphrase", "passwd",
    "password", "passwords", "pem", "private", "psk", "pwd", "secret", "secrets", "signature", "token",
    "tokens",
})  # fmt: skip
_SECRET_PARTS = ("password", "passphrase", "secret", "token", "apikey", "privatekey", "credential")

# Arguments of CNI that say who and where, and nothing else.
_KNOWN_ARGS = frozenset({"IgnoreUnknown", "IP", "MAC"})
_KNOWN_ARGS_PREFIX = "K8S_POD_"
_KNOWN_CNI_ARGS = frozenset({"ips", "mac", "mtu", "txQLen", "sysctl"})

# A value that is shorter is found in too much that is no secret.
_TELLING = 6
_COMMON = frozenset({"default", "netloom", "enabled", "disabled", "kubernetes"})

_NAME = (
    r"[\w.-]*(?:passw(?:or)?d|passphrase|token|secret|api[_-]?key|private[_-]?key|credential|authorization"
    r"|psk)[\w.-]*|key|auth|cert|pwd"
)
_VALUE = r"\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s,;&}\])]+"
_NAMED = re.compile(rf"(?i)(?<![\w.-])({_NAME})(\\?[\"']?\s*[:=]\s*\\?)({_VALUE})")
_ARGS = re.compile(r"(CNI_ARGS\\?[\"']?\s*[:=]\s*\\?[\"']?)([^\s\"'\\]+)")
_LOOKS = (
    (re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {REMOVED}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"), REMOVED),
    # A key of WireGuard's.
    (re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])"), REMOVED),
    # An option of a command line.
    (
        re.compile(
            r"(?i)(?<!\S)(--?[\w-]*(?:passw(?:or)?d|passphrase|token|secret|key|credential)[\w-]*)\s+[^\s-]\S*"
        ),
        rf"\1 {REMOVED}",
    ),
    (re.compile(r"(://)[^/\s:@]+:[^/\s@]+@"), rf"\1{REMOVED}@"),
)


def is_secret_name(name: str) -> bool:
    """
    >>> is_secret_name("privateKey"), is_secret_name("monkey"), is_secret_name("api_token")
    (True, False, True)
    """
    words = {word.lower() for word in _WORDS.findall(name)}
    plain = re.sub("[^a-z]", "", name.lower())
    return bool(words & _SECRET_WORDS) or any(part in plain for part in _SECRET_PARTS)


def is_known_argument(name: str) -> bool:
    """Of `CNI_ARGS`."""
    return name in _KNOWN_ARGS or name.startswith(_KNOWN_ARGS_PREFIX)


class Secrets:
    """Removes them. What was found under a telling name is removed everywhere from then on."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, value: Any) -> None:
        """All strings in it are secrets."""
        if isinstance(value, str):
            stripped = value.strip()
            if len(stripped) >= _TELLING and stripped.lower() not in _COMMON:
                self._values.add(stripped)
                self._pattern = None
        elif isinstance(value, Mapping):
            for item in value.values():
                self.learn(item)
        elif isinstance(value, list | tuple):
            for item in value:
                self.learn(item)

    def learn_from(self, configuration: Any) -> None:
        """What stands under telling names in somebody's configuration."""
        self._walk(configuration, is_ours=False, learn=True)

    def learn_arguments(self, args: Mapping[str, str]) -> None:
        for name, value in args.items():
            if not is_known_argument(name):
                self.learn(value)

    def learn_from_text(self, text: str) -> None:
        """As `learn_from`, of something that cannot be parsed."""
        for found in _NAMED.finditer(text):
            self.learn(found[3].strip("\"'"))

    def document(self, value: Any, *, is_ours: bool) -> Any:
        return self._walk(value, is_ours=is_ours, learn=False)

    def text(self, text: str) -> str:
        text = _ARGS.sub(lambda found: found[1] + _without_values(found[2]), text)
        for pattern, replacement in _LOOKS:
            text = pattern.sub(replacement, text)
        text = _NAMED.sub(lambda found: f"{found[1]}{found[2]}{REMOVED}", text)
        return self._without_known(text)

    def _without_known(self, text: str) -> str:
        if not self._values:
            return text
        if self._pattern is None:
            longest_first = sorted(self._values, key=lambda value: (-len(value), value))
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._pattern.sub(REMOVED, text)

    def _walk(self, value: Any, *, is_ours: bool, learn: bool, path: tuple[str, ...] = ()) -> Any:
        if isinstance(value, Mapping):
            return {
                self.text(str(key)): self._item(str(key), item, is_ours=is_ours, learn=learn, path=path)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._walk(item, is_ours=is_ours, learn=learn, path=path) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def _item(self, key: str, item: Any, *, is_ours: bool, learn: bool, path: tuple[str, ...]) -> Any:
        if _is_hidden(key, item, is_ours=is_ours, path=path):
            if learn:
                self.learn(item)
            return REMOVED
        return self._walk(item, is_ours=is_ours, learn=learn, path=(*path, key))


def _is_hidden(key: str, item: Any, *, is_ours: bool, path: tuple[str, ...]) -> bool:
    if item is None or isinstance(item, bool) or item in ("", [], {}):
        return False
    if path[-1:] == ("args",) and key != "cni":
        return True
    if path[-2:] == ("args", "cni"):
        return key not in _KNOWN_CNI_ARGS
    if is_ours and (key == "key" or isinstance(item, int | float)):
        return False  # what an element of a set is known by, and what is counted
    return is_secret_name(key)


def _without_values(pairs: str) -> str:
    """`KEY=VALUE;KEY=VALUE` with those values alone that everybody knows."""
    shown = []
    for pair in pairs.split(";"):
        name, equals, _ = pair.partition("=")
        shown.append(pair if not equals or is_known_argument(name) else f"{name}={REMOVED}")
    return ";".join(shown)
