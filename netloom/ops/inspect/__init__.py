"""Attachments: what the journal and the kernel have of them, and how they differ from their plans."""
