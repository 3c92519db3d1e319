"""An agent's settings."""

from __future__ import annotations

from msgspec import Struct

from ..api.paths import DEFAULT_CONF_DIR, DEFAULT_SOCKET, DEFAULT_STATE_DIR, intents_of, journal_of


class Settings(Struct, frozen=True, kw_only=True):
    """An agent's settings. Times are in seconds."""

    state_dir: str = DEFAULT_STATE_DIR
    socket: str = DEFAULT_SOCKET
    # How long a namespace must be missing, in two checks, before its attachments are released.
    grace: float = 30.0
    # Interval of the periodic work: queued DELs, unfinished attachments, missing objects.
    tick: float = 1.0
    # Time in which every attachment is compared with the kernel once, if there are not too many.
    sweep: float = 60.0
    # How long a stop waits for requests in progress.
    patience: float = 10.0
    # The directory of CNI configurations.
    conf_dir: str = DEFAULT_CONF_DIR
    # Address and port of the HTTP listener for metrics and health; None: no listener.
    web: tuple[str, int] | None = None

    @property
    def journal(self) -> str:
        return journal_of(self.state_dir)

    @property
    def intents(self) -> str:
        return intents_of(self.socket)
