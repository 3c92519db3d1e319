"""The plugin side of CNI: a plugin is a module with decorated functions.

    from netloom.cni.plugin import Plugin, Request, Result

    plugin = Plugin("hello")

    @plugin.add
    def add(request: Request) -> Result:
        ...

    if __name__ == "__main__":
        plugin.main()

The order in which a request is judged, the codes and the sentences are those of Go's skel
package. Three things are better on purpose: the plugin's own namespace as a target is refused
before the callback has done anything, an error carries the config's version as the
specification wants it, and what a callback prints cannot spoil the answer.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from msgspec import Struct, ValidationError, convert

from . import names, versions, wire
from .args import load_args
from .delegate import Delegate
from .errors import (
    CNIError,
    DecodingFailure,
    IncompatibleVersion,
    InternalError,
    InvalidConfig,
    InvalidEnvironment,
    InvalidNetns,
    IOFailure,
)
from .netns import inside, is_own
from .operations import ValidAttachment
from .result import DNS, IP, AnyResult, Interface, Result, Route, empty_result, result_from_wire

__all__ = [
    "DNS",
    "IP",
    "CNIError",
    "Interface",
    "InvalidConfig",
    "Plugin",
    "Request",
    "Result",
    "Route",
    "inside",
]

S = TypeVar("S", bound=Struct)
Callback = TypeVar("Callback", bound=Callable[["Request"], AnyResult | None])

_ON_ATTACHMENT = frozenset({"ADD", "CHECK", "DEL"})
_ON_NETWORK = frozenset({"GC", "STATUS"})


class _Variable(Struct, frozen=True):
    """A variable of the environment: for which verbs it must be there, and what it must look like."""

    name: str
    required_for: frozenset[str]
    validate: Callable[[str], None] | None = None


_VARIABLES = (
    _Variable("CNI_COMMAND", _ON_ATTACHMENT | _ON_NETWORK),
    _Variable("CNI_CONTAINERID", _ON_ATTACHMENT, names.validate_container_id),
    _Variable("CNI_NETNS", frozenset({"ADD", "CHECK"})),
    _Variable("CNI_IFNAME", _ON_ATTACHMENT, names.validate_ifname),
    _Variable("CNI_PATH", _ON_ATTACHMENT | _ON_NETWORK),
)

# The version of the specification that brought a verb.
_SINCE = {"CHECK": versions.CHECK_SINCE, "GC": versions.GC_SINCE, "STATUS": versions.STATUS_SINCE}


class Request(Struct, frozen=True):
    """What the runtime asks. `config` is the whole configuration as a dict, `source` as it came."""

    command: str
    container_id: str
    netns: str
    ifname: str
    args: str
    path: str
    config: dict[str, Any]
    source: bytes
    environ: Mapping[str, str]

    @property
    def network(self) -> str:
        return str(self.config["name"])

    @property
    def cni_version(self) -> str:
        return str(self.config.get("cniVersion") or versions.UNDECLARED)

    def config_as(self, kind: type[S]) -> S:
        """The configuration as a struct of yours. Keys that it does not have are left out."""
        try:
            return convert(self.config, kind)
        except ValidationError as cause:
            raise InvalidConfig(f"invalid network config: {cause}") from None

    def args_as(self, kind: type[S]) -> S:
        """`CNI_ARGS` as a struct of yours; see `netloom.cni.args.load_args`."""
        return load_args(self.args, kind)

    @property
    def prev_result(self) -> AnyResult | None:
        """What the plugin before this one answered, or what the runtime has cached.

        DEL must work with what it has: there, a result that cannot be read is no result.
        """
        raw = self.config.get("prevResult")
        if raw is None:
            return None
        try:
            if not isinstance(raw, dict):
                raise DecodingFailure(f"could not parse prevResult: it is {wire.json_type(raw)}")
            # Before 1.0.0 a result need not say its version: it has the config's.
            version = raw.get("cniVersion") or self.cni_version
            return result_from_wire({**raw, "cniVersion": version}, "could not parse prevResult")
        except CNIError:
            if self.command == "DEL":
                return None
            raise

    @property
    def valid_attachments(self) -> tuple[ValidAttachment, ...] | None:
        """For GC: which attachments to keep. None: the runtime said nothing of them, keep all."""
        for key in ("cni.dev/valid-attachments", "cni.dev/attachments"):
            if key in self.config:
                try:
                    valid = self.config[key]
                    return convert(() if valid is None else valid, tuple[ValidAttachment, ...])
                except ValidationError as cause:
                    raise InvalidConfig(f"invalid {key}: {cause}") from None
        return None

    def delegate(self, plugin: str, config: Mapping[str, Any] | None = None) -> Delegate:
        """Another plugin, to be run with this request (or another configuration)."""
        source = self.source if config is None else wire.encode(config)
        return Delegate(plugin, source, self.cni_version, self.environ)


class Plugin:
    """Dispatches the runtime's requests to the functions that are decorated with its verbs.

    A verb without a function succeeds and does nothing. ADD returns a result of any version; it
    is printed in the config's. ADD that returns None passes on the result of the plugin before.
    """

    def __init__(self, name: str, *, about: str = "", supported: tuple[str, ...] = versions.ALL) -> None:
        self.name = name
        self.about = about or f"CNI {name} plugin"
        self.supported = supported
        self._callbacks: dict[str, Callable[[Request], AnyResult | None]] = {}

    def add(self, function: Callback) -> Callback:
        return self._register("ADD", function)

    def check(self, function: Callback) -> Callback:
        return self._register("CHECK", function)

    def delete(self, function: Callback) -> Callback:
        return self._register("DEL", function)

    def gc(self, function: Callback) -> Callback:
        return self._register("GC", function)

    def status(self, function: Callback) -> Callback:
        return self._register("STATUS", function)

    def _register(self, verb: str, function: Callback) -> Callback:
        if verb in self._callbacks:
            raise ValueError(f"{self.name} has a function for {verb} already")
        self._callbacks[verb] = function
        return function

    def main(self) -> NoReturn:
        """Answers the request in the process's environment and standard input, and exits."""
        # From here on, whatever is printed goes to stderr: only the answer belongs on stdout.
        answer = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        try:
            os.dup2(2, 1)
        except OSError:  # there is no stderr
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status, output = self.answer(os.environ, _read_stdin)
        try:
            while output:
                output = output[os.write(answer, output) :]
        except OSError:
            status = 1  # the runtime is gone
        sys.exit(status)

    def answer(self, environ: Mapping[str, str], stdin: Callable[[], bytes]) -> tuple[int, bytes]:
        """The exit status and the standard output for a request."""
        if not environ.get("CNI_COMMAND") and self.about:
            print(
                f"{self.about}\nCNI protocol versions supported: {', '.join(self.supported)}", file=sys.stderr
            )
            return 0, b""
        version = versions.CURRENT
        try:
            command = _judge_environment(environ)
            if command == "VERSION":
                return 0, self._version_object()
            source = stdin()
            config = _judge_config(source)
            version = config.get("cniVersion") or versions.UNDECLARED
            self._judge_version(command, version)
            return 0, self._call(_request(command, environ, config, source), version)
        except CNIError as error:
            return 1, _error_object(error, version)
        except BaseException as error:  # also sys.exit() in a callback: an answer is due
            import traceback

            traceback.print_exc()
            return 1, _error_object(InternalError(f"{type(error).__name__}: {error}"), version)

    def _judge_version(self, command: str, version: str) -> None:
        if command not in _ON_ATTACHMENT | _ON_NETWORK:
            raise InvalidEnvironment(f"unknown CNI_COMMAND: {names.shortened(command)}")
        if command in _SINCE:
            if not versions.at_least(version, _SINCE[command]):
                raise IncompatibleVersion(f"config version does not allow {command}")
            if not any(versions.at_least(supported, version) for supported in self.supported):
                raise IncompatibleVersion(f"plugin version does not allow {command}")
        if version not in self.supported:
            supported = " ".join(f'"{it}"' for it in self.supported)
            raise IncompatibleVersion(
                "incompatible CNI versions", f'config is "{version}", plugin supports [{supported}]'
            )

    def _call(self, request: Request, version: str) -> bytes:
        callback = self._callbacks.get(request.command)
        if callback is None:
            return b""
        override = request.environ.get("CNI_NETNS_OVERRIDE", "").upper() in ("1", "TRUE")
        if request.command in ("ADD", "DEL") and not override and is_own(request.netns):
            raise InvalidNetns("plugin's netns and netns from CNI_NETNS should not be the same")
        result = callback(request)
        if request.command != "ADD":
            return b""
        result = result or request.prev_result or empty_result(version)
        return wire.indent(result.as_version(version).encode())

    def _version_object(self) -> bytes:
        return wire.encode({"cniVersion": versions.CURRENT, "supportedVersions": self.supported}) + b"\n"


