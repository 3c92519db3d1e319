"""What programs exchange: documents, findings, the control protocol and its client, paths.

It needs msgspec and the CNI library alone, so that a client starts fast.
"""
