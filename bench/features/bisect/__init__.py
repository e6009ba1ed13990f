"""The release of a package, or the commit, that made a cell slower or wrong, by bisection under noise."""
