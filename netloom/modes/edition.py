"""Which edition of the node's table this build has, without the table.

An agent says which one it has laid down, and `netloom status` holds that against this: to make the table for
it, with the kernel objects that it is of, would take longer than to ask. A test holds it against the table.
"""

# What `TABLE.comment` is.
EDITION = "made by netloom 68d0588cb4e8d3fc"
