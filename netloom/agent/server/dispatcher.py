"""Turns a message into a reply: validates it in the order of the specification, runs it, records it.

Every error becomes a reply: without one, the plugin could not report anything useful.
"""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from ...api.protocol import Message, Refusal, Reply
from ...cni import AttachmentKey, CNIError, InternalError, InvalidNetns, skel, versions, wire
from ...cni.skel import Request
from ...failpoints import failpoint
from ...journal import Damaged, JournalError, Unwritable
from ..node import Node
from ..reconcile import queued_dels
from ..verbs.add import add
from ..verbs.check import check
from ..verbs.delete import delete
from ..verbs.errors import explained
from ..verbs.gc import collect
from ..verbs.status import status
from .caller import begin, caller_of
from .record import LONGEST_ERROR, Timer, operation_of, trace_of
from .rpc import RPCS
from .server import Client

log = logging.getLogger(__name__)

_NETWORKS = 1000
_VERBS = frozenset({"ADD", "CHECK", "DEL", "GC", "STATUS"})


class Dispatcher:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._last_status: dict[str, int] = {}

    async def serve(self, message: Message, netns: int | None, client: Client) -> Reply:
        if message.head.question:
            return await self._call_rpc(message)
        timer = Timer()
        environment = message.head.environment
        key = AttachmentKey("", environment.get("CNI_CONTAINERID", ""), environment.get("CNI_IFNAME", ""))
        version = versions.CURRENT
        verb = environment.get("CNI_COMMAND", "")
        subject = begin(verb, key, trace_of(message))
        error: CNIError | None = None
        try:
            verb = skel.judge_environment(environment)
            if verb == "DEL":
                try:
                    for key in queued_dels.keys_of(self._node, message):
                        subject.key = key
                        await self._delete(key, message, netns, timer)
                except (Damaged, Unwritable) as cause:
                    self._queue(message, cause)
                reply = Reply(0, b"")
            else:
                config = skel.judge_config(message.body)
                subject.key = key = key._replace(network=config["name"])
                version = config.get("cniVersion") or versions.UNDECLARED
                skel.judge_version(verb, version, versions.ALL)
                request = skel.request_of(verb, environment, config, message.body)
                reply = Reply(0, await self._do(request, message, netns, client, timer))
        except Exception as failure:
            error = explained(failure, key)
            if isinstance(error, InternalError):
                log.error("%s: %s", verb[:16], error.reason, exc_info=failure)
            reply = refusal(error, version)
            # Its traceback holds this frame, with the whole request in it, and this frame holds the error.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            failure.__traceback__ = None
        timer.lap("answer")
        record = partial(self._record, verb, key, message, caller_of(client.process), timer, error)
        if error is None:
            client.afterwards = record
        else:
            record()  # before the reply, so that a client that reads of a failure finds it in the log
        return reply

    async def _do(
        self, request: Request, message: Message, netns: int | None, client: Client, timer: Timer
    ) -> bytes:
        node = self._node
        match request.command:
            case "ADD":
                self._require_namespace(request, message)
                output = await add(node, request, netns, client, timer)
                failpoint("add.answered")
                return wire.indent(output)
            case "CHECK":
                self._require_namespace(request, message)
                await check(node, request, netns, timer)
            case "GC":
                await collect(node, request, message.head.sent, timer)
            case "STATUS":
                await status(node, request)
        return b""

    async def _delete(self, key: AttachmentKey, message: Message, netns: int | None, timer: Timer) -> None:
        node = self._node
        failpoint("del.judged")
        await delete(node, key, netns, timer, keep=lambda: queued_dels.keep(node.settings.intents, message))
        failpoint("del.answered")

    def _queue(self, message: Message, cause: JournalError) -> None:
        """Queues a DEL that needs the journal, as the plugin does without an agent."""
        queued_dels.keep(self._node.settings.intents, message)
        self._node.tally.count("queued")
        log.warning("queued a DEL because the journal cannot be used: %s", cause)

    @staticmethod
    def _require_namespace(request: Request, message: Message) -> None:
        """Checks the namespace that the plugin opened. Must run before anything is changed."""
        override = request.environ.get("CNI_NETNS_OVERRIDE", "").upper() in ("1", "TRUE")
        if message.head.own_netns and not override:
            raise InvalidNetns("plugin's netns and netns from CNI_NETNS should not be the same")
        if message.head.own_netns:
            raise InvalidNetns("the plugin's own netns is the host's; netloom attaches only containers")
        if message.head.netns_error:
            raise InvalidNetns(f"{request.netns}: {message.head.netns_error}")

    def _record(
        self,
        verb: str,
        key: AttachmentKey,
        message: Message,
        caller: str,
        timer: Timer,
        error: CNIError | None,
    ) -> None:
        """Records an operation. Logs an error in doing so: it must not change the reply."""
        try:
            failpoint("operation.recorded")
            self._write_down(verb, key, message, caller, timer, error)
        except Exception:
            log.exception("cannot record %s in the log of operations", verb[:16])

    def _write_down(
        self,
        verb: str,
        key: AttachmentKey,
        message: Message,
        caller: str,
        timer: Timer,
        error: CNIError | None,
    ) -> None:
        code = error.code or 999 if error is not None else 0
        known = verb if verb in _VERBS else "other"
        self._node.tally.count(f"{known} {'failed' if error else 'done'}")
        self._node.tally.operation(known, code, timer)
        if verb == "STATUS" and not self._is_new_status(key.network[:200], code):
            return
        self._node.journal.log(operation_of(verb, key, message, caller, timer, error))
        if error is not None:
            log.warning("%s failed: code %d: %s", verb[:16], code, error.reason[:LONGEST_ERROR])
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("%s done in %.1f ms", verb, timer.total)

    def _is_new_status(self, network: str, code: int) -> bool:
        """Runtimes send STATUS every few seconds; only a changed result is recorded."""
        if self._last_status.get(network) == code:
            return False
        if len(self._last_status) >= _NETWORKS:
            self._last_status.clear()
        self._last_status[network] = code
        return True

    async def _call_rpc(self, message: Message) -> Reply:
        asked = RPCS.get(message.head.question)
        if asked is None:
            unknown = Refusal(f"unknown RPC {message.head.question[:40]!r}")
            return Reply(1, msgspec.json.encode(unknown))
        try:
            return Reply(0, await asked(self._node, message.body))
        except Exception as failure:
            error = explained(failure, None)
            if isinstance(error, InternalError):
                log.error("RPC %s: %s", message.head.question, error.discreet, exc_info=failure)
            return Reply(1, msgspec.json.encode(Refusal(str(error), error.code)))


def refusal(error: CNIError, version: str = versions.CURRENT) -> Reply:
    """Returns an error reply that names `netloom explain CODE`: runtimes show the text, but not the code.

    They append details to the message with a semicolon, and some with a colon: both must read well.
    """
    see = f"netloom explain {error.code or InternalError.code}"
    details = "; ".join(filter(None, (error.details, f"more: {see}")))
    shown = CNIError(error.msg, details, code=error.code)
    shown.context = error.context
    return Reply(1, skel.error_object(shown, version if version in versions.ALL else versions.CURRENT))


def refuse(reason: str) -> Reply:
    """Returns the reply to an invalid request."""
    return refusal(CNIError(reason, code=999))
