"""The network between GPUs: how fast ranks exchange data, by which way, and who is to blame where they are slow."""
