"""Which edition of the node's table this build has, without the table.

An agent says which one it has laid down, and `netloom status` holds that against this: to make the table for
it, with the kernel objects that it is of, would take longer than to ask. A test holds it against the table.
"""

# What `TABLE.comment` is.
EDITION = "made by netloom 85c8ed7f17fa2f63"
