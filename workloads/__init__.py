"""Programs that run in pods: each measures and reports, none knows a limit."""
