"""How an agent is started."""

from __future__ import annotations

from msgspec import Struct

from ..api.paths import DEFAULT_CONF_DIR, DEFAULT_SOCKET, DEFAULT_STATE_DIR, intents_of, journal_of


class Settings(Struct, frozen=True, kw_only=True):
    """How an agent is started. Times are seconds."""

    state_dir: str = DEFAULT_STATE_DIR
    socket: str = DEFAULT_SOCKET
    # How long a namespace must have been gone, seen twice, before what it held is released.
    grace: float = 30.0
    # How often dead namespaces, lost objects and waiting intents are looked for.
    tick: float = 1.0
    # Within this time every attachment is compared with the kernel once, if there are not too many.
    sweep: float = 60.0
    # How long a stop waits for what is under way.
    patience: float = 10.0
    # Where runtimes find networks.
    conf_dir: str = DEFAULT_CONF_DIR
    # Address and port of metrics and health; None: nowhere.
    web: tuple[str, int] | None = None

    @property
    def journal(self) -> str:
        return journal_of(self.state_dir)

    @property
    def intents(self) -> str:
        return intents_of(self.socket)
