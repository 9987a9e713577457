"""What is checked: one folder a subject area, one file a question."""
