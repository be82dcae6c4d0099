"""Trials on the nodes of a Ray cluster: `--engine ray`. Ray is an extra, and loaded when a cluster is asked for."""
