"""The platform's own GPU metrics: found, read beside everything else, and held against what the pods measured.

Knows no limit and no verdict.
"""
