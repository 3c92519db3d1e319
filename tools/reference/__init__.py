"""Makes the reference from the code: a page for each command, key, metric and code, and schemas of all JSON.

It rewrites what comes from the code and keeps what people wrote in a page. `python -m tools.reference`
writes; `--check` only compares.
"""
