"""Attaches a namespace to a network, shows its addresses, and detaches it."""

import sys

from netloom.cni import CNIError, Endpoint, Result, Runtime, load_network

runtime = Runtime(["/opt/cni/bin", "/usr/lib/cni"])
network = load_network("/etc/cni/net.d", sys.argv[1])
endpoint = Endpoint("my-container", netns=sys.argv[2])
try:
    result = runtime.add(network, endpoint, cleanup=True)
except CNIError as error:
    sys.exit(f"{error} (code {error.code}, plugin {error.plugin})")
print([ip.address for ip in result.ips] if isinstance(result, Result) else result)
runtime.delete(network, endpoint)
