"""Who is being attached."""

from .arguments import Arguments, Workload

__all__ = ["Arguments", "Workload"]
