"""A sweep, stage by stage: prepare, verify, measure, store."""
