"""Cost per node as the tape grows: it should stay flat."""

from benchmarks import figures


def track_node(nodes):
    """Recording and reverse step of one scalar node on a tape of `nodes` nodes."""
    return 1e9 * figures.cost_per_node(nodes)


track_node.unit = "ns"
track_node.params = [10**power for power in range(3, 8)]
track_node.param_names = ["nodes"]
track_node.timeout = 300
