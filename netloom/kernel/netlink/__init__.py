"""Netlink on the wire: messages, attributes, connections, and one module for each noun.

A module of a noun has functions that build the payload of a request and one that decodes what the
kernel sends. Nothing in here keeps state, except `connection`, which owns a socket. Numbers are in
host byte order unless a name says otherwise.
"""
