"""Secrets that are known by their looks, whatever they stand under: keys, tokens, and whom a URL names."""

from __future__ import annotations

import re

REMOVED = "<removed>"

_BEFORE = r"(?<![A-Za-z0-9])"

# What `secret` is in any of them is removed. None may take long for what somebody has made to take long.
LOOKS = tuple(map(re.compile, (
    r"(?s)(?P<secret>-{4,5} ?BEGIN [A-Za-z0-9 ]+-{4,5}.*?(?:-{4,5} ?END [A-Za-z0-9 ]+-{4,5}|\Z))",
    # Of GitHub, GitLab, Amazon, Slack, Google, Stripe, registries of packages and images, Vault, age.
    _BEFORE + r"(?P<secret>gh[a-z]_[A-Za-z0-9]{8,}|github_pat_\w{8,}"
        r"|gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat)-[\w-]{8,}"
        r"|A(?:KIA|SIA|GPA|IDA|ROA|NPA|NVA|BIA|CCA)[A-Z0-9]{12,}|xox[a-z]-[\w-]+|xapp-[\w-]{8,}"
        r"|AIza[\w-]{30,}|ya29\.[\w-]{8,}|GOCSPX-[\w-]{8,}"
        r"|[prs]k[-_](?:live|test|proj|ant)[-_][\w-]{8,}|sk-[A-Za-z0-9]{20,}"
        r"|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{8,}|do[opr]_v1_[0-9a-f]{16,}"
        r"|hv[bsr]\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|AGE-SECRET-KEY-\w+)",
    _BEFORE + r"(?P<secret>eyJ[\w-]{8,}={0,2}(?:\.[\w-]*={0,2}){0,4})",
    # How a node joins a cluster.
    r"(?<![\w.-])(?P<secret>(?=[a-z.]*[0-9])[a-z0-9]{6}\.[a-z0-9]{16})(?![\w.-])",
    # A password's hash, as in /etc/shadow.
    r"(?P<secret>\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2\w*|scrypt|pbkdf2\S*?)\$[^\s\"':,]+)",
    # A key of WireGuard's, and others that are written so.
    r"(?<![A-Za-z0-9+/=])(?P<secret>[A-Za-z0-9+/]{40,}={1,2})(?![A-Za-z0-9+/=])",
    r"(?<![\w/+.-])(?P<secret>(?=[^\W_]*[A-Z])(?=[^\W_]*[a-z])(?=[^\W_]*[0-9])[A-Za-z0-9]{40,})(?![\w/.-])",
    _BEFORE + r"(?P<secret>0x[0-9A-Fa-f]{32,})",
    r"(?i)\b(?:bearer|basic)\s+(?P<secret>[A-Za-z0-9._~+/=-]{8,})",
    # Whom a URL names, with a password that may have any sign in it; also without a scheme.
    r"://(?P<secret>[^\s\"]{1,1024})@",
    r"(?<![^\s\"'=,(])(?P<secret>[^\s\"'/@:=,(<>]{1,128}:(?!//)[^\s\"@]{1,512})@[\w(\[]",
    # Of curl, sshpass, .netrc.
    r"(?<!\S)(?:-u|--(?:proxy-)?user)[\s=]+[\"']?(?P<secret>[^\s\"':]*:[^\s\"']+)",
    r"\bsshpass\s+-p\s*(?P<secret>\S+)",
    r"\blogin\s+\S{1,200}\s+password\s+(?P<secret>\S+)",
)))  # fmt: skip
