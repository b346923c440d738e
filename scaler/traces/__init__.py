"""Recorded traffic in and out of files."""
