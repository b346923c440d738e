"""What was: series of the past, from Headway's own metrics and, before those began, from the engines' counters."""
