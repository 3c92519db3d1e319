"""The workload that is attached, and the arguments of the runtime."""

from .arguments import Arguments, Workload

__all__ = ["Arguments", "Workload"]
