"""Decodes and validates a runtime's request, with the order, the codes and the sentences of Go's skel.

It serves two callers: a plugin that answers itself (`plugin`), and an agent that answers for a plugin which
only forwards the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, ValidationError, convert

from . import names, versions, wire
from .args import load_args
from .errors import CNIError, DecodingFailure, IncompatibleVersion, InvalidConfig, InvalidEnvironment
from .result import AnyResult, result_from_wire
from .wire import thread_safe

if TYPE_CHECKING:
    from .operations import ValidAttachment
    from .runtime import Delegate

S = TypeVar("S", bound=Struct)

_ON_ATTACHMENT = frozenset({"ADD", "CHECK", "DEL"})
_ON_NETWORK = frozenset({"GC", "STATUS"})


class _Variable(Struct, frozen=True):
    """An environment variable: which verbs require it, and what it must look like."""

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

# The version of the specification that introduced a verb.
_SINCE = {"CHECK": versions.CHECK_SINCE, "GC": versions.GC_SINCE, "STATUS": versions.STATUS_SINCE}


class Request(Struct, frozen=True):
    """The runtime's request. `config` is the whole configuration as a dict, `source` its original bytes."""

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
        """Decodes the configuration to your struct. Keys without a field are ignored."""
        try:
            return convert(self.config, thread_safe(kind))
        except ValidationError as cause:
            raise InvalidConfig(f"invalid network config: {cause}") from None

    def args_as(self, kind: type[S]) -> S:
        """Decodes `CNI_ARGS` to your struct; see `netloom.cni.args.load_args`."""
        return load_args(self.args, kind)

    @property
    def prev_result(self) -> AnyResult | None:
        """Returns the result of the plugin before this one, or the runtime's cached result.

        DEL must work with what it has: for it, an unreadable result counts as no result.
        """
        raw = self.config.get("prevResult")
        if raw is None:
            return None
        try:
            if not isinstance(raw, dict):
                raise DecodingFailure(f"could not parse prevResult: it is {wire.json_type(raw)}")
            # Before 1.0.0 a result need not declare its version: it has the configuration's.
            version = raw.get("cniVersion") or self.cni_version
            return result_from_wire({**raw, "cniVersion": version}, "could not parse prevResult")
        except CNIError:
            if self.command == "DEL":
                return None
            raise

    @property
    def valid_attachments(self) -> tuple[ValidAttachment, ...] | None:
        """For GC: returns the attachments to keep. None: the runtime sent no list, so keep all."""
        from .operations import ValidAttachment  # and with it everything that runs plugins

        for key in ("cni.dev/valid-attachments", "cni.dev/attachments"):
            if key in self.config:
                try:
                    valid = self.config[key]
                    return convert(() if valid is None else valid, thread_safe(tuple[ValidAttachment, ...]))
                except ValidationError as cause:
                    raise InvalidConfig(f"invalid {key}: {cause}") from None
        return None

    def delegate(self, plugin: str, config: Mapping[str, Any] | None = None) -> Delegate:
        """Returns another plugin, to run with this request or another configuration."""
        from .runtime import Delegate

        source = self.source if config is None else wire.encode(config)
        return Delegate(plugin, source, self.cni_version, self.environ)


def judge_environment(environ: Mapping[str, str]) -> str:
    """Returns the command. The first invalid value is raised; missing ones are reported together."""
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


def judge_config(source: bytes) -> dict[str, Any]:
    what = "error unmarshall network config"
    config = wire.decode_object(source, what)
    for key in ("name", "cniVersion"):
        if not isinstance(config.get(key) or "", str):
            raise DecodingFailure(f"{what}: {key} is {wire.json_type(config[key])}, not a string")
    names.validate_network_name(config.get("name") or "")
    return config


def request_of(command: str, environ: Mapping[str, str], config: dict[str, Any], source: bytes) -> Request:
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


def error_object(error: CNIError, version: str) -> bytes:
    msg = f"{error.context}: {error.msg}" if error.context else error.msg
    fields = {"cniVersion": version, "code": error.code, "msg": _text(msg)}
    if error.details:
        fields["details"] = _text(error.details)
    return wire.indent(wire.encode_in_order(fields))


def _text(value: object) -> str:
    """Converts an exception's arguments, of any type, to text for JSON."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def judge_version(command: str, version: str, supported: Sequence[str]) -> None:
    if command not in _ON_ATTACHMENT | _ON_NETWORK:
        raise InvalidEnvironment(f"unknown CNI_COMMAND: {names.shortened(command)}")
    if command in _SINCE:
        if not versions.at_least(version, _SINCE[command]):
            raise IncompatibleVersion(f"config version does not allow {command}")
        if not any(versions.at_least(it, version) for it in supported):
            raise IncompatibleVersion(f"plugin version does not allow {command}")
    if version not in supported:
        listed = " ".join(f'"{it}"' for it in supported)
        raise IncompatibleVersion(
            "incompatible CNI versions",
            f'config is "{version}", plugin supports [{listed}]',
            discreet=f"incompatible CNI versions: plugin supports [{listed}]",
        )
