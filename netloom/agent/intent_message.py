"""The request in the file of a DEL that waits: whoever reads one takes no more than a request may have."""

from __future__ import annotations

import errno

from ..cni.files import read_document
from .protocol import REQUEST_MAX, Message, ProtocolError, decode

# Too large, a directory, a FIFO: no plugin has written that.
_NO_REQUEST = (errno.EFBIG, errno.EISDIR, errno.EINVAL)


def read_intent(path: str) -> Message:
    """Raises `ProtocolError` for what is no request, and OSError for what cannot be read now."""
    try:
        return decode(read_document(path, limit=REQUEST_MAX))
    except OSError as cause:
        if cause.errno in _NO_REQUEST:
            raise ProtocolError(f"{cause.strerror}: {path}") from None
        raise
