"""Pictures and pages of what was learned. Needs the `report` extra."""

from deepnmf.report.page import write_overview

__all__ = ["write_overview"]
