"""Secrets that are known beside what is read: what runtimes gave with requests, and what files say.

They are learnt before and after: a DEL that waits for an agent may be done meanwhile, and others arrive.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import msgspec

from ...cni import CNIError
from ...cni.args import split_pairs
from ...cni.cache import Cache
from ...cni.files import read_document
from .member import Asked
from .networks import learn as learn_from_networks
from .secrets import Secrets

_MANY = 5000


def learn_secrets(asked: Asked, secrets: Secrets) -> None:
    learn_from_networks(asked, secrets)
    _learn_from_cache(asked, secrets)
    for args, body in _queued(asked):
        secrets.learn_arguments(args)
        _learn_from_source(body, secrets)
    secrets.learn_arguments(_pairs(os.environ.get("CNI_ARGS", "")))


def _learn_from_cache(asked: Asked, secrets: Secrets) -> None:
    try:
        cached = Cache(asked.cache_dir).attachments()
    except OSError:
        return
    sources = set()
    for it in cached[:_MANY]:
        secrets.learn_arguments(dict(it.args))
        sources.add(it.config)
    for source in sources:
        _learn_from_source(source, secrets)


def _learn_from_source(source: bytes, secrets: Secrets) -> None:
    try:
        secrets.learn_from(msgspec.json.decode(source))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return


def _queued(asked: Asked) -> Iterator[tuple[Mapping[str, str], bytes]]:
    """The arguments and configurations of DELs that wait for an agent."""
    from ...api.intents import waiting
    from ...api.protocol import ProtocolError, decode

    for path in waiting(os.path.join(os.path.dirname(asked.socket), "intents"))[:_MANY]:
        try:
            message = decode(read_document(path))
        except (OSError, ProtocolError):
            continue
        yield _pairs(message.head.environment.get("CNI_ARGS", "")), message.body


def _pairs(text: str) -> dict[str, str]:
    try:
        return dict(split_pairs(text))
    except CNIError:
        return {}
