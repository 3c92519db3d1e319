"""The runtime's arguments in `CNI_ARGS`, and the workload that they name."""

from __future__ import annotations

from msgspec import Struct

from ..cni.args import load_args


class Workload(Struct, frozen=True):
    """A pod, if the runtime names one, as Kubernetes and podman do; otherwise all fields are empty."""

    namespace: str = ""
    pod: str = ""
    uid: str = ""


class Arguments(
    Struct,
    frozen=True,
    rename={
        "ip": "IP",
        "mac": "MAC",
        "namespace": "K8S_POD_NAMESPACE",
        "pod": "K8S_POD_NAME",
        "uid": "K8S_POD_UID",
        "infra_container_id": "K8S_POD_INFRA_CONTAINER_ID",
    },
):
    """The arguments that netloom knows. Others are an error, unless `IgnoreUnknown` is given."""

    ip: str = ""
    mac: str = ""
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    infra_container_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Arguments:
        return load_args(text, cls)

    @property
    def workload(self) -> Workload:
        return Workload(self.namespace, self.pod, self.uid)
