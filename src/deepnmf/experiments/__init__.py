"""The paper's tables and figures: one TOML file each; rows first, figures are made from rows."""

STUDIES = (
    "table2", "fig1", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "sensitivity", "finetuning",
    "readings",
)  # fmt: skip
"""The experiments that compare models: `design.load` reads them."""
EXPERIMENTS = (*STUDIES, "fig8", "rate")
"""Everything that `deepnmf reproduce` can do."""
