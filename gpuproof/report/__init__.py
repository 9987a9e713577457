"""Owns what a person or a pipeline reads after a run; must not know the cluster, the profile's file or pytest's items.

The record is the only source: everything here is computed from its lines.
"""

from gpuproof.report.view import RunView
from gpuproof.report.write import ReportPaths, write_reports

__all__ = ["ReportPaths", "RunView", "write_reports"]
