"""Findings about the agent: whether it runs, answers, and has troubles."""

from __future__ import annotations

from ...api.findings import Finding, remedy_of


def not_answering(code: str, text: str, subject: str, remedy: str = "") -> Finding:
    """`code` is what a look for the agent has found: that none runs, or why it cannot be asked."""
    return Finding(code=code, subject=subject, text=text, next=remedy or remedy_of(code))


def troubled(text: str, subject: str = "") -> Finding:
    return Finding(code="agent-troubled", subject=subject, text=text, next=remedy_of("agent-troubled"))
