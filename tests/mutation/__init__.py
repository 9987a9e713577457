"""Mutation tests of the judging: every small lie that the code could tell must turn a test red."""
