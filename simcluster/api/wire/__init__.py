"""HTTP in, bytes out: paths, content types, lists, watches, tables and discovery of the simulated API."""
