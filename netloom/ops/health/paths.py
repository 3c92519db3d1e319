"""Findings about directories that another user could change."""

from __future__ import annotations

from ...api.findings import Finding, remedy_of


def untrusted(directory: str, text: str, remedy: str = "") -> Finding:
    """The plugin and the next agent do without it."""
    return Finding(
        code="path-untrusted", subject=directory, text=text, next=remedy or remedy_of("path-untrusted")
    )
