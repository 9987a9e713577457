"""The embedded simulated cluster: a Kubernetes API on loopback whose pods are local processes.

It must not know the harness: the two meet over HTTP and over this package's own command line.
"""
