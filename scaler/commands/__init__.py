"""Families of commands: their options, what they call, what they print. Imports wait until a command needs them."""
