"""Durable state: one small interface, two implementations held to one contract suite."""
