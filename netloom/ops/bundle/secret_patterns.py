"""How a secret is recognised: names of its field, forms of keys and tokens, and where a value ends in a text
(`name=value`, `"name": {…}`, `--name value`, `Name: value`).

The end of a value is known only if it has quotes or brackets. A value without them may have any character, so
it is removed to the end of its line: to remove too much is better than to leave a part of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset({
    "apikey", "auth", "authentication", "authn", "authorization", "auths", "bearer", "cert", "certificate",
    "certificates", "certs", "community", "cookie", "cookies", "cred", "creds", "dsn", "jwt", "kubeconfig",
    "mnemonic", "otp", "pem", "pin", "pincode", "pins", "private", "psk", "psks", "pw", "pwd", "salt", "seed",
    "sig", "signature", "totp",
})  # fmt: skip
# Anywhere in a name, even if other characters separate the letters, as in `pass_word`.
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

# Fields whose value is a name, as in `{"name": "PASSWORD", "value": "…"}`.
NAMING = (
    "name", "key", "id", "env", "var", "variable", "option", "opt", "flag", "arg", "param", "parameter",
    "header", "field", "label", "attribute", "property", "k", "Name", "Key",
)  # fmt: skip
VALUES = (
    "value", "val", "values", "v", "data", "content", "contents", "default", "text", "string", "argument",
    "Value", "Data",
)  # fmt: skip

# Arguments of CNI that only identify a container or its addresses.
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
    """Whether an argument of `CNI_ARGS` is known to hold no secret."""
    return name in _KNOWN_ARGS or name.startswith(_KNOWN_ARGS_PREFIX)


REMOVED = "<removed>"

_BEFORE = r"(?<![A-Za-z0-9])"

# The group `secret` of each is removed. No pattern may take long, even on text that was made for that.
LOOKS = tuple(map(re.compile, (
    r"(?s)(?P<secret>-{4,5} ?BEGIN [A-Za-z0-9 ]+-{4,5}.*?(?:-{4,5} ?END [A-Za-z0-9 ]+-{4,5}|\Z))",
    # Tokens of GitHub, GitLab, Amazon, Slack, Google, Stripe, registries of packages and images, Vault, age.
    _BEFORE + r"(?P<secret>gh[a-z]_[A-Za-z0-9]{8,}|github_pat_\w{8,}"
        r"|gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat)-[\w-]{8,}"
        r"|A(?:KIA|SIA|GPA|IDA|ROA|NPA|NVA|BIA|CCA)[A-Z0-9]{12,}|xox[a-z]-[\w-]+|xapp-[\w-]{8,}"
        r"|AIza[\w-]{30,}|ya29\.[\w-]{8,}|GOCSPX-[\w-]{8,}"
        r"|[prs]k[-_](?:live|test|proj|ant)[-_][\w-]{8,}|sk-[A-Za-z0-9]{20,}"
        r"|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}|do[opr]_v1_[0-9a-f]{16,}"
        r"|hv[bsr]\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|AGE-SECRET-KEY-\w+)",
    _BEFORE + r"(?P<secret>eyJ[\w-]{8,}={0,2}(?:\.[\w-]*={0,2}){0,4})",
    # The token with which a node joins a cluster.
    r"(?<![\w.-])(?P<secret>(?=[a-z.]*[0-9])[a-z0-9]{6}\.[a-z0-9]{16})(?![\w.-])",
    # A password's hash, as in /etc/shadow.
    r"(?P<secret>\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w*|scrypt|pbkdf2\S*?)\$[^\s\"':,]+)",
    # Keys of WireGuard, and others of that form.
    r"(?<![A-Za-z0-9+/=])(?P<secret>[A-Za-z0-9+/]{40,}={1,2})(?![A-Za-z0-9+/=])",
    r"(?<![\w/+.-])(?P<secret>(?=[^\W_]*[A-Z])(?=[^\W_]*[a-z])(?=[^\W_]*[0-9])[A-Za-z0-9]{40,})(?![\w/.-])",
    _BEFORE + r"(?P<secret>0x[0-9A-Fa-f]{32,})",
    r"(?i)\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9._~+/=-]{8,})",
    # User and password in a URL; the password may have any character. Also without a scheme.
    r"://(?P<secret>[^\s\"]{1,1024})@",
    r"(?<![^\s\"'=,(])(?P<secret>[^\s\"'/@:=,(<>]{1,128}:(?!//)[^\s\"@]{1,512})@[\w(\[]",
    # Passwords of curl, sshpass, .netrc.
    r"(?<!\S)(?:-u|--(?:proxy-)?user)[\s=]+[\"']?(?P<secret>[^\s\"':]*:[^\s\"']+)",
    r"\bsshpass\s+-p\s*(?P<secret>\S+)",
    r"\blogin\s+\S{1,200}\s+password\s+(?P<secret>\S+)",
)))  # fmt: skip


Learn = Callable[[str], object]

# A quote, which may be escaped, as in a JSON document that is a string of another.
_Q = r"\\{0,64}[\"'`]"
_QUOTE = re.compile(r"(\\{0,64})([\"'`])")
_NAME = r"[^\W\d][\w.-]{0,60}"
# A name, in quotes, after a quote or without any, and what is between it and its value.
_ASSIGNED = re.compile(
    rf"(?P<open>{_Q})?(?<![A-Za-z0-9_])(?P<name>{_NAME})(?:\[[^\]\n]{{0,40}}\])?(?P<close>{_Q})?"
    r"\s*(?:=>|:=|==?|:)\s*"
)
_OPTION = re.compile(rf"(?<![^\s\"'`=\[(,])(?P<name>--?{_NAME})\s+(?=\S)")
_TAGGED = re.compile(rf"<(?P<name>{_NAME})>(?=[^\s<])")
# An element of a list and the next one, as in `["x", "--password", "…"]`.
_LISTED = re.compile(rf"(?:(?<=[\[(,])|(?<=[\[(,]\s)){_Q}(?P<name>-{{0,2}}{_NAME}){_Q}\s*,\s*(?=\S)")
# A name that is a value, and in the same braces the value that it names.
_NAMED = re.compile(rf"{_Q}(?:{'|'.join(NAMING)}){_Q}\s*:\s*{_Q}(?P<name>-{{0,2}}{_NAME}){_Q}")
_VALUE_KEY = re.compile(rf"{_Q}(?:{'|'.join(VALUES)}){_Q}\s*:\s*")
_BETWEEN_BRACES = re.compile(r"[^{}]+")
_ARGS = re.compile(rf"CNI_ARGS(?:{_Q})?\s*[:=]\s*")
_SCALAR = re.compile(r"(?P<bare>true|false|null)\b|-?[0-9][0-9.eE+-]*(?=[\s,}\]]|\Z)")
_BRACKETS = re.compile(r"[\[\]{}]|\\{0,64}[\"']")
_CUT_END = re.compile(r"-{4,5} ?END [A-Za-z0-9 ]+-{4,5}")
_LINES = re.compile(r"(\r?\n|\\r|\\n)")
_OF_A_KEY = re.compile(r"[A-Za-z0-9+/=]*")
_LINE_OF_A_KEY = 16
_AFTER_A_VALUE = frozenset(" \t\r\n,;&}])\\\"'`<")

# Text that cannot hold a secret, by its characters and length.
_PLAIN = re.compile(r"(?!xox)[a-z0-9._/%-]{0,15}|[0-9a-f:/]+|[0-9./]+")


def cleaned(text: str, learn: Learn | None = None) -> str:
    """The text without secrets. Calls `learn` with each, so that it can be removed elsewhere, too."""
    if _PLAIN.fullmatch(text):
        return text
    text = _without_arguments(text)
    for look in LOOKS:
        text = look.sub(lambda found: _without_group(found, learn), text)
    text = _without_cut_key(text)
    text = _replaced(text, _LISTED, learn)
    text = _replaced(text, _OPTION, learn)
    text = _replaced(text, _TAGGED, learn)
    text = _without_named(text, learn)
    return _replaced(text, _ASSIGNED, learn)


def _without_group(found: re.Match[str], learn: Learn | None) -> str:
    if found["secret"] == REMOVED:
        return found[0]
    if learn is not None:
        learn(found["secret"])
    start, end = found.start("secret") - found.start(), found.end("secret") - found.start()
    return f"{found[0][:start]}{REMOVED}{found[0][end:]}"


def _without_cut_key(text: str) -> str:
    """Removes the end of a private key without its beginning, as in a log that was cut or rotated."""
    shown, done = [], 0
    for found in _CUT_END.finditer(text):
        before = _LINES.split(text[done : found.start()])
        is_last = True
        while before and _OF_A_KEY.fullmatch(before[-1]) and (is_last or len(before[-1]) >= _LINE_OF_A_KEY):
            is_last = not before.pop()
            if before:
                before.pop()  # what separates the lines
        shown += [*before, REMOVED]
        done = found.end()
    return "".join([*shown, text[done:]])


def _replaced(text: str, pattern: re.Pattern[str], learn: Learn | None) -> str:
    """Removes the values after secrets' names, as the pattern finds them."""
    shown, done = [], 0
    for found in pattern.finditer(text):
        if found.start("name") < done or not is_secret_name(found["name"]):
            continue
        start, end = _value(text, found, at_most_a_word=pattern is _OPTION)
        if start == end:
            continue
        if learn is not None:
            learn(text[start:end])
        shown += [text[done:start], REMOVED]
        done = end
    return "".join([*shown, text[done:]])


