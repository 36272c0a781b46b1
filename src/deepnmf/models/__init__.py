"""The estimators: `DeepNMF`, its presets, and the compared methods."""
