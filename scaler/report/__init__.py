"""What a person sees of a run: tables, plots, self-contained HTML."""
