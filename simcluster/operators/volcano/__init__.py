"""A stand-in of Volcano (batch.volcano.sh, scheduling.volcano.sh), from what its project publishes."""
