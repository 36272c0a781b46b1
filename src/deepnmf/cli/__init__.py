"""The command line: parse, call, show. One file a command; heavy imports stay inside functions."""
