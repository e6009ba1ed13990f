"""The release of a package that made a cell slower or wrong, by bisection under noise."""
