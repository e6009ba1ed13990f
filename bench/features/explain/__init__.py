"""Why a cell is as fast and as right as it is: times of operators, changes by steps, and where outputs drift."""
