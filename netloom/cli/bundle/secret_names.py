"""Names that a secret stands under: of a field, a variable, an option, a header.

Words of them are told apart by their case and by what is between them; in one that is written together, the
beginning and the end are looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset({
    "apikey", "auth", "authentication", "authn", "authorization", "auths", "bearer", "cert", "certificate",
    "certificates", "certs", "community", "cookie", "cookies", "cred", "creds", "dsn", "jwt", "kubeconfig",
    "mnemonic", "otp", "pem", "pin", "pincode", "pins", "private", "psk", "psks", "pw", "pwd", "salt", "seed",
    "sig", "signature", "totp",
})  # fmt: skip
# Wherever they are in a name, also if something stands between the letters of a word, as in `pass_word`.
_PARTS = (
    "accountkey", "apikey", "connectionstring", "credential", "passcode", "passphrase", "passwd", "password",
    "privatekey", "secret", "token",
)  # fmt: skip
_BEGINNINGS = ("key", "pass")
_ENDS = ("auth", "cert", "certs", "cookie", "creds", "jwt", "key", "keys", "pass", "psk", "pwd")
_INNOCENT = frozenset({
    "bypass", "compass", "concert", "donkey", "encompass", "hockey", "hotkey", "jockey", "keyboard", "keyed",
    "keyword", "keywords", "monkey", "monkeys", "overpass", "passage", "passed", "passenger", "passes",
    "passing", "passive", "passthrough", "passthru", "surpass", "trespass", "turkey", "underpass", "whiskey",
})  # fmt: skip

# Where a name is a value itself, as in `{"name": "PASSWORD", "value": "…"}`.
NAMING = (
    "name", "key", "id", "env", "var", "variable", "option", "opt", "flag", "arg", "param", "parameter",
    "header", "field", "label", "attribute", "property", "k", "Name", "Key",
)  # fmt: skip
VALUES = (
    "value", "val", "values", "v", "data", "content", "contents", "default", "text", "string", "argument",
    "Value", "Data",
)  # fmt: skip

# Arguments of CNI that say who and where, and nothing else.
_KNOWN_ARGS = frozenset({"IgnoreUnknown", "IP", "MAC"})
_KNOWN_ARGS_PREFIX = "K8S_POD_"


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """
    >>> is_secret_name("privateKey"), is_secret_name("monkey"), is_secret_name("accesskey")
    (True, False, True)
    """
    plain = re.sub("[^a-z]", "", name.lower())
    return any(part in plain for part in _PARTS) or any(map(_is_secret_word, _WORDS.findall(name)))


def _is_secret_word(written: str) -> bool:
    word = written.lower()
    if word in _INNOCENT:
        return False
    return word in _SECRET_WORDS or word.startswith(_BEGINNINGS) or word.endswith(_ENDS)


def is_known_argument(name: str) -> bool:
    """Of `CNI_ARGS`."""
    return name in _KNOWN_ARGS or name.startswith(_KNOWN_ARGS_PREFIX)
