"""The controllers: they see the cluster only through `simcluster.api.port.Client`, as any client could."""
