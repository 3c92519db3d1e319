"""Netlink on the wire: messages, attributes, connections, and one module for each noun.

The module of a noun builds the payloads of requests and decodes what the kernel sends. Only `connection`
keeps state: it owns a socket. Numbers are in host byte order unless a name says otherwise.
"""
