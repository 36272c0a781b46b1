"""Pictures and pages of a fitted model. Needs the `report` extra."""

from deepnmf.report.page import write_pictures, write_report

__all__ = ["write_pictures", "write_report"]