def _judge_environment(environ: Mapping[str, str]) -> str:
    """The command. The first bad value ends it; what is missing is reported together."""
    command = environ.get("CNI_COMMAND", "")
    missing = []
    for variable in _VARIABLES:
        value = environ.get(variable.name, "")
        required = command in variable.required_for
        if not value and (required or variable.name == "CNI_COMMAND"):
            missing.append(variable.name)
        elif value and required and variable.validate is not None:
            variable.validate(value)
    if missing:
        raise InvalidEnvironment(f"required env variables [{','.join(missing)}] missing")
    return command


def _judge_config(source: bytes) -> dict[str, Any]:
    what = "error unmarshall network config"
    config = wire.decode_object(source, what)
    for key in ("name", "cniVersion"):
        if not isinstance(config.get(key) or "", str):
            raise DecodingFailure(f"{what}: {key} is {wire.json_type(config[key])}, not a string")
    names.validate_network_name(config.get("name") or "")
    return config


def _request(command: str, environ: Mapping[str, str], config: dict[str, Any], source: bytes) -> Request:
    return Request(
        command=command,
        container_id=environ.get("CNI_CONTAINERID", ""),
        netns=environ.get("CNI_NETNS", ""),
        ifname=environ.get("CNI_IFNAME", ""),
        args=environ.get("CNI_ARGS", ""),
        path=environ.get("CNI_PATH", ""),
        config=config,
        source=source,
        environ=environ,
    )


def _error_object(error: CNIError, version: str) -> bytes:
    msg = f"{error.context}: {error.msg}" if error.context else error.msg
    fields = {"cniVersion": version, "code": error.code, "msg": _text(msg)}
    if error.details:
        fields["details"] = _text(error.details)
    return wire.indent(wire.encode_in_order(fields))


def _text(value: object) -> str:
    """For JSON: whatever an exception was made of, as text."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _read_stdin() -> bytes:
    chunks = []
    size = 0
    try:
        while chunk := os.read(0, 65536):
            size += len(chunk)
            if size > wire.DOCUMENT_MAX:
                raise DecodingFailure(
                    f"the network config on stdin is larger than {wire.DOCUMENT_MAX >> 20} MiB"
                )
            chunks.append(chunk)
    except OSError as cause:
        raise IOFailure(f"error reading from stdin: {cause.strerror}") from cause
    return b"".join(chunks)
