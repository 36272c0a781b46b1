"""What a terminal sends and shows: Ctrl-C, remembered, and text made safe to print."""
