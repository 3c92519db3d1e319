"""What operators need, without a terminal: health, audit, and what is on this node.

It imports neither the agent nor the command line: both ask it.
"""
