"""HTTP: C2SP tlog-tiles, metrics and health. Reads only."""
