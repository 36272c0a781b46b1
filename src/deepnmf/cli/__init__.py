"""The command line: parse, call, show. One file per command; heavy imports stay in functions."""
