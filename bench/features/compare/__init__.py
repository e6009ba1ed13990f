"""Two folders of results, two revisions of a model, or two environments: what got faster, slower or wrong."""
