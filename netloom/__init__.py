"""netloom: networks for containers and virtual machines.

The parts stand on their own: `netloom.cni` is the CNI library, `netloom.cli` the command.
"""

__version__ = "0.1.0"