def _value(text: str, found: re.Match[str], *, at_most_a_word: bool) -> tuple[int, int]:
    start = found.end()
    groups = found.groupdict()
    quoted_name = bool(groups.get("close"))
    quote = _QUOTE.match(text, start)
    if quote:
        end = _closing(text, quote.end(), quote)
        if end == len(text) or text[end] in _AFTER_A_VALUE:
            return start, end
        return start, _end_of_line(text, end)
    opened = groups.get("open")
    if opened and not quoted_name:
        behind = _QUOTE.match(opened)
        assert behind is not None
        return start, _closing(text, start, behind, whole=False)
    if quoted_name or groups.get("open"):
        scalar = _SCALAR.match(text, start)
        if scalar:
            return (start, start) if scalar["bare"] else (start, scalar.end())
        if text[start : start + 1] in ("{", "["):
            return start, _balanced(text, start)
    if at_most_a_word:
        end = start
        while end < len(text) and not text[end].isspace():
            end += 1
        return start, end
    return start, _end_of_line(text, start)


def _closing(text: str, start: int, opening: re.Match[str], *, whole: bool = True) -> int:
    """The position after the closing quote, or before it unless `whole`.

    Quotes may be escaped, as in a JSON document within another.
    """
    depth = len(opening[1])
    for found in _QUOTE.finditer(text, start):
        if found[2] == opening[2] and len(found[1]) % (2 * (depth + 1)) == depth:
            return found.end() if whole else found.end() - depth - 1
    return len(text)


