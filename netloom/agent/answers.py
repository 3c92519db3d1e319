"""From a message to a reply: judged in the order of the specification, done, logged.

Whatever happens on the way is an answer: a plugin that is left without one cannot say anything useful.
"""

from __future__ import annotations

import logging

from ..cni import AttachmentKey, CNIError, InternalError, InvalidNetns, skel, versions, wire
from ..cni.skel import Request
from ..failpoints import reach
from ..journal import Operation
from . import intents
from .add import add
from .check import check
from .collect import collect
from .delete import delete
from .failure import explained
from .info import info
from .node import Node
from .protocol import Message, Reply
from .server import Client
from .status import status
from .stopwatch import Stopwatch

log = logging.getLogger(__name__)

_LONGEST_ERROR = 2000
_NETWORKS = 1000
_VERBS = frozenset({"ADD", "CHECK", "DEL", "GC", "STATUS"})


class Answers:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._last_status: dict[str, int] = {}

    async def serve(self, message: Message, netns: int | None, client: Client) -> Reply:
        if message.head.question:
            return await self._question(message)
        watch = Stopwatch()
        environment = message.head.environment
        key = AttachmentKey("", environment.get("CNI_CONTAINERID", ""), environment.get("CNI_IFNAME", ""))
        version = versions.CURRENT
        verb = environment.get("CNI_COMMAND", "")
        error: CNIError | None = None
        try:
            verb = skel.judge_environment(environment)
            if verb == "DEL":
                for key in intents.keys_of(self._node, message):
                    await self._delete(key, message, netns, watch)
                reply = Reply(0, b"")
            else:
                config = skel.judge_config(message.body)
                key = key._replace(network=config["name"])
                version = config.get("cniVersion") or versions.UNDECLARED
                skel.judge_version(verb, version, versions.ALL)
                request = skel.request_of(verb, environment, config, message.body)
                reply = Reply(0, await self._do(request, message, netns, client, watch))
        except Exception as failure:
            error = explained(failure, key)
            if isinstance(error, InternalError):
                log.error("%s %s: %s", verb, key, error, exc_info=failure)
            reply = refusal(error, version)
            # Its traceback holds this frame, with the whole request in it, and this frame holds the error.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            failure.__traceback__ = None
        watch.lap("answer")
        self._record(verb, key, watch, error)
        return reply

    async def _do(
        self, request: Request, message: Message, netns: int | None, client: Client, watch: Stopwatch
    ) -> bytes:
        node = self._node
        match request.command:
            case "ADD":
                self._require_namespace(request, message)
                output = await add(node, request, netns, client, watch)
                reach("add.answered")
                return wire.indent(output)
            case "CHECK":
                self._require_namespace(request, message)
                await check(node, request, netns, watch)
            case "GC":
                await collect(node, request, message.head.sent, watch)
            case "STATUS":
                await status(node, request)
        return b""

    async def _delete(
        self, key: AttachmentKey, message: Message, netns: int | None, watch: Stopwatch
    ) -> None:
        node = self._node
        reach("del.judged")
        await delete(node, key, netns, watch, keep=lambda: intents.keep(node.settings.intents, message))
        reach("del.answered")

    @staticmethod
    def _require_namespace(request: Request, message: Message) -> None:
        """Before anything is changed."""
        override = request.environ.get("CNI_NETNS_OVERRIDE", "").upper() in ("1", "TRUE")
        if message.head.own_netns and not override:
            raise InvalidNetns("plugin's netns and netns from CNI_NETNS should not be the same")
        if message.head.own_netns:
            raise InvalidNetns("the plugin's own netns is the host's, which netloom never attaches to itself")
        if message.head.netns_error:
            raise InvalidNetns(f"{request.netns}: {message.head.netns_error}")

    def _record(self, verb: str, key: AttachmentKey, watch: Stopwatch, error: CNIError | None) -> None:
        code = error.code or 999 if error is not None else 0
        known = verb if verb in _VERBS else "other"
        self._node.counters[f"{known} {'failed' if error else 'done'}"] += 1
        if verb == "STATUS":
            # Asked every few seconds: only what is news is worth a line.
            network = key.network[:200]
            if self._last_status.get(network) == code:
                return
            if len(self._last_status) >= _NETWORKS:
                self._last_status.clear()
            self._last_status[network] = code
        operation = Operation(
            verb=verb[:16],
            network=key.network[:200],
            container_id=key.container_id[:200],
            ifname=key.ifname[:40],
            started=watch.started,
            duration=watch.total,
            phases=watch.phases,
            code=code,
            error="" if error is None else str(error)[:_LONGEST_ERROR],
        )
        self._node.journal.log(operation)
        if error is not None:
            # The error says of which attachment, if it is of one.
            of = "" if all(key) else f" {'/'.join(filter(None, key))}"[:300]
            log.warning("%s%s failed: code %d: %s", verb[:16], of, code, str(error)[:_LONGEST_ERROR])

    async def _question(self, message: Message) -> Reply:
        if message.head.question != "info":
            return Reply(1, wire.encode({"error": f"there is no question {message.head.question[:40]!r}"}))
        return Reply(0, await info(self._node))


def refusal(error: CNIError, version: str = versions.CURRENT) -> Reply:
    return Reply(1, skel.error_object(error, version if version in versions.ALL else versions.CURRENT))


def refuse(reason: str) -> Reply:
    """The reply to what is no request."""
    return refusal(CNIError(reason, code=999))
