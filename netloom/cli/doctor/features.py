"""What the kernel can do, found out by doing it; and libraries that netloom loads."""

from __future__ import annotations

from collections.abc import Iterator

from ...api.findings import Finding
from ...kernel.features import Availability, probe
from .ground import Ground

_LIBRARY = "libnftables"
_PACKAGE = "libnftables1"


def look(ground: Ground) -> Iterator[Finding]:
    ground.features = list(probe())
    for feature in ground.features:
        if feature.essential and not feature.present:
            yield _missing(feature)


def _missing(feature: Availability) -> Finding:
    if _LIBRARY in feature.reason:
        return Finding(
            code="package-missing",
            subject=_PACKAGE,
            text=f"{feature.feature}, which is needed for {feature.needed_for}, is missing: {feature.reason}",
            next=f"`apt install {_PACKAGE}` on Debian and Ubuntu, `dnf install nftables` on Fedora",
        )
    return Finding(
        code="feature-missing",
        subject=feature.feature,
        text=f"{feature.feature}, which is needed for {feature.needed_for}, is missing: {feature.reason}",
        next=feature.remedy,
    )
