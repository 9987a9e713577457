"""The project's own tests; they mirror the packages."""
