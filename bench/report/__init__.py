"""Tables and figures. It renders; every statistic comes from `records/` and `decisions/`."""
