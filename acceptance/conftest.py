"""Registers the plugin, nothing else."""

pytest_plugins = ["gpuproof.plugin"]
