"""Tables, figures and the page. It renders; every statistic comes from `records/` and `decisions/`."""
