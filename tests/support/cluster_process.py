"""A Ray cluster of three nodes on this machine, by itself in a process: a head that carries out nothing, and two more.

Prints its address, then for each line `kill`, `add` and `behead` of its input a line when that is done; ends with its
input.
"""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

# Not 127.0.0.1, which Ray takes for the machine's own address on the network.
SHARED: dict[str, Any] = {"node_ip_address": "127.0.0.2", "object_store_memory": 80 << 20, "include_dashboard": False}


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SHARED})
    nodes = []

    def add() -> None:
        nodes.append(cluster.add_node(num_cpus=1, memory=4 << 30, **SHARED))

    try:
        add()
        add()
        print(cluster.address, flush=True)  # noqa: T201 - what it is for
        for line in sys.stdin:
            if line.strip() == "kill":
                cluster.remove_node(nodes.pop(), allow_graceful=False)
            elif line.strip() == "behead":
                head: Any = cluster.head_node
                head.kill_gcs_server()
            else:
                add()
            print(line.strip(), flush=True)  # noqa: T201 - as above
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call] # Ray's own has no types


if __name__ == "__main__":
    main()
