"""Stand-ins of operators that a site installs into its cluster: their kinds, their webhooks and their controllers."""