def _balanced(text: str, start: int) -> int:
    """The position after the bracket that closes the one at `start`; the text's end if none does."""
    depth, position = 0, start
    while found := _BRACKETS.search(text, position):
        position = found.end()
        if found[0] in "{[":
            depth += 1
        elif found[0] in "}]":
            depth -= 1
            if depth == 0:
                return position
        else:
            quote = _QUOTE.match(found[0])
            assert quote is not None
            position = _closing(text, position, quote)
    return len(text)


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _without_named(text: str, learn: Learn | None) -> str:
    """Removes the value in `"name": "PASSWORD", "value": …`, in either order between braces."""
    shown, done = [], 0
    for piece in _BETWEEN_BRACES.finditer(text):
        if not any(is_secret_name(found["name"]) for found in _NAMED.finditer(piece[0])):
            continue
        for key in _VALUE_KEY.finditer(text, piece.start(), piece.end()):
            start = key.end()
            if start < done:
                continue
            quote = _QUOTE.match(text, start)
            end = _closing(text, quote.end(), quote) if quote else _balanced_or_scalar(text, start)
            if learn is not None:
                learn(text[start:end])
            shown += [text[done:start], REMOVED]
            done = end
    return "".join([*shown, text[done:]])


def _balanced_or_scalar(text: str, start: int) -> int:
    if text[start : start + 1] in ("{", "["):
        return _balanced(text, start)
    scalar = _SCALAR.match(text, start)
    return scalar.end() if scalar else _end_of_line(text, start)


def _without_arguments(text: str) -> str:
    """Removes the values in `CNI_ARGS=KEY=VALUE;KEY=VALUE`, except those of known arguments."""
    shown, done = [], 0
    for found in _ARGS.finditer(text):
        if found.start() < done:
            continue
        quote = _QUOTE.match(text, found.end())
        start = quote.end() if quote else found.end()
        end = _closing(text, start, quote, whole=False) if quote else _end_of_line(text, start)
        shown += [text[done:start], without_values(text[start:end])]
        done = end
    return "".join([*shown, text[done:]])


def without_values(pairs: str) -> str:
    shown = []
    for pair in pairs.split(";"):
        name, equals, _ = pair.partition("=")
        shown.append(pair if not equals or is_known_argument(name.strip()) else f"{name}={REMOVED}")
    return ";".join(shown)
