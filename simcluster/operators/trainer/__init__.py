"""A stand-in of the Kubeflow Trainer operator (trainer.kubeflow.org), from what its project publishes."""
