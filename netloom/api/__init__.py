"""The interface for programs: findings, the catalogue, the control protocol and its client, paths.

It may only import msgspec and the CNI library, so that a client starts fast.
"""
