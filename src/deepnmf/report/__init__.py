"""Pictures and pages of what was learned. Needs the `report` extra."""

from deepnmf.report.page import write_pictures, write_report

__all__ = ["write_pictures", "write_report"]
