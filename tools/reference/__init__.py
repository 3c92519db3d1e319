"""Makes the reference from the code: a page for each command, key, metric and code, and schemas of all JSON.

What the code knows is written anew each time; what people wrote in a page stays. `python -m tools.reference`
writes, `--check` only compares.
"""
