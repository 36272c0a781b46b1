"""The paper's tables and figures: a TOML each, rows first, pictures from rows."""
