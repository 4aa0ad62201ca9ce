"""The command line, exporters and reports."""
