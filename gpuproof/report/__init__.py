"""From the record of a run to what people and pipelines read. Never asks the cluster."""
